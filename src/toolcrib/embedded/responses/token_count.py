"""How many tokens a request begins with."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, Protocol, assert_never, runtime_checkable

from toolcrib.embedded.backend import Answered, Called, Question, Said
from toolcrib.embedded.responses.request import read_format

if TYPE_CHECKING:
    from toolcrib.embedded.backend import Brain, Turn
    from toolcrib.embedded.responses.request import CreateResponse

BYTES_PER_TOKEN: Final = 4
PER_TURN: Final = 4
PER_IMAGE: Final = 85


@runtime_checkable
class CountingBrain(Protocol):
    """A brain that knows how its model cuts text."""

    async def count(self, question: Question) -> int:
        """The tokens of a question."""
        ...


async def count_of(brain: Brain, asked: CreateResponse, turns: list[Turn]) -> int:
    """The brain's own count, and with the tools of the request an estimate: four bytes of text are
    a token, a turn is four more, and an image is 85.
    """
    tools = estimate(json.dumps(each, ensure_ascii=False) for each in asked.tools or [])
    if isinstance(brain, CountingBrain):
        output = read_format(asked.text).output
        question = Question(asked.model, turns, instructions=asked.instructions, output=output)
        return await brain.count(question) + tools
    texts = [asked.instructions] if asked.instructions else []
    images = sum(len(turn.images) for turn in turns if isinstance(turn, Said))
    return estimate([*texts, *map(_text, turns)]) + PER_IMAGE * images + tools


def estimate(texts: Iterable[str]) -> int:
    """About how many tokens texts are."""
    return sum(-(-len(text.encode()) // BYTES_PER_TOKEN) + PER_TURN for text in texts)


def _text(turn: Turn) -> str:
    match turn:
        case Said() | Answered():
            return turn.text
        case Called():
            return turn.name + turn.arguments
        case _:
            assert_never(turn)

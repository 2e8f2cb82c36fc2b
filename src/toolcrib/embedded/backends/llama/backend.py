"""The local brain."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, TypeAlias, cast

from toolcrib.embedded.backend import (
    BrainFailed,
    Called,
    Cut,
    Piece,
    Proposed,
    Question,
    Said,
    Spent,
    Text,
)
from toolcrib.embedded.backends.llama.constraint import constraint_for
from toolcrib.embedded.backends.llama.engine import Engine, Written
from toolcrib.embedded.backends.llama.transcript import (
    FULL,
    Guide,
    Message,
    guide_for,
    messages_for,
)
from toolcrib.embedded.weights.catalog import DEFAULT, find_model

MOST_TOKENS: Final = 1024

Write: TypeAlias = Callable[[list[Message], dict[str, Any], int], Awaitable[Written]]
"""Takes messages, the schema that the text must fit, and the most tokens."""


class LocalBrain:
    """A GGUF model in this process, by the name of a known one or by a path.

    It proposes one call at a time. A call that it has made already with the same arguments is not
    made again: it has to answer then.
    """

    is_scripted = False

    def __init__(
        self,
        model: str | os.PathLike[str] = DEFAULT.name,
        *,
        name: str | None = None,
        threads: int | None = None,
        context: int = 8192,
    ) -> None:
        path = find_model(model)
        self._name = name or (str(model) if os.sep not in str(model) else path.stem)
        self._guide = guide_for(path.stat().st_size)
        self._engine = Engine(path, threads=threads, context=context)

    @property
    def name(self) -> str:
        """The model's name, as clients ask for it."""
        return self._name

    async def aclose(self) -> None:
        """Let go of the model."""
        self._engine.close()

    def propose(self, question: Question) -> AsyncIterator[Piece]:
        """One step: a call, or an answer."""
        return propose_with(self._engine.write, question, self._guide)


async def propose_with(
    write: Write, question: Question, guide: Guide = FULL
) -> AsyncIterator[Piece]:
    """One step, by whatever writes texts that fit a schema."""
    offers = [] if question.choice == "none" else list(question.offers)
    may_answer = question.choice != "required" or not offers
    most = min(question.max_output_tokens or MOST_TOKENS, MOST_TOKENS)
    messages = messages_for(question, guide)
    schema = constraint_for(offers, question.output, may_answer=may_answer)
    written = await write(messages, schema, most)
    yield Spent(written.input_tokens, written.output_tokens)
    piece = _piece(written)
    if may_answer and isinstance(piece, Proposed) and _key(piece) in _made(question):
        written = await write(messages, constraint_for([], question.output, may_answer=True), most)
        yield Spent(written.input_tokens, written.output_tokens)
        piece = _piece(written)
    yield piece


def _piece(written: Written) -> Piece:
    try:
        step = cast(dict[str, Any], json.loads(written.text))
    except ValueError:
        if not written.is_cut:
            raise BrainFailed("the local model wrote something that is no JSON") from None
        return Cut("max_output_tokens")
    if "tool" in step:
        return Proposed(str(step["tool"]), json.dumps(step.get("arguments", {})))
    answer = step.get("answer", "")
    return Text(answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False))


def _made(question: Question) -> set[tuple[str, str]]:
    """The calls since the user spoke."""
    calls: set[tuple[str, str]] = set()
    for turn in question.turns:
        if isinstance(turn, Said) and turn.role == "user":
            calls = set()
        elif isinstance(turn, Called):
            calls.add(_key(turn))
    return calls


def _key(call: Called | Proposed) -> tuple[str, str]:
    """A call by its name and its arguments, however they are written."""
    with suppress(ValueError):
        return call.name, json.dumps(json.loads(call.arguments), sort_keys=True)
    return call.name, call.arguments

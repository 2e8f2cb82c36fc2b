"""The input tokens of a request, counted or estimated."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, Protocol, assert_never, runtime_checkable

from toolcrib.embedded.backend import BackendCall, BackendCallResult, BackendMessage, BackendRequest
from toolcrib.embedded.responses.request import read_format

if TYPE_CHECKING:
    from toolcrib.embedded.backend import BackendInput, ModelBackend
    from toolcrib.embedded.responses.request import ResponseRequest

BYTES_PER_TOKEN: Final = 4
PER_TURN: Final = 4
PER_IMAGE: Final = 85


@runtime_checkable
class TokenCounter(Protocol):
    """A backend that counts tokens with its model's tokenizer."""

    async def count(self, request: BackendRequest) -> int:
        """The tokens of a request."""
        ...


async def count_tokens(
    backend: ModelBackend, request: ResponseRequest, turns: list[BackendInput]
) -> int:
    """Count the tokens of a request: the backend's own count, or an estimate.

    The estimate is one token for four bytes of text, four for each entry of the history and 85 for
    each image. The tools of the request are always estimated, from their JSON.
    """
    tools = estimate(json.dumps(each, ensure_ascii=False) for each in request.tools or [])
    if isinstance(backend, TokenCounter):
        output = read_format(request.text).output
        backend_request = BackendRequest(
            request.model, turns, instructions=request.instructions, output=output
        )
        return await backend.count(backend_request) + tools
    texts = [request.instructions] if request.instructions else []
    images = sum(len(turn.images) for turn in turns if isinstance(turn, BackendMessage))
    return estimate([*texts, *map(_text, turns)]) + PER_IMAGE * images + tools


def estimate(texts: Iterable[str]) -> int:
    """Estimate the tokens of texts."""
    return sum(-(-len(text.encode()) // BYTES_PER_TOKEN) + PER_TURN for text in texts)


def _text(turn: BackendInput) -> str:
    match turn:
        case BackendMessage() | BackendCallResult():
            return turn.text
        case BackendCall():
            return turn.name + turn.arguments
        case _:
            assert_never(turn)

"""Answers and refusals as HTTP responses."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from pydantic_core import to_json

from toolcrib.errors import HttpRefused, Refused
from toolcrib.transports.refusals import REFUSALS

if TYPE_CHECKING:
    from starlette.types import Send

RawHeaders = Iterable[tuple[bytes, bytes]]

_ALWAYS: Final = (
    (b"content-type", b"application/json"),
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
)


def as_bytes(answer: object) -> bytes:
    """An answer as JSON, the same as `as_json` gives."""
    return to_json(answer, inf_nan_mode="strings", fallback=str)


def refusal_json(refused: Refused) -> dict[str, Any]:
    """A refusal as every route tells it."""
    error = {"kind": refused.kind, "message": refused.message, "facts": refused.facts}
    return {"error": error}


def status_of(refused: Refused) -> int:
    """The HTTP status of a refusal."""
    return refused.status if isinstance(refused, HttpRefused) else REFUSALS[refused.kind].status


async def send_json(send: Send, status: int, body: bytes, headers: RawHeaders = ()) -> None:
    """Send one whole JSON response."""
    length = (b"content-length", str(len(body)).encode())
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [*_ALWAYS, length, *headers],
        }
    )
    await send({"type": "http.response.body", "body": body})


async def send_refusal(send: Send, refused: Refused) -> None:
    """Send a refusal with its status."""
    headers: list[tuple[bytes, bytes]] = []
    if refused.kind == "unauthorized":
        headers.append((b"www-authenticate", b"Bearer"))
    if refused.kind == "too_large":
        # The rest of the body is not read, so the connection cannot carry another request.
        headers.append((b"connection", b"close"))
    await send_json(send, status_of(refused), as_bytes(refusal_json(refused)), headers)

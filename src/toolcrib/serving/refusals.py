"""Answers and refusals as HTTP responses.

How each kind of refusal is told, on every transport.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pydantic_core import to_json

from toolcrib.errors import HttpRefused, Refused

if TYPE_CHECKING:
    from starlette.types import Send

    from toolcrib.errors import RefusalKind


UNREADABLE_STATUS: Final = 400
"""The HTTP status of a body that is not JSON at all."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Told:
    """The numbers of one kind of refusal."""

    code: int
    """The error code of JSON-RPC."""
    status: int
    """The status of HTTP."""


REFUSALS: Final[dict[RefusalKind, Told]] = {
    "unauthorized": Told(-32001, 401),
    "forbidden": Told(-32002, 403),
    "invalid": Told(-32602, 422),
    "not_found": Told(-32004, 404),
    "conflict": Told(-32009, 409),
    "busy": Told(-32010, 409),
    "too_large": Told(-32013, 413),
    "unavailable": Told(-32011, 503),
    "closing": Told(-32012, 503),
    "internal": Told(-32603, 500),
}


def as_refused(error: Exception, operation: str) -> Refused:
    """What is told of an exception. One that nobody foresaw is logged, and told without details:
    its text may hold what the client must not see.
    """
    if isinstance(error, Refused):
        return error
    _log.error("%s failed", operation[:80], exc_info=error)
    return Refused("internal", f"{operation[:80]} failed inside; the log of the runtime says why")


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

"""Request bodies as servers read them and refusals as clients get them.

A body is read no further than a limit. Each kind of refusal has a JSON-RPC code and an HTTP status,
and a JSON response over HTTP.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pydantic_core import to_json

from toolcrib.errors import HttpRefused, Refused

if TYPE_CHECKING:
    from starlette.types import Receive, Send

    from toolcrib.errors import RefusalKind


UNREADABLE_STATUS: Final = 400
"""The HTTP status of a body or query that cannot be parsed."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RefusalCodes:
    """The codes of one kind of refusal."""

    code: int
    """The JSON-RPC error code."""
    status: int
    """The HTTP status."""


REFUSALS: Final[dict[RefusalKind, RefusalCodes]] = {
    "unauthorized": RefusalCodes(-32001, 401),
    "forbidden": RefusalCodes(-32002, 403),
    "invalid": RefusalCodes(-32602, 422),
    "not_found": RefusalCodes(-32004, 404),
    "conflict": RefusalCodes(-32009, 409),
    "busy": RefusalCodes(-32010, 409),
    "too_many_requests": RefusalCodes(-32014, 429),
    "too_large": RefusalCodes(-32013, 413),
    "unavailable": RefusalCodes(-32011, 503),
    "closing": RefusalCodes(-32012, 503),
    "internal": RefusalCodes(-32603, 500),
}


def as_refused(error: Exception, operation: str) -> Refused:
    """The refusal that a client gets for an exception. An unexpected exception is logged and its
    text withheld: it may contain what the client must not see.
    """
    if isinstance(error, Refused):
        return error
    _log.error("%s failed", operation[:80], exc_info=error)
    return Refused(
        "internal", f"{operation[:80]} failed unexpectedly; see the runtime's log for the cause"
    )


RawHeaders = Iterable[tuple[bytes, bytes]]

_SAFE_HEADERS: Final = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
)
_JSON_HEADERS: Final = ((b"content-type", b"application/json"), *_SAFE_HEADERS)


def as_bytes(answer: object) -> bytes:
    """An answer as JSON."""
    return to_json(answer, inf_nan_mode="strings", fallback=str)


def refusal_json(refused: Refused) -> dict[str, Any]:
    """The JSON body of a refusal."""
    error = {"kind": refused.kind, "message": refused.message, "facts": refused.facts}
    return {"error": error}


def status_of(refused: Refused) -> int:
    """The HTTP status of a refusal."""
    return refused.status if isinstance(refused, HttpRefused) else REFUSALS[refused.kind].status


async def send_json(send: Send, status: int, body: bytes, headers: RawHeaders = ()) -> None:
    """Send one complete JSON response."""
    length = (b"content-length", str(len(body)).encode())
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [*_JSON_HEADERS, length, *headers],
        }
    )
    await send({"type": "http.response.body", "body": body})


async def send_bytes(send: Send, status: int, body: bytes, content_type: str) -> None:
    """Send one complete response of any type."""
    own = [(b"content-type", content_type.encode()), (b"content-length", str(len(body)).encode())]
    headers = [*own, *_SAFE_HEADERS]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def send_refusal(send: Send, refused: Refused, more_headers: RawHeaders = ()) -> None:
    """Send a refusal with its status."""
    headers = [*more_headers]
    if (seconds := refused.facts.get("retry_after_seconds")) is not None:
        headers.append((b"retry-after", str(seconds).encode()))
    if refused.kind == "too_large":
        # The rest of the body stays unread, so the connection cannot carry another request.
        headers.append((b"connection", b"close"))
    await send_json(send, status_of(refused), as_bytes(refusal_json(refused)), headers)


async def read_body(receive: Receive, limit: int) -> bytes:
    """The body of a request. Raises `Refused`: too_large beyond `limit` bytes, whatever length the
    request declared, and invalid when the client disconnects first.
    """
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise Refused("invalid", "the client disconnected before it had sent the body")
        chunk: bytes = message.get("body", b"")
        size += len(chunk)
        if size > limit:
            raise body_too_large(limit)
        chunks.append(chunk)
        if not message.get("more_body", False):
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def body_too_large(limit: int) -> Refused:
    """The refusal of a body of more than `limit` bytes."""
    return Refused("too_large", f"the body has more than {limit} bytes, the maximum")


async def wait_for_disconnect(receive: Receive) -> None:
    """Wait until the client closes the connection."""
    while (await receive())["type"] != "http.disconnect":
        pass

"""What is asked, out of the path, the query, the headers and the body of a request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import parse_qsl

from pydantic_core import from_json

from toolcrib.errors import Refused
from toolcrib.transports.http.answers import HttpRefused
from toolcrib.transports.http.headers import Headers, text_of
from toolcrib.transports.refusals import UNREADABLE_STATUS

if TYPE_CHECKING:
    from starlette.types import Receive, Scope

    from toolcrib.transports.http.routes import OperationRoute

_JSON: Final = b"application/json"


async def read_params(
    route: OperationRoute, scope: Scope, receive: Receive, headers: Headers, limit: int
) -> dict[str, Any]:
    """The parameters of an operation. Raises `Refused`."""
    told = query_of(scope)
    if route.verb == "POST":
        if told:
            raise Refused("invalid", "parameters of a POST go into its body, not the URL")
        told = await _read_body(receive, headers, limit)
        if "idempotency_key" in told:
            raise Refused("invalid", "send the key as the header Idempotency-Key")
    key = text_of(headers, b"idempotency-key")
    known: dict[str, Any] = scope["path_params"]
    if key is not None and route.verb != "GET":
        if not route.takes_key:
            raise Refused("invalid", f"{route.name} takes no Idempotency-Key; leave it out")
        known = {**known, "idempotency_key": key}
    for name in known:
        if name in told:
            raise Refused("invalid", f"{name} is told twice: leave it out of the body or query")
    told.update(known)
    return told


def query_of(scope: Scope) -> dict[str, Any]:
    """The query; a name that comes twice is refused."""
    raw: bytes = scope["query_string"]
    if not raw:
        return {}
    try:
        pairs = parse_qsl(raw.decode("ascii"), keep_blank_values=True, max_num_fields=50)
    except ValueError:
        raise HttpRefused(UNREADABLE_STATUS, "invalid", "the query cannot be read") from None
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise Refused("invalid", f"{name[:80]!r} is in the query twice")
        found[name] = value
    return found


async def _read_body(receive: Receive, headers: Headers, limit: int) -> dict[str, Any]:
    kind = headers.get(b"content-type", b"")
    if kind != _JSON and kind.partition(b";")[0].strip().lower() != _JSON:
        raise HttpRefused(415, "invalid", "send JSON, with `Content-Type: application/json`")
    body = await _whole(receive, headers, limit)
    try:
        told = from_json(body, allow_inf_nan=False)
    except ValueError:
        raise HttpRefused(UNREADABLE_STATUS, "invalid", "the body is not JSON") from None
    if not isinstance(told, dict):
        raise Refused("invalid", "the body must be a JSON object")
    return cast("dict[str, Any]", told)


async def _whole(receive: Receive, headers: Headers, limit: int) -> bytes:
    """The body, read no further than the limit: it may say that it is small and not be."""
    length = headers.get(b"content-length", b"0")
    if length.isdigit() and int(length) > limit:
        raise _too_large(limit)
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refused("invalid", "the client left before it had sent the body")
        chunk: bytes = message.get("body", b"")
        size += len(chunk)
        if size > limit:
            raise _too_large(limit)
        chunks.append(chunk)
        if not message.get("more_body", False):
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _too_large(limit: int) -> Refused:
    return Refused("too_large", f"the body has more than {limit} bytes, which is the most taken")

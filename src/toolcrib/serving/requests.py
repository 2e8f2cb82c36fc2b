"""Request bodies over ASGI, read no further than a limit, and clients that disconnect."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolcrib.errors import Refused

if TYPE_CHECKING:
    from starlette.types import Receive


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

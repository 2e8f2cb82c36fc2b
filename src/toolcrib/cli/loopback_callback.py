"""Where a browser comes back to after a sign-in that a command began: an address of this machine,
for one answer (RFC 8252).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import parse_qsl, urlsplit

_PATH: Final = "/callback"
_MAX_LINE: Final = 16_384
_SECONDS: Final = 10.0
_DONE: Final = b"You can close this page."
_NOT_HERE: Final = b"There is nothing here."


class LoopbackCallback:
    """Listens for the answer of an authorization server."""

    def __init__(self) -> None:
        self.redirect_uri = ""
        self._answers: asyncio.Queue[dict[str, str]] = asyncio.Queue(maxsize=8)

    async def answer(self, state: str) -> dict[str, str]:
        """The answer with this state; others, which any page can make a browser send, are left."""
        while True:
            found = await self._answers.get()
            if found.get("state") == state:
                return found

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request."""
        try:
            async with asyncio.timeout(_SECONDS):
                line = await reader.readline()
                answer = _read(line)
                is_ours = answer is not None and not self._answers.full()
                if is_ours and answer is not None:
                    self._answers.put_nowait(answer)
                body = _DONE if is_ours else _NOT_HERE
                status = b"200 OK" if is_ours else b"404 Not Found"
                writer.write(
                    b"HTTP/1.1 " + status + b"\r\ncontent-type: text/plain\r\n"
                    b"content-length: " + str(len(body)).encode() + b"\r\n"
                    b"cache-control: no-store\r\nreferrer-policy: no-referrer\r\n"
                    b"connection: close\r\n\r\n" + body
                )
                await writer.drain()
        except (TimeoutError, ValueError, OSError):
            # A client that sends nothing, or too much, or leaves.
            return
        finally:
            writer.close()


def _read(line: bytes) -> dict[str, str] | None:
    try:
        method, target, _ = line.decode("ascii").split(" ", 2)
        parts = urlsplit(target)
        query = dict(parse_qsl(parts.query, max_num_fields=50))
    except ValueError:
        return None
    return query if method == "GET" and parts.path == _PATH else None


@asynccontextmanager
async def loopback_callback(port: int) -> AsyncGenerator[LoopbackCallback]:
    """Listen on a port of this machine, for as long as the block runs."""
    callback = LoopbackCallback()
    server = await asyncio.start_server(callback.serve, "127.0.0.1", port, limit=_MAX_LINE)
    try:
        chosen = server.sockets[0].getsockname()[1]
        callback.redirect_uri = f"http://127.0.0.1:{chosen}{_PATH}"
        yield callback
    finally:
        server.close()

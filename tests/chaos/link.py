"""A network link between a replica and its database that can be cut: what is sent stays on its way,
no connection is refused, and nothing says that it is broken.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit


class Link:
    """Forwards connections to a server on loopback, while it is whole."""

    def __init__(self, url: str) -> None:
        self._url: Final = url
        self._whole = asyncio.Event()
        self._whole.set()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> str:
        """Begin to forward; returns the URL of the database on this side."""
        self._server = await asyncio.start_server(self._take, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        parts = urlsplit(self._url)
        return urlunsplit(parts._replace(netloc=f"{parts.username}@127.0.0.1:{port}"))

    def cut(self) -> None:
        """Forward nothing from now on."""
        self._whole.clear()

    def mend(self) -> None:
        """Forward again, also what was sent in between."""
        self._whole.set()

    async def close(self) -> None:
        """Close all connections."""
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task: Any = asyncio.current_task()
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        await self._whole.wait()
        target = urlsplit(self._url)
        try:
            far = await asyncio.open_connection(target.hostname, target.port)
        except OSError:
            writer.close()
            return
        both = [
            asyncio.ensure_future(self._pass_on(reader, far[1])),
            asyncio.ensure_future(self._pass_on(far[0], writer)),
        ]
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in both:
                each.cancel()
            await asyncio.gather(*both, return_exceptions=True)
            writer.close()
            far[1].close()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                await self._whole.wait()
                writer.write(data)
                await writer.drain()
        except OSError:
            pass

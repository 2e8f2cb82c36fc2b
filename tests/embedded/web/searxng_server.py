"""A search engine on this machine that speaks as SearXNG does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit


@dataclass(slots=True)
class Engine:
    """What it answers, and what it was asked."""

    body: bytes = b"{}"
    status: int = 200
    queries: list[str] = field(default_factory=list[str])
    url: str = ""

    def answers(self, *results: object) -> None:
        """Answer with these results from now on."""
        self.body = json.dumps({"results": results}).encode()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request on a connection."""
        head = await reader.readuntil(b"\r\n\r\n")
        path = head.decode().split(" ")[1]
        self.queries += parse_qs(urlsplit(path).query).get("q", [])
        length = f"content-length: {len(self.body)}\r\nconnection: close\r\n"
        writer.write(f"HTTP/1.1 {self.status} X\r\n{length}\r\n".encode() + self.body)
        writer.close()


@asynccontextmanager
async def search_engine() -> AsyncGenerator[Engine]:
    """A running engine."""
    engine = Engine()
    server = await asyncio.start_server(engine.handle, "127.0.0.1", 0)
    engine.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield engine

"""A server that loses connections, to see what a client does about it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass
class LossyServer:
    """Closes the first connections after it has read the request, then answers with `body`."""

    losses: int
    bad_gateways: int = 0
    """How many requests after those a balancer answers in place of the server."""
    body: bytes = b"{}"
    status: str = "200 OK"
    headers: str = ""
    port: int = 0
    requests: list[str] = field(default_factory=list[str])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def keys(self) -> list[str]:
        """The idempotency keys of the requests, in order."""
        lines = [line for request in self.requests for line in request.split("\r\n")]
        return [line for line in lines if line.lower().startswith("idempotency-key")]

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = [line for line in head.lower().split("\r\n") if line.startswith("content-length")]
        body = await reader.readexactly(int(length[0].split(":")[1])) if length else b""
        self.requests.append(head + body.decode())
        if self.losses < len(self.requests) <= self.losses + self.bad_gateways:
            writer.write(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
        elif len(self.requests) > self.losses:
            lines = f"Content-Length: {len(self.body)}\r\nConnection: close\r\n{self.headers}"
            writer.write(f"HTTP/1.1 {self.status}\r\n{lines}\r\n".encode() + self.body)
        writer.close()


@asynccontextmanager
async def lossy(losses: int, **answer: object) -> AsyncGenerator[LossyServer]:
    """A server that loses so many requests."""
    lost = LossyServer(losses, **answer)  # pyright: ignore[reportArgumentType]
    server = await asyncio.start_server(lost.answer, "127.0.0.1", 0)
    lost.port = server.sockets[0].getsockname()[1]
    async with server:
        yield lost

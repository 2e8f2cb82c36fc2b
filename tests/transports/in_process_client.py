"""A client and a peer in one process, with nothing between them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from tests.transports.rpc_client import RpcClient
from toolcrib.runtime.principal import OWNER, Principal
from toolcrib.runtime.runtime import Runtime
from toolcrib.transports.peer import Peer


class Wire(RpcClient):
    """Reads while `may_read` is set."""

    def __init__(self, peer: Peer) -> None:
        super().__init__(peer.receive)
        self.peer = peer
        self.may_read = asyncio.Event()
        self.may_read.set()
        self.reading = asyncio.ensure_future(self._read())

    async def _read(self) -> None:
        async for frame in self.peer.frames():
            await self.may_read.wait()
            self.take(frame)
        self.lost()


@asynccontextmanager
async def wired(runtime: Runtime, who: Principal = OWNER, **limits: Any) -> AsyncGenerator[Wire]:
    """A client of a runtime that is started."""
    wire = Wire(Peer(runtime, who, **limits))
    try:
        yield wire
    finally:
        wire.peer.close()
        wire.may_read.set()
        await wire.reading

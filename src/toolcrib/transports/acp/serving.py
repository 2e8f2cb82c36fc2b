"""A runtime as an agent of the Agent Client Protocol on standard input and output."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from acp.connection import Connection

from toolcrib.runtime.principal import OWNER
from toolcrib.transports.acp.agent import Agent
from toolcrib.transports.acp.cancelling import CancellingTransport
from toolcrib.transports.acp.editor import Editor
from toolcrib.transports.acp.lines import LineTransport
from toolcrib.transports.acp.routes import Routing
from toolcrib.transports.stop_signals import on_stop_signals

if TYPE_CHECKING:
    from toolcrib.runtime.principal import Principal
    from toolcrib.runtime.runtime import Runtime
    from toolcrib.transports.stdio_pipes import Pipes

FLUSH_SECONDS: Final = 5.0
"""How long a client may take to read the last answers."""


async def serve_acp(runtime: Runtime, pipes: Pipes, who: Principal = OWNER) -> None:
    """Start the runtime and serve one editor until it ends its input, leaves, or the process is
    asked to stop; then let what runs end, cancel what lasts, and close the runtime.

    `pipes` come from `claim_pipes`, which is for the program to call before it loads any tool.
    """
    await runtime.start()
    transport = LineTransport(pipes, runtime.config.max_payload_bytes)
    served = Served(runtime, transport, who)
    stopped = asyncio.Event()
    listening = asyncio.ensure_future(served.connection.main_loop())
    waiting = asyncio.ensure_future(stopped.wait())
    try:
        with on_stop_signals(stopped.set):
            ends = [listening, waiting, transport.ending]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if not stopped.is_set():
                served.agent.close()
            # Who is still there is heard meanwhile: it may have calls of ours to answer.
            await runtime.close()
            await served.routing.drain(FLUSH_SECONDS)
            served.agent.close()
            await transport.written(FLUSH_SECONDS)
    finally:
        await _end(served.connection, listening, waiting)
        pipes.close()


class Served:
    """An agent, and the connection to the client at the other end of the lines. Run the
    connection's `main_loop`; close both when it ends.
    """

    def __init__(self, runtime: Runtime, transport: LineTransport, who: Principal = OWNER) -> None:
        lines = CancellingTransport(transport)
        self.connection = Connection(self._handle, lines, listening=False)
        self.agent = Agent(runtime, replace(who, transport="acp"), Editor(self.connection))
        self.routing = Routing(self.agent)

    async def _handle(self, method: str, params: Any, is_notification: bool) -> Any:
        return await self.routing.handle(method, params, is_notification)


async def _end(connection: Connection, *tasks: asyncio.Future[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await connection.close()

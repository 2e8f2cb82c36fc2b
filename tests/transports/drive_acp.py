"""The suite over the Agent Client Protocol: prompts and permissions are the protocol's own, and
calls without a model are operations of the extension.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Literal

from acp.client.connection import ClientSideConnection
from acp.schema import TextContentBlock

from tests.transports.acp.editor import TheEditor
from tests.transports.shop import shop
from tests.transports.suite import SESSION, AskingDriver, Driver, Json, column
from toolcrib.runtime.principal import OWNER
from toolcrib.runtime.runtime import Runtime
from toolcrib.transports.acp.lines import LineTransport
from toolcrib.transports.acp.serving import Served
from toolcrib.transports.stdio_pipes import Pipes


class OverAcp(AskingDriver):
    """Asks as an editor does."""

    def __init__(self, editor: TheEditor, agent: ClientSideConnection) -> None:
        self._editor = editor
        self._agent = agent

    async def ask(self, method: str, params: Json) -> Json:
        return await self._agent.ext_method(f"toolcrib/{method}", params)

    async def prompt(self, text: str) -> Json:
        """What a prompt comes to, which the response has beside the reason of its end."""
        block = TextContentBlock(type="text", text=text)
        response = await self._agent.prompt(session_id=SESSION, prompt=[block])
        assert response.field_meta is not None
        return response.field_meta["toolcrib"]

    async def decide(self, approval_id: str, decision: Literal["approve", "deny"]) -> None:
        """Answer the agent's request for permission, and wait until that has come to something."""
        question = await self._editor.questions.get()
        question.choose("allow" if decision == "approve" else "reject")
        while approval_id in await self.pending():
            pass

    async def events(self) -> AsyncGenerator[Json]:
        await self.ask("events.subscribe", {"session_id": SESSION})
        while True:
            method, params = await self._editor.events.get()
            assert method == "toolcrib/event"
            yield params


@asynccontextmanager
async def opened(has_model: bool) -> AsyncGenerator[Driver]:
    async with shop(has_model=has_model) as runtime, connected(runtime) as (editor, agent):
        await agent.initialize(protocol_version=1)
        await agent.new_session(cwd="/", toolcrib={"session_id": SESSION})
        yield OverAcp(editor, agent)


@asynccontextmanager
async def connected(runtime: Runtime) -> AsyncGenerator[tuple[TheEditor, ClientSideConnection]]:
    """An editor and an agent with real pipes between them."""
    to_agent, to_editor = os.pipe(), os.pipe()
    pipes = Pipes(to_agent[0], to_editor[1])
    transport = LineTransport(pipes, runtime.config.max_payload_bytes)
    served = Served(runtime, transport, OWNER)
    listening = asyncio.ensure_future(served.connection.main_loop())
    reader, writer = await _streams(to_editor[0], to_agent[1])
    editor = TheEditor()
    agent = ClientSideConnection(editor, writer, reader)  # pyright: ignore[reportArgumentType]
    try:
        yield editor, agent
    finally:
        await agent.close()
        writer.close()
        await listening
        served.agent.close()
        await served.connection.close()
        await transport.written(1)
        pipes.close()


async def _streams(reads: int, writes: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=50_000_000)
    protocol = asyncio.StreamReaderProtocol(reader)
    await loop.connect_read_pipe(lambda: protocol, os.fdopen(reads, "rb"))
    transport, writing = await loop.connect_write_pipe(
        lambda: asyncio.streams.FlowControlMixin(loop), os.fdopen(writes, "wb")
    )
    return reader, asyncio.StreamWriter(transport, writing, reader, loop)


column("acp", opened)

"""The suite over the Agent Client Protocol: prompts and permissions are the protocol's own, and
calls without a model are operations of the extension.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Literal

from tests.transports.acp.connected_editor import wired_desk
from tests.transports.acp.editor import Desk
from tests.transports.shop import shop
from tests.transports.suite import SESSION, AskingDriver, Driver, Json, column


class OverAcp(AskingDriver):
    """Asks as an editor does."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def ask(self, method: str, params: Json) -> Json:
        return await self._desk.ask(method, **params)

    async def prompt(self, text: str) -> Json:
        """What a prompt comes to, which the response has beside the reason of its end."""
        response = await self._desk.prompt(SESSION, text)
        assert response.field_meta is not None
        return response.field_meta["toolcrib"]

    async def decide(self, approval_id: str, decision: Literal["approve", "deny"]) -> None:
        """Answer the agent's request for permission, and wait until that has come to something."""
        question = await self._desk.question()
        question.choose("allow" if decision == "approve" else "reject")
        while approval_id in await self.pending():
            pass

    async def events(self) -> AsyncGenerator[Json]:
        await self.ask("events.subscribe", {"session_id": SESSION})
        while True:
            method, params = await self._desk.editor.events.get()
            assert method == "toolcrib/event"
            yield params


@asynccontextmanager
async def opened(has_model: bool) -> AsyncGenerator[Driver]:
    async with wired_desk(shop(has_model=has_model)) as desk:
        await desk.agent.new_session(cwd="/", toolcrib={"session_id": SESSION})
        yield OverAcp(desk)


column("acp", opened)

"""One session of a runtime in this process, and what is asked in it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from toolcrib.cli.desk import person_here
from toolcrib.runtime.service import as_json

if TYPE_CHECKING:
    from toolcrib.cli.screen import Screen
    from toolcrib.runtime.principal import Principal
    from toolcrib.runtime.runtime import Runtime


@dataclass(frozen=True, slots=True)
class Conversation:
    """Asks a model, and shows what happens meanwhile."""

    runtime: Runtime
    session_id: str
    who: Principal

    @classmethod
    async def open(cls, runtime: Runtime, session_id: str | None) -> Conversation:
        """Open a session of the store, or a new one. Raises `Refused`."""
        who = person_here()
        operation = "session.create" if session_id is None else "session.resume"
        params = {} if session_id is None else {"session_id": session_id}
        opened = await runtime.ask(operation, params, who)
        return cls(runtime, opened.session_id, who)

    async def answer(self, text: str, screen: Screen) -> dict[str, Any]:
        """Have the model answer. Raises `Refused`."""
        facts = await self.runtime.ask("session.get", {"session_id": self.session_id}, self.who)
        reader = self.runtime.service.follow(self.session_id, facts.last_seq)
        watching = asyncio.ensure_future(screen.watch(reader))
        try:
            asked = {"session_id": self.session_id, "text": text, "waits": False}
            result = as_json(await self.runtime.ask("prompt.send", asked, self.who))
        finally:
            reader.close()
            await watching
        screen.finish(result["text"])
        return result

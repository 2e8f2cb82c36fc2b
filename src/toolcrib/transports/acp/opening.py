"""Sessions as a client of the Agent Client Protocol opens them, with the tools that it brings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from toolcrib.errors import Refused
from toolcrib.transports.acp.client_tools import tools_of

if TYPE_CHECKING:
    from toolcrib.runtime.messages import SessionFacts
    from toolcrib.runtime.principal import Principal
    from toolcrib.runtime.runtime import Runtime


@dataclass(frozen=True, slots=True)
class Opening:
    """Opens sessions for a client that can do these things."""

    runtime: Runtime
    who: Principal
    capabilities: list[str]

    async def create(self, cwd: str, meta: Mapping[str, Any] | None) -> SessionFacts:
        """A new session. `_meta.toolcrib` may hold more of the parameters of `session.create`."""
        asked = {**own_meta(meta), "cwd": absolute(cwd)}
        return await self._open("session.create", asked)

    async def resume(self, session_id: str) -> SessionFacts:
        """A session of the store, where it works as it did."""
        return await self._open("session.resume", {"session_id": session_id})

    async def fork(self, session_id: str) -> SessionFacts:
        """A new session that begins with what another one holds."""
        forked = await self._ask("session.fork", {"session_id": session_id})
        return await self.resume(forked.session_id)

    async def _open(self, operation: str, asked: dict[str, Any]) -> SessionFacts:
        asked |= {"capabilities": self.capabilities}
        brought = tools_of(self.capabilities)
        if not brought:
            return await self._ask(operation, asked)
        try:
            return await self._ask(operation, {**asked, "client_tools": brought})
        except Refused as refused:
            if refused.kind != "conflict":
                raise
        # The host may have a tool of such a name. Its own comes first, and the rest is brought.
        facts = await self._ask(operation, asked)
        session = {"session_id": facts.session_id}
        taken = {tool.name for tool in (await self._ask("tools.list", session)).tools}
        free = [tool for tool in brought if tool["name"] not in taken]
        again = {**session, "capabilities": self.capabilities, "client_tools": free}
        return await self._ask("session.resume", again)

    async def _ask(self, operation: str, asked: Mapping[str, Any]) -> Any:
        return await self.runtime.ask(operation, dict(asked), self.who)


def absolute(path: str) -> str:
    """A directory as the protocol wants it. Raises `Refused` (invalid)."""
    if not path.startswith("/"):
        raise Refused("invalid", "cwd must be an absolute path")
    return path


def own_meta(meta: Mapping[str, Any] | None) -> dict[str, Any]:
    """What the client says to us and not to every agent."""
    own = (meta or {}).get("toolcrib", {})
    if not isinstance(own, dict):
        raise Refused("invalid", "_meta.toolcrib is an object")
    return dict(cast("dict[str, Any]", own))

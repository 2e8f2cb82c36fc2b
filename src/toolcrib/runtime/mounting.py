"""The host's tools in a session: mounted when it opens, and kept up to date."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from toolcrib.host_tools.offer import Offered
from toolcrib.tools.context import ToolContext

if TYPE_CHECKING:
    from toolcrib.host_tools.registration import RegistryChange
    from toolcrib.host_tools.registry import HostToolRegistry
    from toolcrib.runtime.held import HeldSession
    from toolcrib.session.session import Session
    from toolcrib.tools.tool import Tool


@dataclass(frozen=True, slots=True)
class Mounted:
    """The tools that a session gets, and those that it does not get, with the reason."""

    tools: tuple[Tool[Any, Any], ...]
    withheld: dict[str, str]


class Mounting:
    """Gives sessions the tools of one registry."""

    def __init__(self, registry: HostToolRegistry, held: Callable[[], Iterable[HeldSession]]):
        self._registry = registry
        self._held = held
        self._loop: asyncio.AbstractEventLoop | None = None
        self._unsubscribe: Callable[[], None] | None = None

    def start(self) -> None:
        """Follow the registry, whichever thread changes it."""
        self._loop = asyncio.get_running_loop()
        self._unsubscribe = self._registry.subscribe(self._hear)

    def stop(self) -> None:
        """Follow it no longer."""
        if self._unsubscribe is not None:
            self._unsubscribe()

    def mount(self, session: Session, capabilities: Sequence[str]) -> Mounted:
        """The tools of a session that opens."""
        offer = self._registry.offer(_context(session), capabilities=capabilities)
        return Mounted(
            tuple(each.definition.to_tool() for each in offer.tools),
            {each.name: each.reason for each in offer.withheld},
        )

    async def unmount(self, session_id: str) -> None:
        """The session is over."""
        await self._registry.close_session(session_id)

    def _hear(self, changes: tuple[RegistryChange, ...]) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._follow, changes)

    def _follow(self, changes: tuple[RegistryChange, ...]) -> None:
        for held in self._held():
            for change in changes:
                if change.session_id in (None, held.session.session_id):
                    self._bring_up_to_date(held, change.name)

    def _bring_up_to_date(self, held: HeldSession, name: str) -> None:
        """Additions show in the next turn, removals at once; the executor tells the session."""
        if not held.is_wanted(name):
            return
        offered = self._registry.offer_one(
            name, _context(held.session), capabilities=held.capabilities
        )
        executor = held.executor
        if isinstance(offered, Offered):
            held.unavailable.pop(name, None)
            tool = offered.definition.to_tool()
            if name in executor.tools:
                executor.replace(tool)
            else:
                executor.register(tool)
            return
        executor.unregister(name)
        if offered is not None:
            held.unavailable[name] = offered.reason


def _context(session: Session) -> ToolContext:
    return ToolContext(
        session_id=session.session_id,
        cwd=session.cwd,
        environment=dict(session.environment),
        metadata=dict(session.metadata),
        deps=session.deps,
        session=session,
        bus=session.bus,
    )

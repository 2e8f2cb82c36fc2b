"""The host's tools in a session: mounted when it opens, and kept up to date."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from toolcrib.host_tools.definition import SOURCE, ToolScope
from toolcrib.host_tools.offer import Offered, Withheld, describe
from toolcrib.host_tools.session_tools import context_of
from toolcrib.session.events import ToolWithheld

if TYPE_CHECKING:
    from toolcrib.host_tools.registration import RegistryChange
    from toolcrib.host_tools.registry import HostToolRegistry
    from toolcrib.runtime.held import HeldSession
    from toolcrib.session.session import Session
    from toolcrib.tools.tool import Tool

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Mounted:
    """The tools that a session gets, those of them that no other session has, and those that it
    does not get, with the reason. `names` are all that the host has for it, wanted or not.
    """

    names: frozenset[str]

    tools: list[Tool[Any, Any]] = field(default_factory=list["Tool[Any, Any]"])
    own: set[str] = field(default_factory=set[str])
    withheld: dict[str, str] = field(default_factory=dict[str, str])


class Mounting:
    """Gives sessions the tools of one registry."""

    def __init__(
        self, registry: HostToolRegistry, held: Callable[[], Iterable[HeldSession]]
    ) -> None:
        self._registry = registry
        self._held = held
        self._loop = asyncio.get_running_loop()
        self._unsubscribe = registry.subscribe(self._hear)

    def stop(self) -> None:
        """Follow the registry no longer."""
        self._unsubscribe()

    def mount(
        self, session: Session, capabilities: Collection[str], is_wanted: Callable[[str], bool]
    ) -> Mounted:
        """The tools of a session that opens. One that cannot be mounted is told, and left out."""
        offer = self._registry.offer(context_of(session), capabilities=capabilities)
        known = self._registry.list_tools(session_id=session.session_id)
        mounted = Mounted(frozenset(definition.name for definition in known))
        for offered in offer.tools:
            name = offered.definition.name
            if is_wanted(name):
                mounted.tools.append(offered.definition.to_tool())
                mounted.own.update([name] if _is_own(offered) else [])
        for withheld in offer.withheld:
            if is_wanted(withheld.name):
                mounted.withheld[withheld.name] = withheld.reason
                _tell(session, withheld)
        return mounted

    async def unmount(self, session_id: str) -> None:
        """The session is over."""
        await self._registry.close_session(session_id)

    def offer_anew(self, held: HeldSession) -> None:
        """The client can do other things now: look at every tool again."""
        for definition in self._registry.list_tools(session_id=held.session.session_id):
            self._bring_up_to_date(held, definition.name)

    def _hear(self, changes: tuple[RegistryChange, ...]) -> None:
        """Called in whichever thread changes the registry."""
        if not self._loop.is_closed():
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
        context = context_of(held.session)
        found = self._registry.offer_one(name, context, capabilities=held.capabilities)
        held.unavailable.pop(name, None)
        if isinstance(found, Offered):
            try:
                self._put(held, found)
            except Exception as error:
                found = Withheld(found.definition, describe(error), is_fault=True)
        elif _has_host_tool(held, name):
            held.executor.unregister(name)
            held.own_tools.discard(name)
        if isinstance(found, Withheld):
            held.unavailable[name] = found.reason
            _tell(held.session, found)

    def _put(self, held: HeldSession, offered: Offered) -> None:
        """Raises `DuplicateTool` for the name of a tool that the session has from elsewhere."""
        tool, executor = offered.definition.to_tool(), held.executor
        have = executor.tools.get(tool.name)
        if have is not None and have.tool == tool:
            return
        if _has_host_tool(held, tool.name):
            executor.replace(tool)
        else:
            executor.register(tool)
        held.own_tools.discard(tool.name)
        held.own_tools.update([tool.name] if _is_own(offered) else [])


def _has_host_tool(held: HeldSession, name: str) -> bool:
    have = held.executor.tools.get(name)
    return have is not None and have.ref.source == SOURCE


def _is_own(offered: Offered) -> bool:
    return offered.definition.scope is ToolScope.SESSION


def _tell(session: Session, withheld: Withheld) -> None:
    """Say of a tool that should have been there that it is not."""
    if not withheld.is_fault:
        return
    logger.warning(
        "session %s has no tool %r: %s", session.session_id, withheld.name, withheld.reason
    )
    session.note(
        ToolWithheld(
            session_id=session.session_id,
            at=session.clock(),
            turn=session.last_turn,
            tool=withheld.definition.ref,
            reason=withheld.reason,
        )
    )

"""The host's tools in one session: mounted at its start, kept up with the registry, let go.

The handlers that factories made for one session: each is made once, and closed at its end.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from contextlib import AsyncExitStack
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from toolcrib.errors import DuplicateTool, InvalidTool, UsageError
from toolcrib.host_tools.definition import (
    AnyTool,
    HostToolDefinition,
    SessionFactory,
    SessionHandler,
    ToolHandler,
    ToolScope,
)
from toolcrib.host_tools.host_tool import HostTool
from toolcrib.host_tools.registrations import RegistryChange
from toolcrib.host_tools.visibility import Offered, Withheld, describe
from toolcrib.ledger.events import ToolWithheld
from toolcrib.tools.context import ToolContext
from toolcrib.tools.prepared import as_tool

if TYPE_CHECKING:
    from toolcrib.calls.executor import Executor
    from toolcrib.host_tools.registry import HostToolRegistry
    from toolcrib.session.session import Session
    from toolcrib.tools.tool import Tool


logger = logging.getLogger(__name__)


class SessionTools:
    """Mounts what the registry has for a session beside the tools that it has from elsewhere.

    Give `for_executor` to the session's executor and then the executor to `follow`. A tool that
    cannot be mounted is in `unavailable` with the reason, and the session goes on without it.
    Tools of the host that are not `is_wanted` are as if there were none of that name. `on_gone`
    hears that one went and left its place empty.
    """

    def __init__(
        self,
        registry: HostToolRegistry,
        session: Session,
        others: Iterable[AnyTool] = (),
        *,
        capabilities: Collection[str] = (),
        is_wanted: Callable[[str], bool] = lambda name: True,
        on_gone: Callable[[str], None] = lambda name: None,
    ) -> None:
        self._registry = registry
        self._session = session
        self._context = context_of(session)
        self._capabilities = frozenset(capabilities)
        self.is_wanted = is_wanted
        self._on_gone = on_gone
        self._others = _by_name(others)
        self._mounted: dict[str, Offered] = {}
        self._withheld: dict[str, Withheld] = {}
        self._executor: Executor | None = None
        self._lock = threading.Lock()
        self._missed: list[RegistryChange] = []
        self._is_closed = False
        # Before the first look: what changes in between must not be missed.
        self._unsubscribe = registry.subscribe(self._hear)
        self._mount_all()

    @property
    def for_executor(self) -> tuple[Tool[Any, Any] | HostToolDefinition, ...]:
        """Every tool of the session: the host's, then those from elsewhere."""
        others = [tool for name, tool in self._others.items() if name not in self._mounted]
        return (*(each.definition for each in self._mounted.values()), *others)

    @property
    def tools(self) -> Mapping[str, HostTool]:
        """The host's tools that the session has now, by name."""
        found = self._mounted.items()
        return {
            name: HostTool(each.definition, self._context, self._followed) for name, each in found
        }

    @property
    def unavailable(self) -> Mapping[str, str]:
        """The host's tools that the session does not have, with the reason."""
        return MappingProxyType({name: each.reason for name, each in self._withheld.items()})

    @property
    def host_names(self) -> frozenset[str]:
        """The names of all that the host has for the session, wanted and mounted or not."""
        known = self._registry.list_tools(session_id=self._session.session_id)
        return frozenset(definition.name for definition in known)

    def is_host(self, name: str) -> bool:
        """Whether the session's tool of that name is the host's."""
        return name in self._mounted

    def is_own(self, name: str) -> bool:
        """Whether the host has a tool of that name for this session alone."""
        mounted = self._mounted.get(name)
        return mounted is not None and mounted.definition.scope is ToolScope.SESSION

    def has_from(self, source: str, name: str) -> bool:
        """Whether that source brought a tool of that name, also if the host's stands before it."""
        tool = self._others.get(name)
        return tool is not None and tool.source == source

    def bring(self, tool: AnyTool) -> None:
        """A tool from elsewhere comes to the session, or comes again: if the host's stands before
        it, for the time after. Raises `DuplicateTool` when its place was never its own.
        """
        found, executor = as_tool(tool), self._followed()
        name = found.name
        have = executor.tools.get(name)
        if name not in self._others:
            executor.register(found)
        elif name not in self._mounted and (have is None or have.tool != found):
            executor.replace(found)
        self._others[name] = found

    def take_back(self, name: str) -> None:
        """A tool from elsewhere is gone."""
        if self._others.pop(name, None) is not None and name not in self._mounted:
            self._followed().unregister(name)
            # The host may have had one of that name all along.
            self._bring_up_to_date(name)

    def offer_anew(self, capabilities: Collection[str]) -> None:
        """The client can do other things now: look at every tool again."""
        self._capabilities = frozenset(capabilities)
        for each in self._registry.list_tools(session_id=self._session.session_id):
            self._bring_up_to_date(each.name)

    def follow(self, executor: Executor) -> None:
        """Apply what changes in the registry to the session's executor, in its event loop."""
        if executor.session is not self._session:
            raise UsageError("this executor belongs to another session")
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        with self._lock:
            self._executor = executor
            missed, self._missed = self._missed, []
        self._apply(missed)

    async def close(self) -> None:
        """The session ends: drop what was registered for it, and close its own handlers."""
        self._is_closed = True
        self._unsubscribe()
        await self._registry.close_session(self._session.session_id)

    def _mount_all(self) -> None:
        offer = self._registry.offer(self._context, capabilities=self._capabilities)
        for each in offer.tools:
            if self.is_wanted(each.definition.name):
                self._mount(each)
        for each in offer.withheld:
            if self.is_wanted(each.name):
                self._withhold(each)

    def _mount(self, offered: Offered) -> None:
        name = offered.definition.name
        if name in self._others and not offered.registration.override:
            self._withhold(self._beside(offered, self._others[name].source))
        else:
            self._mounted[name] = offered

    def _beside(self, offered: Offered, source: str) -> Withheld:
        why = f"the session has a tool of that name from {source!r}"
        return Withheld(offered.definition, why, is_fault=True)

    def _withhold(self, withheld: Withheld) -> None:
        self._withheld[withheld.name] = withheld
        if not withheld.is_fault:
            return
        session = self._session
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

    def _hear(self, changes: tuple[RegistryChange, ...]) -> None:
        mine = [each for each in changes if each.session_id in (None, self._session.session_id)]
        if not mine or self._is_closed:
            return
        with self._lock:
            if self._executor is None:
                self._missed.extend(mine)
                return
        if threading.get_ident() == self._thread:
            self._apply(mine)
        else:
            self._loop.call_soon_threadsafe(self._apply, mine)

    def _apply(self, changes: list[RegistryChange]) -> None:
        for change in changes:
            if not self._is_closed:
                self._bring_up_to_date(change.name, is_removed=change.new is None)

    def _bring_up_to_date(self, name: str, *, is_removed: bool = False) -> None:
        """Make the executor have what the registry has for this session now, under that name."""
        if not self.is_wanted(name):
            return
        found = self._registry.offer_one(name, self._context, capabilities=self._capabilities)
        have = self._mounted.get(name)
        self._withheld.pop(name, None)
        if isinstance(found, Offered):
            if have is not None and have.is_same(found):
                return
            if have is not None and is_removed:
                # What is removed goes at once, also when a namesake takes its place.
                self._take_away(name)
            self._put(found)
            return
        if have is not None:
            self._take_away(name)
        if found is not None:
            self._withhold(found)

    def _take_away(self, name: str) -> None:
        executor = self._followed()
        del self._mounted[name]
        executor.unregister(name)
        if name in self._others:
            executor.register(self._others[name])
        else:
            self._on_gone(name)

    def _put(self, offered: Offered) -> None:
        name = offered.definition.name
        executor = self._followed()
        have = executor.tools.get(name)
        try:
            if name in self._mounted:
                executor.replace(offered.definition)
            elif have is None:
                executor.register(offered.definition)
            elif offered.registration.override:
                self._others[name] = have.tool
                executor.replace(offered.definition)
            else:
                self._withhold(self._beside(offered, have.ref.source))
                return
        except Exception as error:
            if name in self._mounted:
                self._take_away(name)
            self._withhold(Withheld(offered.definition, describe(error), is_fault=True))
        else:
            self._mounted[name] = offered

    def _followed(self) -> Executor:
        if self._executor is None:
            raise UsageError("these tools follow no executor yet; give it to follow() first")
        return self._executor


def _by_name(tools: Iterable[AnyTool]) -> dict[str, Tool[Any, Any]]:
    found: dict[str, Tool[Any, Any]] = {}
    for tool in map(as_tool, tools):
        if tool.name in found:
            raise DuplicateTool(f"the session has two tools named {tool.name!r}")
        found[tool.name] = tool
    return found


def context_of(session: Session) -> ToolContext:
    """A session's context, for factories and for rules on what it sees."""
    return ToolContext(
        session_id=session.session_id,
        cwd=session.cwd,
        environment=dict(session.environment),
        metadata=dict(session.metadata),
        deps=session.deps,
        session=session,
        bus=session.bus,
    )


class SessionHandlers:
    """Safe for several threads: one of them runs a factory, the others wait for what it made."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # By identity: an equal definition registered anew has resources of its own.
        self._made: dict[int, _Made] = {}

    def handler(self, definition: HostToolDefinition, context: ToolContext) -> ToolHandler:
        """The session's own handler. Raises what the factory raised, the same every time."""
        with self._lock:
            made = self._made.get(id(definition))
            is_first = made is None
            if made is None:
                made = self._made[id(definition)] = _Made(definition)
        if is_first:
            made.make(context)
        return made.wait().handler

    async def close(self) -> None:
        """Close what was made, last first. One that fails is logged; the others are closed."""
        with self._lock:
            found = list(self._made.values())
            self._made.clear()
        async with AsyncExitStack() as stack:
            for made in found:
                stack.push_async_callback(made.close)


class _Made:
    def __init__(self, definition: HostToolDefinition) -> None:
        self._definition = definition
        self._result: Future[SessionHandler] = Future()
        self._maker = threading.get_ident()
        # Running from the start: who stops waiting for it cannot cancel it.
        self._result.set_running_or_notify_cancel()

    def make(self, context: ToolContext) -> None:
        definition = self._definition
        factory = cast("SessionFactory", definition.factory)
        try:
            self._result.set_result(_checked(definition.name, factory(context)))
        except BaseException as error:
            self._result.set_exception(error)
            if not isinstance(error, Exception):
                raise

    def wait(self) -> SessionHandler:
        if not self._result.done() and self._maker == threading.get_ident():
            raise UsageError(
                f"the factory of tool {self._definition.name!r} asks for the tools of the session "
                "that it makes a handler for"
            )
        return self._result.result()

    async def close(self) -> None:
        # A factory that another thread is still running must not leave its handler open.
        await asyncio.gather(asyncio.wrap_future(self._result), return_exceptions=True)
        if self._result.exception() is not None:
            return
        close = self._result.result().close
        try:
            closing = close() if close is not None else None
            if inspect.isawaitable(closing):
                await closing
        except Exception:
            logger.exception("tool %r failed to close", self._definition.name)


def _checked(name: str, made: Any) -> SessionHandler:
    found = made if isinstance(made, SessionHandler) else SessionHandler(made)
    if not callable(found.handler):
        raise InvalidTool(
            f"tool {name!r}: the factory must return a handler or a SessionHandler, "
            f"not {type(made).__name__}"
        )
    return found

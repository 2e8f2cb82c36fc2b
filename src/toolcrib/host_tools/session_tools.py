"""The host tools of one session: mounted at its start, updated with the registry.

`SessionHandlers` keeps the handlers that factories make for the session: each is made once, and
closed when the session ends.
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

from toolcrib.errors import DuplicateTool, InvalidTool, UsageError, describe_error
from toolcrib.host_tools.availability import AvailableTool, UnavailableTool
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
from toolcrib.ledger.prompt_events import ToolWithheld
from toolcrib.tools.context import ToolContext
from toolcrib.tools.prepared_tool import as_tool

if TYPE_CHECKING:
    from toolcrib.calls.executor import Executor
    from toolcrib.host_tools.registry import HostToolRegistry
    from toolcrib.session.session import Session
    from toolcrib.tools.audience import Audience
    from toolcrib.tools.tool import Tool


logger = logging.getLogger(__name__)


class SessionTools:
    """Mounts the registry's tools for a session beside its tools from other sources.

    Pass `for_executor` to the session's executor, and then the executor to `follow`. A tool that
    cannot be mounted is in `unavailable` with the reason, and the session works without it. Host
    tools for which `is_wanted` is false are ignored. `on_removed` is called with the name of a
    tool that was removed without a replacement.
    """

    def __init__(
        self,
        registry: HostToolRegistry,
        session: Session,
        others: Iterable[AnyTool] = (),
        *,
        capabilities: Collection[str] = (),
        is_wanted: Callable[[str], bool] = lambda name: True,
        on_removed: Callable[[str], None] = lambda name: None,
    ) -> None:
        self._registry = registry
        self._session = session
        self._context = session_context(session)
        self._capabilities = frozenset(capabilities)
        self.is_wanted = is_wanted
        self._on_removed = on_removed
        self._others = _by_name(others)
        self._mounted: dict[str, AvailableTool] = {}
        self._unavailable: dict[str, UnavailableTool] = {}
        self._executor: Executor | None = None
        self._lock = threading.Lock()
        self._missed: list[RegistryChange] = []
        self._is_closed = False
        # Subscribed before the first read, so that no change in between is missed.
        self._unsubscribe = registry.subscribe(self._on_changes)
        self._mount_all()

    @property
    def for_executor(self) -> tuple[Tool[Any, Any] | HostToolDefinition, ...]:
        """Every tool of the session: the host's, then those of other sources."""
        others = [tool for name, tool in self._others.items() if name not in self._mounted]
        return (*(tool.definition for tool in self._mounted.values()), *others)

    @property
    def tools(self) -> Mapping[str, HostTool]:
        """The host's tools that the session has now, by name."""
        return {
            name: HostTool(tool.definition, self._context, self._required_executor)
            for name, tool in self._mounted.items()
        }

    @property
    def unavailable(self) -> Mapping[str, str]:
        """The host's tools that the session does not have, with the reason."""
        return MappingProxyType({name: tool.reason for name, tool in self._unavailable.items()})

    def audience_of(self, name: str) -> Audience | None:
        """To whom a host tool that the session does not have would be shown."""
        tool = self._unavailable.get(name)
        return None if tool is None else tool.definition.declared.visible_to

    @property
    def host_names(self) -> frozenset[str]:
        """The names of all host tools for the session, mounted or not."""
        definitions = self._registry.list_tools(session_id=self._session.session_id)
        return frozenset(definition.name for definition in definitions)

    def is_host(self, name: str) -> bool:
        """Whether the session's tool of that name is the host's."""
        return name in self._mounted

    def is_own(self, name: str) -> bool:
        """Whether the host has a tool of that name for this session alone."""
        mounted = self._mounted.get(name)
        return mounted is not None and mounted.definition.scope is ToolScope.SESSION

    def has_from(self, source: str, name: str) -> bool:
        """Whether that source added a tool of that name, even if the host's takes precedence."""
        tool = self._others.get(name)
        return tool is not None and tool.source == source

    def add(self, tool: AnyTool) -> None:
        """Add or replace a tool of another source. While a host tool of that name takes
        precedence, it waits. Raises `DuplicateTool` when the name belongs to a host tool.
        """
        added, executor = as_tool(tool), self._required_executor()
        name = added.name
        current = executor.tools.get(name)
        if name not in self._others:
            executor.register(added)
        elif name not in self._mounted and (current is None or current.tool != added):
            executor.replace(added)
        self._others[name] = added

    def remove(self, name: str) -> None:
        """Remove a tool of another source."""
        if self._others.pop(name, None) is not None and name not in self._mounted:
            self._required_executor().unregister(name)
            # The host may have a tool of that name, which was unavailable until now.
            self._update(name)

    def set_capabilities(self, capabilities: Collection[str]) -> None:
        """Set what the client can do, and evaluate every tool again."""
        self._capabilities = frozenset(capabilities)
        for definition in self._registry.list_tools(session_id=self._session.session_id):
            self._update(definition.name)

    def follow(self, executor: Executor) -> None:
        """Apply changes of the registry to the session's executor, in its event loop."""
        if executor.session is not self._session:
            raise UsageError("this executor belongs to another session")
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        with self._lock:
            self._executor = executor
            missed, self._missed = self._missed, []
        self._apply(missed)

    async def close(self) -> None:
        """End the session: drop its own registrations and close its own handlers."""
        self._is_closed = True
        self._unsubscribe()
        await self._registry.close_session(self._session.session_id)

    def _mount_all(self) -> None:
        tools = self._registry.availability(self._context, capabilities=self._capabilities)
        for tool in tools.available:
            if self.is_wanted(tool.definition.name):
                self._mount(tool)
        for tool in tools.unavailable:
            if self.is_wanted(tool.name):
                self._withhold(tool)

    def _mount(self, tool: AvailableTool) -> None:
        name = tool.definition.name
        if name in self._others and not tool.registration.override:
            self._withhold(self._name_taken(tool, self._others[name].source))
        else:
            self._mounted[name] = tool

    def _name_taken(self, tool: AvailableTool, source: str) -> UnavailableTool:
        reason = f"the session has a tool of that name from {source!r}"
        return UnavailableTool(tool.definition, reason, is_fault=True)

    def _withhold(self, tool: UnavailableTool) -> None:
        self._unavailable[tool.name] = tool
        if not tool.is_fault:
            return
        session = self._session
        logger.warning("session %s has no tool %r: %s", session.session_id, tool.name, tool.reason)
        session.note(
            ToolWithheld(
                session_id=session.session_id,
                at=session.clock(),
                turn=session.last_turn,
                tool=tool.definition.ref,
                reason=tool.reason,
            )
        )

    def _on_changes(self, changes: tuple[RegistryChange, ...]) -> None:
        session_ids = (None, self._session.session_id)
        mine = [change for change in changes if change.session_id in session_ids]
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
                self._update(change.name, is_removed=change.new is None)

    def _update(self, name: str, *, is_removed: bool = False) -> None:
        """Give the executor the registry's current tool of that name for this session."""
        if not self.is_wanted(name):
            return
        tool = self._registry.availability_of(name, self._context, capabilities=self._capabilities)
        mounted = self._mounted.get(name)
        self._unavailable.pop(name, None)
        if isinstance(tool, AvailableTool):
            if mounted is not None and mounted.is_same(tool):
                return
            if mounted is not None and is_removed:
                # Additions wait for the next turn, removals apply at once: a removed tool must
                # not stay callable until its replacement is pinned.
                self._unmount(name)
            self._put(tool)
            return
        if mounted is not None:
            self._unmount(name)
        if tool is not None:
            self._withhold(tool)

    def _unmount(self, name: str) -> None:
        executor = self._required_executor()
        del self._mounted[name]
        executor.unregister(name)
        if name in self._others:
            executor.register(self._others[name])
        else:
            self._on_removed(name)

    def _put(self, tool: AvailableTool) -> None:
        name = tool.definition.name
        executor = self._required_executor()
        current = executor.tools.get(name)
        try:
            if name in self._mounted:
                executor.replace(tool.definition)
            elif current is None:
                executor.register(tool.definition)
            elif tool.registration.override:
                self._others[name] = current.tool
                executor.replace(tool.definition)
            else:
                self._withhold(self._name_taken(tool, current.ref.source))
                return
        except Exception as error:
            if name in self._mounted:
                self._unmount(name)
            self._withhold(UnavailableTool(tool.definition, describe_error(error), is_fault=True))
        else:
            self._mounted[name] = tool

    def _required_executor(self) -> Executor:
        if self._executor is None:
            raise UsageError("these tools follow no executor yet; pass one to follow() first")
        return self._executor


def _by_name(tools: Iterable[AnyTool]) -> dict[str, Tool[Any, Any]]:
    by_name: dict[str, Tool[Any, Any]] = {}
    for tool in map(as_tool, tools):
        if tool.name in by_name:
            raise DuplicateTool(f"the session has two tools named {tool.name!r}")
        by_name[tool.name] = tool
    return by_name


def session_context(session: Session) -> ToolContext:
    """A session's context, for factories and for `visible_when`."""
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
    """The handlers that factories made for one session.

    Safe for several threads: one of them runs a factory, the others wait for its handler.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # By identity: an equal definition registered anew has resources of its own.
        self._handlers: dict[int, _FactoryHandler] = {}

    def handler(self, definition: HostToolDefinition, context: ToolContext) -> ToolHandler:
        """The session's own handler. Raises what the factory raised, the same every time."""
        with self._lock:
            handler = self._handlers.get(id(definition))
            is_first = handler is None
            if handler is None:
                handler = self._handlers[id(definition)] = _FactoryHandler(definition)
        if is_first:
            handler.make(context)
        return handler.wait().handler

    async def close(self) -> None:
        """Close the handlers, last first. One that fails is logged; the others are closed."""
        with self._lock:
            handlers = list(self._handlers.values())
            self._handlers.clear()
        async with AsyncExitStack() as stack:
            for handler in handlers:
                stack.push_async_callback(handler.close)


class _FactoryHandler:
    """The handler of one definition, made by the first thread that needs it."""

    def __init__(self, definition: HostToolDefinition) -> None:
        self._definition = definition
        self._result: Future[SessionHandler] = Future()
        self._maker = threading.get_ident()
        # Marked as running, so that a waiter who is cancelled cannot cancel the future.
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
                f"the factory of tool {self._definition.name!r} asks for the tools of its own "
                "session while it makes a handler for it"
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


def _checked(name: str, product: Any) -> SessionHandler:
    handler = product if isinstance(product, SessionHandler) else SessionHandler(product)
    if not callable(handler.handler):
        raise InvalidTool(
            f"tool {name!r}: the factory must return a handler or a SessionHandler, "
            f"not {type(product).__name__}"
        )
    return handler

"""The registry: where a host application keeps its tools, for all sessions or for some."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from toolcrib.errors import InvalidTool, UsageError
from toolcrib.host_tools.definition import AnyTool, HostToolDefinition, ToolHandler, ToolScope
from toolcrib.host_tools.host_tool import HostTool, own_executor
from toolcrib.host_tools.registrations import (
    GuardedShelf,
    Key,
    Listener,
    Origin,
    Registration,
    RegistryChange,
    Step,
)
from toolcrib.host_tools.session_tools import SessionHandlers
from toolcrib.host_tools.visibility import Asking, Offer, Offered, Withheld, offer, offer_one

if TYPE_CHECKING:
    from toolcrib.calls.executor import Executor
    from toolcrib.tools.context import ToolContext


class HostToolRegistry:
    """Holds definitions by name and makes a session's tools from them.

    Safe for any number of threads, each with an event loop of its own or none. Two registries
    know nothing of each other.
    """

    def __init__(self) -> None:
        self._shelf = GuardedShelf()
        self._handlers: dict[str, SessionHandlers] = {}
        self._lock = threading.Lock()

    async def register(
        self,
        tool: AnyTool,
        *,
        session_id: str | None = None,
        override: bool = False,
        origin: Origin | None = None,
    ) -> None:
        """Add a tool for all sessions, or for one. Raises `DuplicateTool`, a ValueError.

        `tool` is a `HostToolDefinition`, or any tool that `HostToolDefinition.of` takes. With
        `override` it may take the place of a tool of that name from elsewhere.
        """
        self.add(tool, session_id=session_id, override=override, origin=origin)

    def add(
        self,
        tool: AnyTool,
        *,
        session_id: str | None = None,
        override: bool = False,
        origin: Origin | None = None,
    ) -> None:
        """`register`, for code that cannot await."""
        self._shelf.edit((), [self._made(tool, session_id, override, origin)])

    def add_all(self, tools: Iterable[tuple[AnyTool, Origin | None]]) -> None:
        """Add several tools, each with where it comes from: all of them or, on an error, none."""
        self._shelf.edit((), [self._made(tool, None, False, origin) for tool, origin in tools])

    async def register_or_replace(
        self,
        tool: AnyTool,
        *,
        session_id: str | None = None,
        override: bool = False,
        origin: Origin | None = None,
    ) -> bool:
        """Add a tool, or put it in the place of its namesake; True when it replaced one."""
        new = self._made(tool, session_id, override, origin)
        with self._shelf.writing():
            old = self._at(new.key)
            if old is None:
                self._shelf.edit((), [new])
            else:
                self._shelf.edit([old.key], [new.in_place_of(old)])
        return old is not None

    async def unregister(self, name: str, *, session_id: str | None = None) -> bool:
        """Take a tool away; False when there is none of that name."""
        return bool(self._shelf.edit([Key(session_id, name)], ()))

    def swap(
        self, group: str, tools: Iterable[tuple[AnyTool, Origin]]
    ) -> tuple[RegistryChange, ...]:
        """Put these tools in the place of all that came from the origin `group`, in one step.

        Raises `DuplicateTool`, and then nothing has changed.
        """
        new = [self._made(tool, None, False, origin) for tool, origin in tools]
        with self._shelf.writing():
            with self._shelf.looking() as shelf:
                old = {each.key: each for each in shelf.of_group(group)}
            kept = [each.in_place_of(old[each.key]) if each.key in old else each for each in new]
            return self._shelf.edit(old, kept)

    def get(self, name: str, *, session_id: str | None = None) -> HostToolDefinition | None:
        """The definition of that name, as a session sees it; without a session, the one for all."""
        with self._shelf.looking() as shelf:
            found = shelf.find(name, session_id)
        return found.definition if found else None

    def list_tools(
        self, *, category: str | None = None, session_id: str | None = None
    ) -> list[HostToolDefinition]:
        """The definitions for all sessions, and for the one given, in the order of registration."""
        definitions = [each.definition for each in self._visible(session_id)]
        return [each for each in definitions if category in (None, each.category)]

    def get_tools(
        self, *, category: str | None = None, session_id: str | None = None
    ) -> list[HostToolDefinition]:
        """The same as `list_tools`."""
        return self.list_tools(category=category, session_id=session_id)

    def create_session_tools(
        self,
        session_id: str,
        context: ToolContext,
        *,
        capabilities: Collection[str] = (),
        executor: Executor | None = None,
    ) -> list[HostTool]:
        """A fresh `HostTool` for every tool that the session gets, bound to its context.

        Calls go through `executor`; without one, through one in memory that these tools share.
        `offer` tells which tools the session does not get.
        """
        if session_id != context.session_id:
            raise UsageError(
                f"the context is of the session {context.session_id!r}, not of {session_id!r}"
            )
        offered = self.offer(context, capabilities=capabilities).tools
        definitions = [each.definition for each in offered]
        shared = functools.cache(lambda: executor or own_executor(context, definitions))
        return [HostTool(each, context, shared) for each in definitions]

    def offer(self, context: ToolContext, *, capabilities: Collection[str] = ()) -> Offer:
        """The tools that a session gets, and those that it does not get, with the reason.

        `capabilities` is what the connected client can do. A factory is called when its session
        asks for the first time.
        """
        visible = self._visible(context.session_id)
        return offer(visible, self._asking(context, capabilities))

    def offer_one(
        self, name: str, context: ToolContext, *, capabilities: Collection[str] = ()
    ) -> Offered | Withheld | None:
        """One tool for a session; None when the session sees none of that name."""
        with self._shelf.looking() as shelf:
            found = shelf.find(name, context.session_id)
        return None if found is None else offer_one(found, self._asking(context, capabilities))

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Hear of every change, in order, in the thread that makes it; returns what ends it.

        A listener must not block. One that raises is logged and does not stop the others.
        """
        return self._shelf.subscribe(listener)

    def all_or_nothing(self) -> AbstractContextManager[Sequence[Step]]:
        """What a `with` block registers, replaces or unregisters is taken back if it raises.

        The block gets the list of its own changes, which grows as it goes on.
        """
        return self._shelf.all_or_nothing()

    async def close_session(self, session_id: str) -> None:
        """The session is over: drop what was registered for it and close its own handlers."""
        with self._shelf.writing():
            with self._shelf.looking() as shelf:
                own = [each.key for each in shelf.of_session(session_id)]
            self._shelf.edit(own, ())
        with self._lock:
            handlers = self._handlers.pop(session_id, None)
        if handlers is not None:
            await handlers.close()

    def _made(
        self, tool: AnyTool, session_id: str | None, override: bool, origin: Origin | None
    ) -> Registration:
        definition = HostToolDefinition.of(tool)
        _check_scope(definition, session_id)
        with self._shelf.looking() as shelf:
            number = shelf.next_number()
        return Registration(definition, number, session_id, override, origin)

    def _at(self, key: Key) -> Registration | None:
        with self._shelf.looking() as shelf:
            return shelf.at(key)

    def _visible(self, session_id: str | None) -> list[Registration]:
        with self._shelf.looking() as shelf:
            return shelf.visible(session_id)

    def _asking(self, context: ToolContext, capabilities: Collection[str]) -> Asking:
        return Asking(context, frozenset(capabilities), self._session_handler)

    def _session_handler(self, definition: HostToolDefinition, context: ToolContext) -> ToolHandler:
        with self._lock:
            handlers = self._handlers.setdefault(context.session_id, SessionHandlers())
        return handlers.handler(definition, context)


def _check_scope(definition: HostToolDefinition, session_id: str | None) -> None:
    name = definition.name
    if session_id is not None and definition.scope is ToolScope.GLOBAL:
        raise InvalidTool(
            f"tool {name!r} is for all sessions; to register it for {session_id!r} alone, "
            "write scope=ToolScope.SESSION"
        )
    if session_id is None and definition.scope is ToolScope.SESSION and not definition.factory:
        raise InvalidTool(
            f"tool {name!r} has the scope SESSION; register it with session_id=, or give it a "
            "factory that makes a handler for each session"
        )


host_tool_registry = HostToolRegistry()
"""The default registry, for programs that need only one. A runtime with its own never uses it."""

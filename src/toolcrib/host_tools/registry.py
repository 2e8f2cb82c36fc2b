"""The registry: where a host application keeps its tools, for all sessions or for some."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from toolcrib.errors import InvalidTool, UsageError
from toolcrib.features.decorator import AnyFeature, as_feature
from toolcrib.features.registry import FeatureRegistry
from toolcrib.host_tools.availability import (
    AvailabilityQuery,
    AvailableTool,
    ToolAvailability,
    UnavailableTool,
    availability,
    availability_of,
)
from toolcrib.host_tools.definition import AnyTool, HostToolDefinition, ToolHandler, ToolScope
from toolcrib.host_tools.host_tool import HostTool, own_executor
from toolcrib.host_tools.registrations import (
    ChangeListener,
    Origin,
    Registration,
    RegistrationEdit,
    RegistrationKey,
    Registrations,
    RegistryChange,
)
from toolcrib.host_tools.session_tools import SessionHandlers

if TYPE_CHECKING:
    from toolcrib.calls.executor import Executor
    from toolcrib.tools.context import ToolContext
    from toolcrib.tools.tool import Tool


class HostToolRegistry:
    """Keeps definitions by name and makes a session's tools from them.

    Safe for any number of threads, each with an event loop of its own or none. Two registries
    are independent of each other.
    """

    def __init__(self) -> None:
        self.features = FeatureRegistry()
        """The resources and prompts of the application."""
        self._registrations = Registrations()
        self._handlers: dict[str, SessionHandlers] = {}
        self._lock = threading.Lock()
        self._collected: ContextVar[list[Registration] | None] = ContextVar(
            "toolcrib_host_tools_collected", default=None
        )

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
        new = self._registration(tool, session_id, override, origin)
        collected = self._collected.get()
        if collected is None:
            self._registrations.edit((), [new])
        else:
            collected.append(new)

    def add_all(self, tools: Iterable[tuple[AnyTool, Origin | None]]) -> None:
        """Add several tools, each with its origin: all of them or, on an error, none."""
        self._registrations.edit(
            (), [self._registration(tool, None, False, origin) for tool, origin in tools]
        )

    def add_features(self, features: Iterable[AnyFeature], *, origin: Origin | None = None) -> None:
        """Add resources and prompts for all sessions: all of them or, on an error, none."""
        origin = origin or _ORIGIN.get()
        group = None if origin is None else origin.group
        self.features.add(map(as_feature, features), group)

    async def register_or_replace(
        self,
        tool: AnyTool,
        *,
        session_id: str | None = None,
        override: bool = False,
        origin: Origin | None = None,
    ) -> bool:
        """Add a tool, or put it in the place of its namesake; True when it replaced one."""
        new = self._registration(tool, session_id, override, origin)
        with self._registrations.writing():
            old = self._at(new.key)
            if old is None:
                self._registrations.edit((), [new])
            else:
                self._registrations.edit([old.key], [new.replacing(old)])
        return old is not None

    async def unregister(self, name: str, *, session_id: str | None = None) -> bool:
        """Remove a tool; False when there is none of that name."""
        return bool(self._registrations.edit([RegistrationKey(session_id, name)], ()))

    def swap(
        self, group: str, tools: Iterable[tuple[AnyTool, Origin]]
    ) -> tuple[RegistryChange, ...]:
        """Replace all tools that came from the origin `group` by these, in one step.

        Raises `DuplicateTool`, and then nothing has changed.
        """
        new = [self._registration(tool, None, False, origin) for tool, origin in tools]
        with self._registrations.writing():
            with self._registrations.reading() as table:
                old = {registration.key: registration for registration in table.of_group(group)}
            replacements = [
                registration.replacing(old[registration.key])
                if registration.key in old
                else registration
                for registration in new
            ]
            return self._registrations.edit(old, replacements)

    def adopt(self, groups: Iterable[str], source: HostToolRegistry) -> tuple[RegistryChange, ...]:
        """Replace all tools that came from these origins by those of another registry, in one step.

        Raises `DuplicateTool`, and then nothing has changed.
        """
        new, groups = source._visible(None), set(groups)
        with self._registrations.writing():
            with self._registrations.reading() as table:
                old = {each.key: each for group in groups for each in table.of_group(group)}
            replacements = [
                each.replacing(old[each.key])
                if each.key in old
                else self._registration(each.definition, None, each.override, each.origin)
                for each in new
            ]
            with self.features.all_or_nothing():
                self.features.adopt(groups, source.features)
                return self._registrations.edit(old, replacements)

    def get(self, name: str, *, session_id: str | None = None) -> HostToolDefinition | None:
        """The definition of that name that a session sees; without a session, the shared one."""
        with self._registrations.reading() as table:
            registration = table.find(name, session_id)
        return registration.definition if registration else None

    def list_tools(
        self, *, category: str | None = None, session_id: str | None = None
    ) -> list[HostToolDefinition]:
        """The definitions for all sessions and for `session_id`, in the order of registration."""
        definitions = [registration.definition for registration in self._visible(session_id)]
        return [definition for definition in definitions if category in (None, definition.category)]

    def shared(self) -> list[Registration]:
        """What is registered for all sessions, in the order of registration."""
        return self._visible(None)

    def names(self) -> set[str]:
        """The names of all tools, those of single sessions included."""
        with self._registrations.reading() as table:
            return table.names()

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
        `availability` lists the tools that the session does not get.
        """
        if session_id != context.session_id:
            raise UsageError(
                f"the context belongs to the session {context.session_id!r}, not to {session_id!r}"
            )
        tools = self.availability(context, capabilities=capabilities).available
        definitions = [tool.definition for tool in tools]
        shared = functools.cache(lambda: executor or own_executor(context, definitions))
        return [HostTool(definition, context, shared) for definition in definitions]

    def tools_for(self, context: ToolContext) -> list[Tool[Any, Any]]:
        """The tools that a session has now, for a toolset that this registry is part of."""
        available = self.availability(context).available
        return [tool.definition.to_tool() for tool in available]

    def availability(
        self, context: ToolContext, *, capabilities: Collection[str] = ()
    ) -> ToolAvailability:
        """The tools that a session gets, and those that it does not get, with the reason.

        `capabilities` is what the connected client can do. A factory is called the first time that
        its session is evaluated.
        """
        visible = self._visible(context.session_id)
        return availability(visible, self._query(context, capabilities))

    def availability_of(
        self, name: str, context: ToolContext, *, capabilities: Collection[str] = ()
    ) -> AvailableTool | UnavailableTool | None:
        """One tool for a session; None when the session sees none of that name."""
        with self._registrations.reading() as table:
            registration = table.find(name, context.session_id)
        if registration is None:
            return None
        return availability_of(registration, self._query(context, capabilities))

    def subscribe(self, listener: ChangeListener) -> Callable[[], None]:
        """Call `listener` on every change, in order, in the thread that makes it; returns the
        function that unsubscribes it.

        A listener must not block. One that raises is logged and does not stop the others.
        """
        return self._registrations.subscribe(listener)

    @contextmanager
    def all_or_nothing(self) -> Generator[Sequence[RegistrationEdit]]:
        """Roll back what a `with` block registers, replaces or unregisters if the block raises.

        The block gets the list of its own edits of tools, which grows as it goes on.
        """
        with self.features.all_or_nothing(), self._registrations.all_or_nothing() as edits:
            yield edits

    @contextmanager
    def replacing(self) -> Generator[None]:
        """Let what the block adds take the place of its namesakes, all in one step when it ends.
        If the block raises, nothing has changed.

        A module that is executed again adds its tools again.
        """
        added: list[Registration] = []
        token = self._collected.set(added)
        try:
            with self.features.replacing(), self.features.all_or_nothing():
                yield
        finally:
            self._collected.reset(token)
        with self._registrations.writing():
            old = {new.key: self._at(new.key) for new in added}
            self._registrations.edit(
                [key for key, registration in old.items() if registration is not None],
                [new if (was := old[new.key]) is None else new.replacing(was) for new in added],
            )

    @contextmanager
    def borrowed(self) -> Generator[None]:
        """Remove at the end of the block what was added for all sessions meanwhile."""
        before = {registration.key for registration in self._visible(None)}
        features = self.features.all
        try:
            yield
        finally:
            self.features.remove(each for each in self.features.all if each not in features)
            added = {registration.key for registration in self._visible(None)} - before
            self._registrations.edit(added, ())

    async def close_session(self, session_id: str) -> None:
        """End a session: drop its own registrations and close its own handlers."""
        with self._registrations.writing():
            with self._registrations.reading() as table:
                own = [registration.key for registration in table.of_session(session_id)]
            self._registrations.edit(own, ())
        with self._lock:
            handlers = self._handlers.pop(session_id, None)
        if handlers is not None:
            await handlers.close()

    def _registration(
        self, tool: AnyTool, session_id: str | None, override: bool, origin: Origin | None
    ) -> Registration:
        definition = HostToolDefinition.of(tool)
        _check_scope(definition, session_id)
        with self._registrations.reading() as table:
            number = table.next_number()
        return Registration(definition, number, session_id, override, origin or _ORIGIN.get())

    def _at(self, key: RegistrationKey) -> Registration | None:
        with self._registrations.reading() as table:
            return table.at(key)

    def _visible(self, session_id: str | None) -> list[Registration]:
        with self._registrations.reading() as table:
            return table.visible(session_id)

    def _query(self, context: ToolContext, capabilities: Collection[str]) -> AvailabilityQuery:
        return AvailabilityQuery(context, frozenset(capabilities), self._session_handler)

    def _session_handler(self, definition: HostToolDefinition, context: ToolContext) -> ToolHandler:
        with self._lock:
            handlers = self._handlers.setdefault(context.session_id, SessionHandlers())
        return handlers.handler(definition, context)


_ORIGIN: ContextVar[Origin | None] = ContextVar("toolcrib_host_tools_origin", default=None)


@contextmanager
def tools_from(origin: Origin) -> Generator[None]:
    """Give this origin to the tools that the block adds without one."""
    token = _ORIGIN.set(origin)
    try:
        yield
    finally:
        _ORIGIN.reset(token)


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
"""The default registry: a runtime serves it unless its configuration names another one."""

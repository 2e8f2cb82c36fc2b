"""Stage one: which tools there are, pinned for a turn."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from toolcrib.errors import CallEnded, DuplicateTool
from toolcrib.tools.prepared_tool import Declaration, PreparedTool, prepare

if TYPE_CHECKING:
    from toolcrib.calls.call import Call


class ToolTable:
    """Tools by name. Additions and replacements show in the next turn, removals at once.

    The tables are copied when they change and never changed in place, so a turn can keep the one
    it started with.
    """

    def __init__(self, tools: Iterable[Any] = ()) -> None:
        self._current: dict[str, PreparedTool] = {}
        for tool in tools:
            self._insert(tool if isinstance(tool, PreparedTool) else prepare(tool))
        self._pinned = self._current
        self._declarations: tuple[Declaration, ...] | None = None

    def _insert(self, prepared: PreparedTool) -> None:
        name = prepared.ref.name
        if name in self._current:
            raise DuplicateTool(f"there is a tool named {name!r} already; names must be unique")
        self._current[name] = prepared

    def add(self, tool: Any) -> PreparedTool:
        """Register a tool. Raises `DuplicateTool` when the name is taken."""
        prepared = prepare(tool)
        self._current = dict(self._current)
        self._insert(prepared)
        return prepared

    def replace(self, tool: Any) -> tuple[PreparedTool | None, PreparedTool]:
        """Register a tool in place of whatever has its name; returns the old one and the new."""
        prepared = prepare(tool)
        old = self._current.get(prepared.ref.name)
        self._current = {**self._current, prepared.ref.name: prepared}
        return old, prepared

    def remove(self, name: str) -> PreparedTool | None:
        """Take a tool away, at once; returns it, or None when there was none."""
        old = self._current.get(name)
        if old is None:
            return None
        self._current = {key: tool for key, tool in self._current.items() if key != name}
        self._pinned = {key: tool for key, tool in self._pinned.items() if key != name}
        self._declarations = None
        return old

    def pin(self) -> dict[str, PreparedTool]:
        """Begin a turn: from now on, and until the next one, the tools are those of now."""
        if self._pinned is not self._current:
            self._pinned = self._current
            self._declarations = None
        return self._pinned

    def get(self, name: str) -> PreparedTool | None:
        """The tool as this turn sees it."""
        return self._pinned.get(name)

    @property
    def tools(self) -> dict[str, PreparedTool]:
        """The tools of this turn, in the order they were registered."""
        return self._pinned

    def declarations(self) -> tuple[Declaration, ...]:
        """What the model is told of each tool. The same object until the tools change."""
        if self._declarations is None:
            self._declarations = tuple(tool.declaration for tool in self._pinned.values())
        return self._declarations

    def resolve(self, call: Call) -> PreparedTool:
        """The call's tool, or the end of the call."""
        prepared = self._pinned.get(call.name)
        if prepared is None:
            raise CallEnded("not_found", self._not_found(call.name))
        call.prepared = call.tool = prepared
        return prepared

    def _not_found(self, name: str) -> str:
        if not self._pinned:
            return f"There is no tool named {name!r}; this session has no tools."
        names = ", ".join(self._pinned)
        return f"There is no tool named {name!r}. The tools are: {names}."

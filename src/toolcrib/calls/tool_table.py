"""Stage one: which tools there are, pinned for a turn."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import MethodType
from typing import TYPE_CHECKING, Any

from toolcrib.errors import CallEnded, DuplicateTool
from toolcrib.tools.argument_names import ArgumentNames
from toolcrib.tools.prepared_tool import (
    Declaration,
    PreparedTool,
    is_available,
    prepare,
    registered_as,
)

if TYPE_CHECKING:
    from toolcrib.approval.caller import Caller
    from toolcrib.approval.policy import Policy
    from toolcrib.approval.policy_lint import ToolArguments
    from toolcrib.approval.rule import Verdict
    from toolcrib.calls.call import Call
    from toolcrib.tools.context import ToolContext
    from toolcrib.tools.identity import BindTo
    from toolcrib.tools.tool import Tool


def check_rules(policy: Policy, tools: Iterable[PreparedTool]) -> None:
    """Raise `InvalidPolicy` for a rule about an argument that its tool does not have.

    Not for tools whose schema somebody else wrote, who could stop the host with a change of it:
    those alone do not run.
    """
    from toolcrib.approval.policy_lint import check_arguments

    for tool in tools:
        if not tool.tool.is_foreign:
            check_arguments(policy, _ruled_arguments(policy, tool))


def blind_verdict(policy: Policy, tool: PreparedTool) -> Verdict | None:
    """A denial of every call of a tool that a rule cannot see, because the tool does not have the
    rule's argument.
    """
    from toolcrib.approval.policy_lint import unknown_arguments
    from toolcrib.approval.rule import Verdict

    for unknown in unknown_arguments(policy, _ruled_arguments(policy, tool)):
        if unknown.is_error:
            reason = f"The policy does not fit the tool: {unknown.caution.message}."
            return Verdict("deny", unknown.caution.rule, reason)
    return None


def _ruled_arguments(policy: Policy, tool: PreparedTool) -> list[ToolArguments]:
    """The arguments of a tool for rules to be compared with, if any rule is about them."""
    from toolcrib.approval.policy_lint import ToolArguments

    params, ref = tool.params, tool.ref
    if not any(rule.arguments and rule.tool == ref.name for rule in policy.rules):
        return []
    names = params.names or ArgumentNames(params.schema, {})
    return [ToolArguments(ref.name, ref.source, ref.place, names)]


class ToolTable:
    """Tools by name. Additions and replacements show in the next turn, removals at once.

    The tables are copied when they change and never changed in place, so a turn can keep the one
    it started with.
    """

    def __init__(self, tools: Iterable[Any] = (), *, bind_to: BindTo = "code") -> None:
        self._bind_to: BindTo = bind_to
        self._registrations: dict[str, list[object]] = {}
        self._current: dict[str, PreparedTool] = {}
        for tool in tools:
            self._insert(self._prepare(tool))
        self._pinned = self._current
        self._declarations: tuple[Declaration, ...] | None = None

    def _prepare(self, tool: Any) -> PreparedTool:
        """Prepare a tool. Of those whose code is not wholly known, each handler in the table gets a
        digest of its own, so that a swap is noticed.
        """
        prepared = prepare(tool, bind_to=self._bind_to)
        if prepared.identity.is_whole:
            return prepared
        handlers = self._registrations.setdefault(prepared.ref.digest, [])
        handler = prepared.tool.handler
        number = next((at for at, known in enumerate(handlers) if _is_same(known, handler)), None)
        if number is None:
            number = len(handlers)
            handlers.append(handler)
        return prepared if number == 0 else registered_as(prepared, number + 1)

    def _insert(self, prepared: PreparedTool) -> None:
        name = prepared.ref.name
        if name in self._current:
            raise DuplicateTool(f"there is a tool named {name!r} already; names must be unique")
        self._current[name] = prepared

    def add(self, tool: Any) -> PreparedTool:
        """Register a tool. Raises `DuplicateTool` when the name is taken."""
        prepared = self._prepare(tool)
        self._current = dict(self._current)
        self._insert(prepared)
        return prepared

    def replace(self, tool: Any) -> tuple[PreparedTool | None, PreparedTool]:
        """Register a tool in place of whatever has its name; returns the old one and the new."""
        prepared = self._prepare(tool)
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
        """What the model is told of each available tool. The same object until the tools change,
        unless some come and go.
        """
        if self._declarations is not None:
            return self._declarations
        tools = self._pinned.values()
        declarations = tuple(tool.declaration for tool in tools if is_available(tool.tool))
        if all(tool.tool.available_when is None for tool in tools):
            self._declarations = declarations
        return declarations

    def instructions(self, make_context: Callable[[], ToolContext]) -> str | None:
        """The instructions of the available tools, separated by blank lines."""
        texts = [
            tool.tool.instruction(make_context()) or ""
            for tool in self._pinned.values()
            if tool.tool.instruction is not None and is_available(tool.tool)
        ]
        return "\n\n".join(filter(None, texts)) or None

    def resolve(self, call: Call) -> PreparedTool:
        """The call's tool, or the end of the call."""
        prepared = self._pinned.get(call.name)
        if prepared is None or (
            prepared.tool.visible_to is not None and not is_visible(prepared.tool, call.caller)
        ):
            raise CallEnded("not_found", self._not_found(call.name, call.caller))
        if prepared.tool.available_when is not None and not is_available(prepared.tool):
            raise CallEnded("not_found", f"The tool {call.name!r} is not available now.")
        call.prepared = call.tool = prepared
        return prepared

    def _not_found(self, name: str, caller: Caller | None) -> str:
        from toolcrib.approval.tool_names import did_you_mean

        names = [
            declaration.name
            for declaration in self.declarations()
            if is_visible(self._pinned[declaration.name].tool, caller)
        ]
        if not names:
            return f"There is no tool named {name!r}; this session has no tools."
        hint = did_you_mean(name, names) or "."
        return f"There is no tool named {name!r}{hint} The tools are: {', '.join(names)}."


def is_visible(tool: Tool[Any, Any], caller: Caller | None) -> bool:
    """Whether a tool is there for whoever asks."""
    if tool.visible_to is None:
        return True
    return caller is not None and tool.visible_to.includes(caller.principal, caller.groups)


def _is_same(first: object, second: object) -> bool:
    # Each look at a method of an object makes another method, equal to the last.
    are_methods = isinstance(first, MethodType) and isinstance(second, MethodType)
    return first is second or (are_methods and first == second)

"""Tools that call tools: what they may call, and how deep."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from toolcrib.calls.emitter import emitter_of
from toolcrib.calls.halt import Halt

if TYPE_CHECKING:
    from toolcrib.calls.call import Call
    from toolcrib.calls.executor import Executor
    from toolcrib.calls.outcome import Outcome


def check_nesting(call: Call, parent: Call, max_depth: int) -> None:
    """End a nested call that its caller may not make, that goes too deep, or that is a cycle."""
    if parent.is_over:
        # Its handler was given up, or kept the context: nothing bounds what it does any more.
        raise Halt("cancelled", f"The call of `{parent.name}` is over; it can call nothing more.")
    if call.name not in parent.tool.tool.uses:
        raise Halt(
            "not_permitted",
            f"`{parent.name}` may not call `{call.name}`; it must list the tool in `uses`.",
        )
    chain = [call.name]
    ancestor: Call | None = parent
    while ancestor is not None:
        chain.append(ancestor.name)
        ancestor = ancestor.parent
    if call.name in chain[1:]:
        path = " -> ".join(reversed(chain))
        raise Halt("recursion_limit", f"The tools call each other in a circle: {path}.")
    if call.depth > max_depth:
        raise Halt("recursion_limit", f"Tools call tools more than {max_depth} deep.")


class CallBinding:
    """Ties a `ToolContext` to its call."""

    __slots__ = ("_call", "_executor")

    def __init__(self, executor: Executor, call: Call) -> None:
        self._executor = executor
        self._call = call

    async def call_tool(self, name: str, arguments: Mapping[str, Any]) -> Outcome:
        return await self._executor.call_nested(self._call, name, arguments)

    def progress(self, current: float, total: float | None, message: str | None) -> None:
        emitter_of(self._call).progress(current, total, message)

    def output(self, chunk: str) -> None:
        emitter_of(self._call).output(chunk)

    def emit(self, type: str, data: Any) -> None:
        emitter_of(self._call).emit(type, data)

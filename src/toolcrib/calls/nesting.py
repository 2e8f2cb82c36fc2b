"""Tools that call tools: what they may call, and how deep."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from toolcrib.calls.emitter import Emitter
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

    __slots__ = ("_call", "_emitter", "_executor")

    def __init__(self, executor: Executor, call: Call) -> None:
        self._executor = executor
        self._call = call
        # Made now and not when it is first used: by then the call may be over.
        self._emitter = call.emitter = Emitter(call)

    async def call_tool(self, name: str, arguments: Mapping[str, Any]) -> Outcome:
        return await self._executor.call_nested(self._call, name, arguments)

    def progress(self, current: float, total: float | None, message: str | None) -> None:
        self._emitter.progress(current, total, message)

    def output(self, chunk: str) -> None:
        self._emitter.output(chunk)

    def emit(self, type: str, data: Any) -> None:
        self._emitter.emit(type, data)

"""A toolset's tools as an agent takes them.

What a tool returns, as JSON Schema, for models that are told.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, get_origin, get_type_hints

from pydantic import TypeAdapter
from pydantic.errors import PydanticUserError
from pydantic_ai import ToolDefinition
from pydantic_ai.toolsets import ToolsetTool

from toolcrib.tools.result import ToolResult
from toolcrib.toolsets.agent_bridge.arguments import ArgumentsValidator, refuse_invalid

if TYPE_CHECKING:
    from pydantic_ai import RunContext
    from pydantic_ai.toolsets import AbstractToolset

    from toolcrib.tools.prepared import PreparedTool
    from toolcrib.toolsets.agent_bridge.calls import AgentCalls
    from toolcrib.toolsets.hookable import HookableToolsetTool


def return_schema(call: Callable[..., Any]) -> dict[str, Any] | None:
    """The schema of what `call` is annotated to return; None when that says nothing of use, or
    when the model does not get it as JSON.
    """
    try:
        returned = get_type_hints(call).get("return", Any)
    except NameError:
        # Its types are imported for type checking only.
        return None
    kind = get_origin(returned) or returned
    is_theirs = getattr(kind, "__module__", "").startswith("pydantic_ai")
    if kind in (Any, type(None), ToolResult) or is_theirs or hasattr(kind, "render"):
        return None
    try:
        return TypeAdapter[Any](returned).json_schema(mode="serialization")
    except PydanticUserError:
        return None


@dataclass(kw_only=True)
class AgentTool(ToolsetTool[Any]):
    """One tool of a toolset in an agent. `timeout` is what the executor holds it to."""

    timeout: float | None = None


class AgentTools:
    """Lists tools for agents. What does not depend on a run is worked out once."""

    def __init__(
        self, toolset: AbstractToolset[Any], calls: AgentCalls, max_retries: int | None
    ) -> None:
        self._toolset = toolset
        self._calls = calls
        self._max_retries = max_retries
        self._ready: dict[PreparedTool, AgentTool] = {}

    def tool(
        self, prepared: PreparedTool, wrapped: HookableToolsetTool, run: RunContext[Any]
    ) -> AgentTool:
        """The tool, with a definition of its own: who prepares definitions may change them."""
        ready = self._ready.get(prepared)
        if ready is None:
            ready = self._ready[prepared] = self._make(prepared, wrapped)
        limits = (wrapped.tool.max_retries, self._max_retries, run.max_retries)
        return replace(
            ready,
            tool_def=replace(ready.tool_def),
            max_retries=next(limit for limit in limits if limit is not None),
        )

    def _make(self, prepared: PreparedTool, wrapped: HookableToolsetTool) -> AgentTool:
        return AgentTool(
            toolset=self._toolset,
            tool_def=_definition(prepared, wrapped),
            max_retries=0,
            args_validator=ArgumentsValidator(prepared),
            args_validator_func=refuse_invalid(self._refusal(prepared.ref.name)),
            timeout=wrapped.timeout,
        )

    def _refusal(self, name: str) -> Callable[[RunContext[Any], bytes], Awaitable[None]]:
        async def refuse(run: RunContext[Any], raw: bytes) -> None:
            await self._calls.refuse(name, raw, run)

        return refuse


def _definition(prepared: PreparedTool, wrapped: HookableToolsetTool) -> ToolDefinition:
    tool, declared = prepared.tool, prepared.declaration
    facts = {"category": tool.category, "version": tool.version, "is_read_only": tool.is_read_only}
    return ToolDefinition(
        name=declared.name,
        description=declared.description,
        # A copy: what approvers and records are shown is not an agent's to change.
        parameters_json_schema=deepcopy(declared.parameters),
        return_schema=return_schema(wrapped.tool.call),
        metadata={key: fact for key, fact in facts.items() if fact},
    )

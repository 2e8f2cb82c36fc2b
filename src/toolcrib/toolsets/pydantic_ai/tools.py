"""A toolset's tools as an agent takes them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pydantic_ai import ToolDefinition
from pydantic_ai.toolsets import ToolsetTool

from toolcrib.toolsets.pydantic_ai.arguments import ArgumentsValidator, refuse_invalid

if TYPE_CHECKING:
    from pydantic_ai import RunContext
    from pydantic_ai.toolsets import AbstractToolset

    from toolcrib.tools.prepared import PreparedTool
    from toolcrib.toolsets.pydantic_ai.calls import AgentCalls


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
        self,
        prepared: PreparedTool,
        run: RunContext[Any],
        *,
        max_retries: int | None,
        timeout: float | None,
    ) -> AgentTool:
        """The tool, with a definition of its own: who prepares definitions may change them."""
        ready = self._ready.get(prepared)
        if ready is None:
            ready = self._ready[prepared] = self._make(prepared, timeout)
        retries = next((n for n in (max_retries, self._max_retries) if n is not None), None)
        return replace(
            ready,
            tool_def=replace(ready.tool_def),
            max_retries=run.max_retries if retries is None else retries,
        )

    def _make(self, prepared: PreparedTool, timeout: float | None) -> AgentTool:
        return AgentTool(
            toolset=self._toolset,
            tool_def=_definition(prepared),
            max_retries=0,
            args_validator=ArgumentsValidator(prepared),
            args_validator_func=refuse_invalid(self._refusal(prepared.ref.name)),
            timeout=timeout,
        )

    def _refusal(self, name: str) -> Callable[[RunContext[Any], bytes], Awaitable[None]]:
        async def refuse(run: RunContext[Any], raw: bytes) -> None:
            await self._calls.refuse(name, raw, run)

        return refuse


def _definition(prepared: PreparedTool) -> ToolDefinition:
    tool, declared = prepared.tool, prepared.declaration
    facts = {"category": tool.category, "version": tool.version, "is_read_only": tool.is_read_only}
    return ToolDefinition(
        name=declared.name,
        description=declared.description,
        # A copy: what approvers and records are shown is not an agent's to change.
        parameters_json_schema=deepcopy(declared.parameters),
        metadata={key: fact for key, fact in facts.items() if fact},
    )

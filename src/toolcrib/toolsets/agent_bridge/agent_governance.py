"""`AgentGovernance`: the capability that governs all function tools of a pydantic-ai agent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering

from toolcrib.toolsets.agent_bridge.governed_toolset import GovernedTools, GovernedToolset

if TYPE_CHECKING:
    from pydantic_ai.toolsets import AbstractToolset


@dataclass
class AgentGovernance(AbstractCapability[Any]):
    """Wraps the whole toolset of an agent: functions, toolsets, and tools of other capabilities."""

    governed: GovernedTools

    def get_ordering(self) -> CapabilityOrdering:
        """Outside of everything that adds or changes tools, so that nothing gets past it."""
        return CapabilityOrdering(position="outermost")

    def get_wrapper_toolset(self, toolset: AbstractToolset[Any]) -> AbstractToolset[Any]:
        """The toolset of a run, governed."""
        return GovernedToolset(toolset, self.governed)

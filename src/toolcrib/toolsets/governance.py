"""`govern` and `govern_agent`: the gate around tools that somebody else wrote."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from toolcrib.calls.hooks import CALL_EVENTS, PROMPT_EVENTS, HookEvent
from toolcrib.errors import UsageError
from toolcrib.toolsets.run_contexts import ContextOf, RunContexts
from toolcrib.toolsets.run_executor import RunTerms
from toolcrib.toolsets.user_code import wrap_hooks

if TYPE_CHECKING:
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.toolsets import AbstractToolset

    from toolcrib.approval.approvers import Approver
    from toolcrib.approval.policy import Policy
    from toolcrib.calls.hooks import Hooks
    from toolcrib.calls.outcome import Limits
    from toolcrib.context import AgentContext
    from toolcrib.tools.identity import BindTo


def govern(
    toolset: AbstractToolset[Any],
    ctx: AgentContext | None = None,
    *,
    context: ContextOf | None = None,
    hooks: Hooks | None = None,
    policy: Policy | None = None,
    approver: Approver | None = None,
    limits: Limits | None = None,
    source: str | None = None,
    bind_to: BindTo = "code",
) -> AbstractToolset[Any]:
    """Any pydantic-ai toolset, with hooks, policy, approval, limits and a ledger around its calls.

    A run belongs to the context in its deps, else to `ctx`, else to a context of its conversation;
    `context` finds it in the deps. `source` is the source of the tools in policies and records.
    Tools that an executor runs already pass unchanged.
    """
    from toolcrib.toolsets.agent_bridge.governed_toolset import (
        GovernedTools,
        GovernedToolset,
        is_toolset,
    )

    if not is_toolset(toolset):
        raise UsageError(
            f"govern takes a toolset of pydantic-ai, not {type(toolset).__name__}; functions go "
            "into FunctionToolset([...]), tools of Toolcrib into Toolset(tools=[...])"
        )
    terms = RunTerms(_lenient(hooks, "govern", CALL_EVENTS), policy, approver, limits, bind_to)
    return GovernedToolset(toolset, GovernedTools(terms, RunContexts(ctx, context), source))


def govern_agent(
    ctx: AgentContext | None = None,
    *,
    context: ContextOf | None = None,
    hooks: Hooks | None = None,
    policy: Policy | None = None,
    approver: Approver | None = None,
    limits: Limits | None = None,
    source: str | None = None,
    bind_to: BindTo = "code",
) -> AbstractCapability[Any]:
    """The same around every function tool of an agent, wherever it comes from: for
    `Agent(..., capabilities=[govern_agent(...)])`. Hooks around model requests and turns run, too.
    """
    from toolcrib.toolsets.agent_bridge.agent_governance import AgentGovernance
    from toolcrib.toolsets.agent_bridge.governed_toolset import GovernedTools

    events = CALL_EVENTS | PROMPT_EVENTS
    terms = RunTerms(_lenient(hooks, "an agent", events), policy, approver, limits, bind_to)
    return AgentGovernance(GovernedTools(terms, RunContexts(ctx, context), source))


def _lenient(hooks: Hooks | None, where: str, events: Collection[HookEvent]) -> Hooks | None:
    """Which tools there are is known in a run only, and may change from step to step."""
    if hooks is None:
        return None
    hooks.check_events(where, events)
    return wrap_hooks(hooks.lenient())

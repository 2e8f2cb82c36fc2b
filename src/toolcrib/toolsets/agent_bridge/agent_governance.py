"""`AgentGovernance`: the capability that governs all function tools of a pydantic-ai agent."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic_ai import ModelResponse, ToolCallPart
from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering

from toolcrib.calls.lifecycle import (
    HookedPrompt,
    HookedReply,
    HookedRequest,
    HookedTurn,
    HookFacts,
    refusal_of,
    tell_hooks,
)
from toolcrib.errors import Refused
from toolcrib.toolsets.agent_bridge.calls import TRANSPORT, caller_of
from toolcrib.toolsets.agent_bridge.governed_toolset import GovernedTools, GovernedToolset

if TYPE_CHECKING:
    from pydantic_ai import RunContext
    from pydantic_ai.models import ModelRequestContext
    from pydantic_ai.run import AgentRunResult
    from pydantic_ai.toolsets import AbstractToolset

    from toolcrib.calls.hooks import HookEvent


@dataclass
class AgentGovernance(AbstractCapability[Any]):
    """Wraps the whole toolset of an agent: functions, toolsets, and tools of other capabilities.
    Hooks around prompts, turns and model requests run, too; a refusal of one is raised out of the
    run as `Refused`.
    """

    governed: GovernedTools

    def get_ordering(self) -> CapabilityOrdering:
        """Outside of everything that adds or changes tools, so that nothing gets past it."""
        return CapabilityOrdering(position="outermost")

    def get_wrapper_toolset(self, toolset: AbstractToolset[Any]) -> AbstractToolset[Any]:
        """The toolset of a run, governed."""
        return GovernedToolset(toolset, self.governed)

    async def wrap_run(self, ctx: RunContext[Any], *, handler: Any) -> AgentRunResult[Any]:
        """Ask about the prompt and the turn, and tell how the turn ended."""
        hooks = self.governed.terms.hooks
        if hooks is None:
            return await handler()
        session_id = self._session_id(ctx)
        await self._ask("prompt_submitted", _prompt(ctx, session_id))
        outcome = "failed"
        try:
            await self._ask("turn_started", HookedTurn(session_id=session_id, turn=None))
            result = await handler()
            outcome = "completed"
            return result
        except asyncio.CancelledError:
            outcome = "cancelled"
            raise
        finally:
            ended = HookedTurn(session_id=session_id, turn=None, outcome=outcome)
            await tell_hooks(hooks, "turn_ended", ended)

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Ask the hooks about a request."""
        if self.governed.terms.hooks is not None:
            parameters = request_context.model_request_parameters
            facts = HookedRequest(
                session_id=self._session_id(ctx),
                turn=None,
                step=ctx.run_step,
                model=request_context.model.model_name,
                tools=tuple(tool.name for tool in parameters.function_tools),
                messages=tuple(request_context.messages),
            )
            await self._ask("before_request", facts)
        return request_context

    async def after_model_request(
        self,
        ctx: RunContext[Any],
        *,
        request_context: ModelRequestContext,
        response: ModelResponse,
    ) -> ModelResponse:
        """Ask the hooks about a reply."""
        if self.governed.terms.hooks is not None:
            usage = response.usage
            calls = [part.tool_name for part in response.parts if isinstance(part, ToolCallPart)]
            facts = HookedReply(
                session_id=self._session_id(ctx),
                turn=None,
                step=ctx.run_step,
                model=response.model_name,
                calls=tuple(calls),
                usage={"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens},
                items=tuple(response.parts),
            )
            await self._ask("after_request", facts)
        return response

    def _session_id(self, ctx: RunContext[Any]) -> str:
        return self.governed.contexts.of(ctx).session.session_id

    async def _ask(self, event: HookEvent, facts: HookFacts) -> None:
        reason = await refusal_of(self.governed.terms.hooks, event, facts)
        if reason is not None:
            raise Refused("forbidden", reason)


def _prompt(ctx: RunContext[Any], session_id: str) -> HookedPrompt:
    prompt: object = ctx.prompt
    text = prompt if isinstance(prompt, str) else "" if prompt is None else str(prompt)
    return HookedPrompt(
        session_id=session_id,
        prompt_name=None,
        text=text,
        principal=caller_of(ctx).principal,
        transport=TRANSPORT,
    )

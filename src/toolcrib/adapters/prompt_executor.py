"""The executor of a prompt's calls: whoever serves them knows the prompt and the adapter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from toolcrib.adapters.withholding import Governance
from toolcrib.calls.executor import Executor
from toolcrib.session.events import idempotency_key
from toolcrib.tools.context import ToolContext

if TYPE_CHECKING:
    from toolcrib.calls.call import Call
    from toolcrib.session.session import Session


class PromptExecutor(Executor):
    """An executor whose contexts lead back to the prompt and the adapter that evaluates it."""

    def __init__(
        self,
        session: Session,
        tools: Sequence[Any],
        governance: Governance,
        *,
        prompt: Any,
        adapter: Any,
        is_inherited: bool = False,
    ) -> None:
        hooks = governance.hooks
        if is_inherited and hooks is not None:
            # Whoever gave them may have had tools in mind that this prompt does not have.
            hooks = hooks.only({tool.name: tool for tool in tools})
        super().__init__(
            session,
            tools,
            hooks=hooks,
            policy=governance.policy,
            approver=governance.approver,
            limits=governance.limits,
        )
        self.governance = governance
        self._prompt = prompt
        self._adapter = adapter
        self.deadline: float | None = None
        """When the prompt must be answered, in the running loop's time."""

    def provider_context(self, name: str, call_id: str, turn: int) -> ToolContext:
        """The context of a call that the provider ran."""
        session = self.session
        return ToolContext(
            session_id=session.session_id,
            cwd=session.cwd,
            environment=dict(session.environment),
            metadata=dict(session.metadata),
            call_id=call_id,
            tool_name=name,
            idempotency_key=idempotency_key(session.session_id, call_id),
            deadline=self.deadline,
            turn=turn,
            deps=session.deps,
            session=session,
            bus=session.bus,
            prompt=self._prompt,
            adapter=self._adapter,
        )

    def _context(self, call: Call) -> ToolContext:
        context = super()._context(call)
        context.prompt = self._prompt
        context.adapter = self._adapter
        return context

"""The executor of a prompt's calls: whoever serves them knows the prompt and the adapter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from toolcrib.adapters.withholding import Governance
from toolcrib.calls.call import Call
from toolcrib.calls.executor import Executor

if TYPE_CHECKING:
    from toolcrib.session.session import Session
    from toolcrib.tools.context import ToolContext
    from toolcrib.tools.prepared import PreparedTool


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
            runners=governance.runners,
        )
        self.governance = governance
        self._prompt = prompt
        self._adapter = adapter
        self.deadline: float | None = None
        """When the prompt must be answered, in the running loop's time."""

    def provider_call(self, tool: PreparedTool, call_id: str, turn: int) -> Call:
        """A call that the provider ran, with the context that its output hook gets: the one that a
        handler would have.
        """
        caller = self.governance.caller
        call = Call(
            call_id, tool.ref.name, b"{}", self.session, caller=caller, deadline=self.deadline
        )
        call.turn = turn
        call.resolve(tool)
        call.context = self._context(call)
        return call

    def _context(self, call: Call) -> ToolContext:
        context = super()._context(call)
        context.prompt = self._prompt
        context.adapter = self._adapter
        return context

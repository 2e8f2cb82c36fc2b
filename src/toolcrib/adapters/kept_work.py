"""What an evaluation that fails has come to, kept with its error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolcrib.adapters.answer import answer_items, answer_text
from toolcrib.errors import OutputMismatch

if TYPE_CHECKING:
    from toolcrib.adapters.loop import Turn
    from toolcrib.adapters.turn_tools import TurnTools
    from toolcrib.errors import PromptEvaluationError
    from toolcrib.prices.cost import Cost
    from toolcrib.session.session import Session


def keep_work(
    error: PromptEvaluationError, turn: Turn[Any], tools: TurnTools, session: Session, cost: Cost
) -> None:
    """Let an error carry what its turn came to."""
    conversation = turn.conversation
    text = answer_text(answer_items(conversation.last_items))
    error.text = tools.credentials.hide(text)
    error.invocations = tuple((ran.name, ran.invocation) for ran in tools.hosted.ran)
    error.usage, error.cost = conversation.usage, cost
    error.request_ids = tuple(conversation.request_ids)
    error.session, error.session_id = session, session.session_id
    error.turn = turn.number
    error.can_resume = _can_resume(error)


def _can_resume(error: PromptEvaluationError) -> bool:
    """Whether `resume` makes another request, which may go better."""
    match error.phase:
        case "request" | "budget":
            return True
        case "response":
            # The same words would be refused again, and other faults would be read again.
            return error.reason in ("incomplete", "failed", "empty")
        case "parse":
            return isinstance(error.__cause__, OutputMismatch)
        case "render" | "tool":
            return False

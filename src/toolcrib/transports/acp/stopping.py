"""Why a prompt ended, in the words of the Agent Client Protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from acp.exceptions import RequestError
from acp.schema import AgentMessageChunk, PromptResponse, StopReason, Usage

from toolcrib.errors import Refused
from toolcrib.runtime.service import as_json
from toolcrib.transports.acp.tool_calls import text_block

if TYPE_CHECKING:
    from toolcrib.runtime.messages import PromptResult

FAILED = -32603
"""The code of a prompt that got no answer."""


def response_to(result: PromptResult, last_status: str) -> PromptResponse:
    """The answer to `session/prompt`. Raises `RequestError` when the model gave none for a reason
    that the protocol has no word for, and `Refused` while the runtime closes.
    """
    return PromptResponse(
        stop_reason=_reason(result, last_status),
        usage=_usage(result),
        field_meta={"toolcrib": as_json(result)},
    )


def explained(result: PromptResult) -> AgentMessageChunk | None:
    """Words for the person, who would otherwise see only that the answer ends."""
    if result.status != "failed" or not result.error:
        return None
    return AgentMessageChunk(session_update="agent_message_chunk", content=text_block(result.error))


def _reason(result: PromptResult, last_status: str) -> StopReason:
    match result.status:
        case "completed":
            return "end_turn"
        case "cancelled":
            return "cancelled"
        case "waiting":
            raise Refused("closing", "the runtime closes; the prompt waits and can be resumed")
        case "failed":
            return _failure(result, last_status)
        case _:
            assert_never(result.status)


def _failure(result: PromptResult, last_status: str) -> StopReason:
    told = result.error or "the prompt was not answered"
    if last_status == "refused":
        return "refusal"
    if last_status == "incomplete":
        return "refusal" if "filter" in told else "max_tokens"
    spent = spent_in(told)
    if spent is None:
        raise RequestError(FAILED, told, {"kind": "failed", "facts": as_json(result)})
    return spent


def spent_in(error: str) -> StopReason | None:
    """Which limit of a budget an error names."""
    _, found, limit = error.partition("the prompt takes ")
    if not found:
        return None
    return (
        "max_tokens"
        if limit.partition(" and may take ")[0].endswith("tokens")
        else ("max_turn_requests")
    )


def _usage(result: PromptResult) -> Usage | None:
    read, written = result.usage.get("input_tokens"), result.usage.get("output_tokens")
    if read is None or written is None:
        return None
    return Usage(total_tokens=read + written, input_tokens=read, output_tokens=written)

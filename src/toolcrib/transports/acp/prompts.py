"""Prompts of the Agent Client Protocol: content blocks as text, and results as stop reasons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias, assert_never

from acp.exceptions import RequestError
from acp.schema import (
    AgentMessageChunk,
    AudioContentBlock,
    EmbeddedResourceContentBlock,
    ImageContentBlock,
    PromptResponse,
    ResourceContentBlock,
    StopReason,
    TextContentBlock,
    TextResourceContents,
    Usage,
)

from toolcrib.errors import Refused
from toolcrib.runtime.service import as_json
from toolcrib.transports.acp.tool_calls import text_block

if TYPE_CHECKING:
    from toolcrib.runtime.messages import PromptResult


Block: TypeAlias = (
    TextContentBlock
    | ImageContentBlock
    | AudioContentBlock
    | ResourceContentBlock
    | EmbeddedResourceContentBlock
)


def text_of(blocks: Sequence[Block]) -> str:
    """The text of a prompt. Raises `Refused` (invalid) for blocks that are not text."""
    text = "\n\n".join(_text(block) for block in blocks)
    if not text.strip():
        raise Refused("invalid", "session/prompt: the prompt is empty")
    return text


def _text(block: Block) -> str:
    match block:
        case TextContentBlock(text=text):
            return text
        case ResourceContentBlock(uri=uri, name=name):
            return f"[{name}]({uri})"
        case EmbeddedResourceContentBlock(resource=TextResourceContents() as resource):
            return f'<resource uri="{resource.uri}">\n{resource.text}\n</resource>'
        case EmbeddedResourceContentBlock(resource=resource):
            raise _unsupported(f"the embedded resource {resource.uri[:200]!r} is not text")
        case ImageContentBlock():
            raise _unsupported("images are not supported")
        case AudioContentBlock():
            raise _unsupported("audio is not supported")


def _unsupported(reason: str) -> Refused:
    return Refused(
        "invalid", f"session/prompt: {reason}; see promptCapabilities in the answer to initialize"
    )


FAILED = -32603
"""The error code of a prompt without an answer."""


def response_to(result: PromptResult) -> PromptResponse:
    """The response to `session/prompt`. Raises `RequestError` when the model gave no answer for a
    reason that is no stop reason of the protocol, and `Refused` while the runtime closes.
    """
    return PromptResponse(
        stop_reason=_reason(result),
        usage=_usage(result),
        field_meta={"toolcrib": as_json(result)},
    )


def failure_message(result: PromptResult) -> AgentMessageChunk | None:
    """The error of a failed prompt as a message; otherwise a person sees only that it ended."""
    if result.status != "failed" or not result.error:
        return None
    return AgentMessageChunk(session_update="agent_message_chunk", content=text_block(result.error))


def _reason(result: PromptResult) -> StopReason:
    match result.status:
        case "completed":
            return "end_turn"
        case "cancelled":
            return "cancelled"
        case "waiting":
            raise Refused("closing", "the runtime is closing; the prompt waits and can be resumed")
        case "failed":
            return _failure(result)
        case _:
            assert_never(result.status)


def _failure(result: PromptResult) -> StopReason:
    match result.reason:
        case "refused":
            return "refusal"
        case "incomplete" | "max_tokens":
            return "max_tokens"
        case "max_steps" | "max_calls" | "max_cost":
            return "max_turn_requests"
        case "failed" | "empty" | None:
            text = result.error or "the prompt was not answered"
            raise RequestError(FAILED, text, {"kind": "failed", "facts": as_json(result)})
        case _:
            assert_never(result.reason)


def _usage(result: PromptResult) -> Usage | None:
    read, written = result.usage.get("input_tokens"), result.usage.get("output_tokens")
    if read is None or written is None:
        return None
    return Usage(total_tokens=read + written, input_tokens=read, output_tokens=written)

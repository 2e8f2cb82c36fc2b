"""The names of what is recorded: those of OpenTelemetry's conventions, and our own.

The `gen_ai` names are those of semantic conventions 1.44, which marks them as moved, and of
open-telemetry/semantic-conventions-genai, where they live now (November 2026): from there come
the duration metric with its buckets, and the agent's name on tool spans. All of them are in
development; `error.type` is stable.

Content (arguments, results and texts) is left out unless it is requested.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, Literal

from toolcrib.ledger.encoding import encode_facts

if TYPE_CHECKING:
    from toolcrib.ledger.events import ToolInvoked
    from toolcrib.tools.identity import ToolRef


Attributes = dict[str, str | int | float | bool]
ToolType = Literal["function", "extension", "datastore"]

ERROR_TYPE: Final = "error.type"
OTHER: Final = "_OTHER"
"""For what is not one of a known few: values that anybody may invent would never end."""

AGENT_NAME: Final = "gen_ai.agent.name"
CONVERSATION_ID: Final = "gen_ai.conversation.id"
INPUT_MESSAGES: Final = "gen_ai.input.messages"
OPERATION_NAME: Final = "gen_ai.operation.name"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
PROVIDER_NAME: Final = "gen_ai.provider.name"
REQUEST_MODEL: Final = "gen_ai.request.model"
RESPONSE_ID: Final = "gen_ai.response.id"
RESPONSE_MODEL: Final = "gen_ai.response.model"
SYSTEM_INSTRUCTIONS: Final = "gen_ai.system_instructions"
TOOL_CALL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
TOOL_CALL_RESULT: Final = "gen_ai.tool.call.result"
TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_TYPE: Final = "gen_ai.tool.type"
USAGE: Final = {
    "input_tokens": "gen_ai.usage.input_tokens",
    "output_tokens": "gen_ai.usage.output_tokens",
    "cached_tokens": "gen_ai.usage.cache_read.input_tokens",
    "reasoning_tokens": "gen_ai.usage.reasoning.output_tokens",
}
"""What a model step reports, by our names."""

CHAT: Final = "chat"
EXECUTE_TOOL: Final = "execute_tool"
INVOKE_AGENT: Final = "invoke_agent"

EXECUTE_TOOL_DURATION: Final = "gen_ai.execute_tool.duration"
DURATION_BUCKETS: Final = tuple(0.01 * 2**power for power in range(14))

APPROVAL_WAIT: Final = "toolcrib.approval.wait"
APPROVAL_ACTOR: Final = "toolcrib.approval.actor.kind"
APPROVAL_DECISION: Final = "toolcrib.approval.decision"
APPROVAL_EDITED: Final = "toolcrib.approval.edited"
APPROVAL_ID: Final = "toolcrib.approval.id"
APPROVAL_REASON: Final = "toolcrib.approval.reason"
APPROVAL_RULE: Final = "toolcrib.approval.rule"
CALL_ATTEMPT: Final = "toolcrib.call.attempt"
CALL_DECIDED_BY: Final = "toolcrib.call.decided_by"
CALL_EXCEPTION: Final = "toolcrib.call.exception"
CALL_OUTCOME: Final = "toolcrib.call.outcome"
CALL_STILL_RUNNING: Final = "toolcrib.call.still_running"
COST: Final = "toolcrib.cost"
"""In US dollars."""
PRINCIPAL: Final = "toolcrib.principal"
PRINCIPAL_GROUPS: Final = "toolcrib.principal.groups"
PROMPT_OUTCOME: Final = "toolcrib.prompt.outcome"
PROMPT_RESUMED: Final = "toolcrib.prompt.resumed"
PROVIDER_CALL: Final = "toolcrib.provider_call"
STEP: Final = "toolcrib.step"
TOOL_PLACE: Final = "toolcrib.tool.place"
TOOL_SOURCE: Final = "toolcrib.tool.source"
TURN: Final = "toolcrib.turn"
UNRECORDED: Final = "unrecorded"
"""The error of a call whose end could not be written down."""

CALLS: Final = "toolcrib.calls"
CALLS_ACTIVE: Final = "toolcrib.call.active"
CALL_ERRORS: Final = "toolcrib.call.errors"
CALL_TIMEOUTS: Final = "toolcrib.call.timeouts"
APPROVAL_REQUESTS: Final = "toolcrib.approval.requests"
APPROVAL_DECISIONS: Final = "toolcrib.approval.decisions"

_PROVIDERS: Final = {
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "google": "gcp.gemini",
    "google-vertex": "gcp.vertex_ai",
    "mistral": "mistral_ai",
    "openai-chat": "openai",
    "openai-responses": "openai",
    "xai": "x_ai",
}


def provider_name(provider: str) -> str:
    """A provider of ours by the conventions' name, where they have one."""
    return _PROVIDERS.get(provider, provider)


def tool_type(tool: ToolRef | None, capability: str | None = None) -> ToolType:
    """Who runs the tool: we do, or the provider; a search in its stores is an access to data."""
    if tool is None or tool.place != "provider":
        return "function"
    return "datastore" if capability == "file_search" else "extension"


CAPTURE_VARIABLE: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"

# The old spelling is a truth value; the new one says where content may go, and ours goes to spans.
_WANTED: Final = frozenset({"true", "1", "span_only", "span_and_event"})


def is_content_wanted(capture_content: bool | None) -> bool:
    """What the program says; where it says nothing, what the environment says."""
    if capture_content is not None:
        return capture_content
    return os.environ.get(CAPTURE_VARIABLE, "").strip().lower() in _WANTED


def call_content(event: ToolInvoked) -> Attributes:
    """The redacted arguments of a call and what the model saw of its result."""
    content: Attributes = {}
    if event.params is not None:
        content[TOOL_CALL_ARGUMENTS] = encode_facts(event.params).decode()
    if event.success:
        content[TOOL_CALL_RESULT] = event.message
    return content


def as_messages(role: str, text: str) -> str:
    """One message in the shape that the conventions give to messages."""
    return encode_facts([{"role": role, "parts": [{"type": "text", "content": text}]}]).decode()


def as_parts(text: str) -> str:
    """A text in the shape that the conventions give to instructions."""
    return encode_facts([{"type": "text", "content": text}]).decode()

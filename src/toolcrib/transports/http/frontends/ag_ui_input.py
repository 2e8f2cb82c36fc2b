"""The runs that an AG-UI client asks for, and a thread's history in its messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field, JsonValue, StrictBool, TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel

from toolcrib.errors import Refused
from toolcrib.runtime.messages import ClientTool
from toolcrib.serving.refusals import as_bytes
from toolcrib.transports.http.frontends.ag_ui_events import result_content, result_id
from toolcrib.transports.http.frontends.chat_request import (
    ChatDecision,
    ChatMessage,
    ChatRequest,
    ChatToolResult,
    read_typed,
)
from toolcrib.transports.http.frontends.client_calls import with_deadline
from toolcrib.transports.http.frontends.turn_parts import (
    CallOver,
    CallReady,
    ProseBegun,
    ProsePiece,
)

if TYPE_CHECKING:
    from toolcrib.transports.http.frontends.chat_history import PastTurn

_LENIENT = ConfigDict(extra="ignore", alias_generator=to_camel)
_NO_PARAMETERS: dict[str, JsonValue] = {"type": "object", "properties": {}}


@dataclass(frozen=True, slots=True, kw_only=True)
class AgUiMessage:
    """A message of the client's history. Of what came before the last run, nothing is read."""

    __pydantic_config__: ClassVar[ConfigDict] = _LENIENT
    id: str
    role: str
    content: JsonValue = None
    tool_call_id: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgUiTool:
    """A tool that the front end runs."""

    __pydantic_config__: ClassVar[ConfigDict] = _LENIENT
    name: str
    description: str = ""
    parameters: dict[str, JsonValue] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgUiResume:
    """The answer to one interrupt."""

    __pydantic_config__: ClassVar[ConfigDict] = _LENIENT
    interrupt_id: str
    status: Literal["resolved", "cancelled"]
    payload: JsonValue = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgUiRun:
    """What an AG-UI client sends (`RunAgentInput`). Its `state`, `context` and `forwardedProps` are
    ignored.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _LENIENT
    thread_id: Annotated[str, Field(min_length=1)]
    run_id: Annotated[str, Field(min_length=1, max_length=255)]
    messages: list[AgUiMessage] = field(default_factory=list[AgUiMessage])
    tools: list[AgUiTool] = field(default_factory=list[AgUiTool])
    resume: list[AgUiResume] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgUiDecision:
    """The payload of the answer to an interrupt."""

    __pydantic_config__: ClassVar[ConfigDict] = _LENIENT
    approved: StrictBool
    reason: str | None = None
    digest: str | None = None


def read_run(body: Mapping[str, Any]) -> tuple[AgUiRun, ChatRequest]:
    """A run, and what it asks for. Raises `Refused` (invalid)."""
    run = read_typed(_run_adapter(), body)
    tools = tuple(_client_tool(tool) for tool in run.tools)
    if run.resume:
        decisions = tuple(_decision(entry) for entry in run.resume)
        return run, ChatRequest(chat_id=run.thread_id, decisions=decisions, tools=tools)
    if not run.messages:
        raise Refused("invalid", "messages is empty; send the message of the user")
    last = run.messages[-1]
    if last.role == "user":
        message = ChatMessage(_text(last.content), last.id)
        return run, ChatRequest(chat_id=run.thread_id, message=message, tools=tools)
    results = tuple(_results(run.messages))
    return run, ChatRequest(chat_id=run.thread_id, results=results, tools=tools)


@cache
def _run_adapter() -> TypeAdapter[AgUiRun]:
    return TypeAdapter(AgUiRun)


@cache
def _decision_adapter() -> TypeAdapter[AgUiDecision]:
    return TypeAdapter(AgUiDecision)


def _client_tool(tool: AgUiTool) -> ClientTool:
    description = tool.description.strip() or tool.name
    parameters = tool.parameters or _NO_PARAMETERS
    fields = {"name": tool.name, "description": description, "parameters": parameters}
    return with_deadline(read_typed(_tool_adapter(), fields))


@cache
def _tool_adapter() -> TypeAdapter[ClientTool]:
    return TypeAdapter(ClientTool)


def _decision(entry: AgUiResume) -> ChatDecision:
    """The decision in an answer. One that was cancelled is a no; an unclear one is none."""
    if entry.status == "cancelled":
        return ChatDecision(entry.interrupt_id, is_approved=False, reason="cancelled by the user")
    try:
        decision = _decision_adapter().validate_python(entry.payload)
    except ValidationError:
        raise Refused(
            "invalid", "the payload of a resolved interrupt needs `approved`: true or false"
        ) from None
    return ChatDecision(entry.interrupt_id, decision.approved, decision.reason, decision.digest)


def _text(content: JsonValue) -> str:
    texts = [content] if isinstance(content, str) else list(_texts(content))
    text = "\n\n".join(texts)
    if not text.strip():
        raise Refused("invalid", "the message of the user has no text")
    return text


def _texts(content: JsonValue) -> Iterator[str]:
    for part in content if isinstance(content, list) else ():
        if not isinstance(part, dict):
            continue
        if part.get("type") != "text":
            raise Refused("invalid", "only text is supported in messages; send text")
        if isinstance(text := part.get("text"), str):
            yield text


def _results(messages: list[AgUiMessage]) -> Iterator[ChatToolResult]:
    """The results at the end of the history. Only those of calls that wait are ever taken."""
    for message in reversed(messages):
        if message.role != "tool":
            return
        if message.tool_call_id is not None:
            yield ChatToolResult(message.tool_call_id, message.content, message.error)


def ag_ui_history(turns: Iterable[PastTurn]) -> list[dict[str, Any]]:
    """The messages of turns."""
    messages: list[dict[str, Any]] = []
    for past in turns:
        messages.append({"id": f"prompt-{past.turn}", "role": "user", "content": past.text})
        prose: dict[str, dict[str, Any]] = {}
        for part in past.parts:
            match part:
                case ProseBegun(kind=kind, part_id=part_id):
                    role = "assistant" if kind == "text" else "reasoning"
                    prose[part_id] = {"id": part_id, "role": role, "content": ""}
                    messages.append(prose[part_id])
                case ProsePiece(part_id=part_id, text=text):
                    prose[part_id]["content"] += text
                case CallReady():
                    messages.append(_call_message(part))
                case CallOver():
                    messages.append(_result_message(part))
                case _:
                    pass
    return messages


def _call_message(part: CallReady) -> dict[str, Any]:
    function = {"name": part.tool, "arguments": as_bytes(part.arguments).decode()}
    call = {"id": part.call_id, "type": "function", "function": function}
    return {"id": part.call_id, "role": "assistant", "toolCalls": [call]}


def _result_message(part: CallOver) -> dict[str, Any]:
    message = {
        "id": result_id(part.call_id),
        "role": "tool",
        "toolCallId": part.call_id,
        "content": result_content(part),
    }
    return message if part.ending == "done" else {**message, "error": part.message}

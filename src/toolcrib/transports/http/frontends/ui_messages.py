"""The requests of the Vercel AI SDK's chat, and a chat's history in its messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar, Literal

from pydantic import ConfigDict, JsonValue, StrictBool, TypeAdapter, ValidationError

from toolcrib.errors import Refused
from toolcrib.runtime.messages import ClientTool
from toolcrib.transports.http.frontends.chat_request import (
    ChatDecision,
    ChatMessage,
    ChatRequest,
    ChatToolResult,
    read_typed,
)
from toolcrib.transports.http.frontends.client_calls import with_deadline

MAX_PARTS = 2_000
"""How many parts the last message may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UiApproval:
    """The answer to a request for approval, in the part of its call."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="ignore")
    id: str
    approved: StrictBool | None = None
    reason: str | None = None
    signature: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UiMessage:
    """A message of the client's history. Of all but the last, nothing is read."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="ignore")
    id: str | None = None
    role: Literal["system", "user", "assistant"]
    parts: list[dict[str, JsonValue]] = field(default_factory=list[dict[str, JsonValue]])


@dataclass(frozen=True, slots=True, kw_only=True)
class UiChatRequest:
    """What `DefaultChatTransport` sends. Fields that an application adds are ignored; `tools` are
    those that the front end runs itself.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="ignore")
    id: str
    messages: list[UiMessage]
    trigger: Literal["submit-message", "regenerate-message"] = "submit-message"
    tools: list[ClientTool] = field(default_factory=list[ClientTool])


def read_ui_request(body: Mapping[str, Any]) -> ChatRequest:
    """What a request asks for. Raises `Refused` (invalid)."""
    request = read_typed(_adapter(), body)
    if not request.messages:
        raise Refused("invalid", "messages is empty; send the message of the user")
    last = request.messages[-1]
    if len(last.parts) > MAX_PARTS:
        raise Refused("too_large", f"the last message has more than {MAX_PARTS} parts")
    tools = tuple(with_deadline(tool) for tool in request.tools)
    match last.role:
        case "user":
            is_retry = request.trigger == "regenerate-message"
            message = ChatMessage(_text(last.parts), None if is_retry else last.id)
            return ChatRequest(chat_id=request.id, message=message, is_retry=is_retry, tools=tools)
        case "assistant":
            return ChatRequest(
                chat_id=request.id,
                decisions=tuple(_decisions(last.parts)),
                results=tuple(_results(last.parts)),
                tools=tools,
            )
        case "system":
            raise Refused("invalid", "the last message must be the user's or the assistant's")


@cache
def _adapter() -> TypeAdapter[UiChatRequest]:
    return TypeAdapter(UiChatRequest)


def _text(parts: Iterable[Mapping[str, Any]]) -> str:
    texts: list[str] = []
    for part in parts:
        kind = part.get("type")
        if kind == "file":
            raise Refused("invalid", "files in messages are not supported; send text")
        if kind == "text" and isinstance(text := part.get("text"), str):
            texts.append(text)
    text = "\n\n".join(texts)
    if not text.strip():
        raise Refused("invalid", "the message of the user has no text")
    return text


def _calls(parts: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for part in parts:
        kind = part.get("type")
        if isinstance(kind, str) and (kind.startswith("tool-") or kind == "dynamic-tool"):
            yield part


def _decisions(parts: Iterable[Mapping[str, Any]]) -> Iterator[ChatDecision]:
    """The decisions in the last message. Only a clear yes or no is one."""
    for part in _calls(parts):
        if part.get("state") != "approval-responded":
            continue
        try:
            approval = _approval_adapter().validate_python(part.get("approval"))
        except ValidationError:
            raise Refused(
                "invalid", "a decision needs `approval` with the id and `approved`: true or false"
            ) from None
        if approval.approved is None:
            raise Refused("invalid", "a decision needs `approved`: true or false")
        yield ChatDecision(approval.id, approval.approved, approval.reason, approval.signature)


@cache
def _approval_adapter() -> TypeAdapter[UiApproval]:
    return TypeAdapter(UiApproval)


def _results(parts: Iterable[Mapping[str, Any]]) -> Iterator[ChatToolResult]:
    """What became of calls, by the client. Only those that wait for it are ever taken."""
    for part in _calls(parts):
        call_id, state = part.get("toolCallId"), part.get("state")
        if not isinstance(call_id, str):
            continue
        if state == "output-available":
            yield ChatToolResult(call_id, part.get("output"))
        elif state == "output-error":
            error = part.get("errorText")
            yield ChatToolResult(call_id, error=error if isinstance(error, str) else "it failed")

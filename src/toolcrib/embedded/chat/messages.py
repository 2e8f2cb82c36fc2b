"""The messages of a chat request, and the input items of the Responses API that they become."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Final, Literal, TypeAlias, assert_never

from annotated_types import MinLen
from pydantic import ConfigDict, Discriminator
from pydantic.dataclasses import dataclass as checked

from toolcrib.embedded.faults import invalid

LENIENT: Final = ConfigDict(extra="ignore", strict=True)
"""Clients send messages back as they got them, with fields that say nothing to a model."""

JsonItem: TypeAlias = dict[str, Any]
ToolName: TypeAlias = Annotated[str, MinLen(1)]


@checked(frozen=True, config=LENIENT)
class ChatTextPart:
    """A text."""

    type: Literal["text"]
    text: str


@checked(frozen=True, config=LENIENT)
class ChatRefusalPart:
    """The text of a refusal."""

    type: Literal["refusal"]
    refusal: str


@checked(frozen=True, config=LENIENT)
class ChatImageSource:
    """The address of an image: a web address or its content as `data:`."""

    url: str
    detail: Literal["auto", "low", "high", "original"] | None = None


@checked(frozen=True, config=LENIENT)
class ChatImagePart:
    """An image."""

    type: Literal["image_url"]
    image_url: ChatImageSource


@checked(frozen=True, config=LENIENT)
class ChatFileSource:
    """A file: an uploaded one by its id, or its content as `data:`."""

    file_id: str | None = None
    file_data: str | None = None
    filename: str | None = None


@checked(frozen=True, config=LENIENT)
class ChatFilePart:
    """A file."""

    type: Literal["file"]
    file: ChatFileSource


@checked(frozen=True, config=LENIENT)
class ChatCalledFunction:
    """The function of a call, and its arguments as JSON text."""

    name: ToolName
    arguments: str


@checked(frozen=True, config=LENIENT)
class ChatFunctionCall:
    """A call of a function that the model proposed earlier."""

    id: str
    type: Literal["function"]
    function: ChatCalledFunction


@checked(frozen=True, config=LENIENT)
class ChatCalledTool:
    """The custom tool of a call, and its input."""

    name: ToolName
    input: str


@checked(frozen=True, config=LENIENT)
class ChatCustomCall:
    """A call of a custom tool that the model proposed earlier."""

    id: str
    type: Literal["custom"]
    custom: ChatCalledTool


ChatCall: TypeAlias = Annotated[ChatFunctionCall | ChatCustomCall, Discriminator("type")]
UserPart: TypeAlias = Annotated[ChatTextPart | ChatImagePart | ChatFilePart, Discriminator("type")]
AssistantPart: TypeAlias = Annotated[ChatTextPart | ChatRefusalPart, Discriminator("type")]


@checked(frozen=True, config=LENIENT)
class ChatInstructionMessage:
    """Instructions of the application."""

    role: Literal["system", "developer"]
    content: str | list[ChatTextPart]


@checked(frozen=True, config=LENIENT)
class ChatUserMessage:
    """A message of the user."""

    role: Literal["user"]
    content: str | list[UserPart]


@checked(frozen=True, config=LENIENT)
class ChatAssistantMessage:
    """An earlier answer of the model, with the calls that it proposed."""

    role: Literal["assistant"]
    content: str | list[AssistantPart] | None = None
    refusal: str | None = None
    tool_calls: list[ChatCall] | None = None


@checked(frozen=True, config=LENIENT)
class ChatToolMessage:
    """The result of a call."""

    role: Literal["tool"]
    tool_call_id: str
    content: str | list[ChatTextPart]


ChatRequestMessage: TypeAlias = Annotated[
    ChatInstructionMessage | ChatUserMessage | ChatAssistantMessage | ChatToolMessage,
    Discriminator("role"),
]


def items_of_messages(messages: Sequence[ChatRequestMessage]) -> list[JsonItem]:
    """The messages as input items. The `ApiFault` names the message that cannot be read."""
    calls: dict[str, str] = {}
    return [
        item
        for at, message in enumerate(messages)
        for item in _items(message, calls, f"messages[{at}]")
    ]


def _items(message: ChatRequestMessage, calls: dict[str, str], param: str) -> Iterator[JsonItem]:
    """The items of one message. `calls` are the types of the calls so far, by their ids."""
    match message:
        case ChatInstructionMessage():
            yield _message(message.role, _text(message.content))
        case ChatUserMessage():
            yield _message("user", _user_content(message.content, param))
        case ChatAssistantMessage():
            yield from _assistant_items(message, calls)
        case ChatToolMessage():
            kind = calls.get(message.tool_call_id)
            if kind is None:
                raise invalid(
                    f"No tool call of an earlier message has the id '{message.tool_call_id[:80]}'.",
                    f"{param}.tool_call_id",
                )
            output = _text(message.content)
            yield {"type": f"{kind}_output", "call_id": message.tool_call_id, "output": output}
        case _:
            assert_never(message)


def _assistant_items(message: ChatAssistantMessage, calls: dict[str, str]) -> Iterator[JsonItem]:
    content = message.content
    text = (_text(content) if content is not None else "") or message.refusal or ""
    if text or not message.tool_calls:
        yield _message("assistant", text)
    for call in message.tool_calls or []:
        match call:
            case ChatFunctionCall():
                kind, name = "function_call", call.function.name
                content = {"arguments": call.function.arguments}
            case ChatCustomCall():
                kind, name = "custom_tool_call", call.custom.name
                content = {"input": call.custom.input}
            case _:
                assert_never(call)
        calls[call.id] = kind
        yield {"type": kind, "call_id": call.id, "name": name, **content}


def _message(role: str, content: str | list[dict[str, Any]]) -> JsonItem:
    return {"type": "message", "role": role, "content": content}


def _text(content: str | Sequence[ChatTextPart | ChatRefusalPart]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(
        part.text if isinstance(part, ChatTextPart) else part.refusal for part in content
    )


def _user_content(
    content: str | Sequence[ChatTextPart | ChatImagePart | ChatFilePart], param: str
) -> str | list[dict[str, Any]]:
    if isinstance(content, str):
        return content
    return [_input_part(part, f"{param}.content[{at}]") for at, part in enumerate(content)]


def _input_part(part: ChatTextPart | ChatImagePart | ChatFilePart, param: str) -> dict[str, Any]:
    match part:
        case ChatTextPart():
            return {"type": "input_text", "text": part.text}
        case ChatImagePart():
            detail = part.image_url.detail or "auto"
            return {"type": "input_image", "image_url": part.image_url.url, "detail": detail}
        case ChatFilePart():
            file = part.file
            if (file.file_id is None) == (file.file_data is None):
                raise invalid("A file needs a 'file_id' or its 'file_data'.", f"{param}.file")
            fields = {
                "file_id": file.file_id,
                "file_data": file.file_data,
                "filename": file.filename,
            }
            present = {key: value for key, value in fields.items() if value is not None}
            return {"type": "input_file", **present}
        case _:
            assert_never(part)

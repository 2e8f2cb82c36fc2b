"""A conversation as the steps that an interaction begins with."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Sequence
from typing import Any, cast

from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import (
    BinaryContent,
    CompactionPart,
    FilePart,
    FileUrl,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ModelResponsePart,
    NativeToolCallPart,
    NativeToolReturnPart,
    SystemPromptPart,
    TextContent,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UploadedFile,
    UserPromptPart,
)

from toolcrib.adapters.items import mapping_of
from toolcrib.adapters.pydantic_ai.google_interactions.reading import STEP

Step = dict[str, Any]


def steps_of(messages: Sequence[ModelMessage], provider: str) -> list[Step]:
    """Everything that was said, in order. Steps of this provider go back as they came."""
    return [step for message in messages for step in _steps(message, provider)]


def system_texts(messages: Sequence[ModelMessage]) -> Iterator[str]:
    """What the model is told to be."""
    for message in messages:
        for part in message.parts:
            if isinstance(part, SystemPromptPart):
                yield part.content


def _steps(message: ModelMessage, provider: str) -> Iterator[Step]:
    if isinstance(message, ModelRequest):
        for part in message.parts:
            yield from _said(part)
    else:
        for part in message.parts:
            yield from _heard(part, message, provider)


def _said(part: Any) -> Iterator[Step]:
    match part:
        case UserPromptPart():
            contents = [part.content] if isinstance(part.content, str) else part.content
            yield {"type": "user_input", "content": [_content(each) for each in contents]}
        case ToolReturnPart():
            yield _answer(cast("ToolReturnPart[Any]", part))
        case SystemPromptPart():
            pass
        case _:
            raise UserError(f"an interaction cannot be told a {type(part).__name__}")


def _answer(part: ToolReturnPart[Any]) -> Step:
    told = {"call_id": part.tool_call_id, "name": part.tool_name}
    step = {"type": "function_result", **told, "result": part.model_response_str()}
    return step if part.outcome == "success" else {**step, "is_error": True}


def _heard(part: ModelResponsePart, message: ModelResponse, provider: str) -> Iterator[Step]:
    own = (getattr(part, "provider_name", None) or message.provider_name) == provider
    rest = mapping_of(getattr(part, "provider_details", None) or {}, STEP) if own else {}
    match part:
        case TextPart():
            yield {"type": "model_output", "content": [{"type": "text", "text": part.content}]}
        case ThinkingPart():
            yield from _thought(part) if own else ()
        case ToolCallPart():
            asked = {"id": part.tool_call_id, "name": part.tool_name}
            yield {**rest, "type": "function_call", **asked, "arguments": part.args_as_dict()}
        case NativeToolCallPart() | NativeToolReturnPart():
            yield from _ran(part, rest)
        case FilePart():
            # A file under a call's id is part of that call's result.
            if part.id is None:
                yield {"type": "model_output", "content": [_binary(part.content)]}
        case CompactionPart():
            pass
        case _:
            raise UserError(f"an interaction cannot be told a {type(part).__name__}")


def _ran(part: NativeToolCallPart | NativeToolReturnPart, rest: Step) -> Iterator[Step]:
    """A call that the provider ran, or its result; nothing when another provider did."""
    if not rest:
        return
    if isinstance(part, NativeToolCallPart):
        yield {**rest, "id": part.tool_call_id, "arguments": _arguments(part)}
    else:
        result = {} if part.content is None else {"result": part.content}
        yield {**result, **rest, "call_id": part.tool_call_id}


def _thought(part: ThinkingPart) -> Iterator[Step]:
    """A thought, which only its signature lets the model go on with."""
    if part.signature:
        told = {"type": "thought", "signature": part.signature}
        summary = [{"type": "text", "text": part.content}]
        yield {**told, "summary": summary} if part.content else told


def _arguments(part: NativeToolCallPart) -> dict[str, Any]:
    arguments = part.args_as_dict()
    return mapping_of(arguments, "tool_args") if "tool_args" in arguments else arguments


def _content(content: Any) -> Step:
    match content:
        case str():
            return {"type": "text", "text": content}
        case TextContent():
            return {"type": "text", "text": content.content}
        case BinaryContent():
            return _binary(content)
        case FileUrl():
            return _lying_elsewhere(content.media_type, content.url)
        case UploadedFile():
            return _lying_elsewhere(content.media_type, content.file_id)
        case _:
            raise UserError(f"an interaction cannot be shown a {type(content).__name__}")


def _lying_elsewhere(media_type: str, uri: str) -> Step:
    return {"type": _family(media_type), "uri": uri, "mime_type": media_type}


def _binary(content: BinaryContent) -> Step:
    data = b64encode(content.data).decode()
    return {"type": _family(content.media_type), "data": data, "mime_type": content.media_type}


def _family(media_type: str) -> str:
    family = media_type.partition("/")[0]
    return family if family in ("image", "audio", "video") else "document"

"""The request of an interaction: tools, tool choice, output format, limits, and the conversation as
steps.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

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
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.native_tools import (
    AbstractNativeTool,
    CodeExecutionTool,
    FileSearchTool,
    MCPServerTool,
    WebFetchTool,
    WebSearchTool,
)

from toolcrib.adapters.items import mapping_of
from toolcrib.adapters.pydantic_ai.google_interactions.response import STEP

_LIMITS: Final[Mapping[str, str]] = {
    "max_tokens": "max_output_tokens",
    "seed": "seed",
    "stop_sequences": "stop_sequences",
    "temperature": "temperature",
    "top_p": "top_p",
}
_LEVELS: Final[Mapping[Any, str]] = {"xhigh": "high", "max": "high", False: "minimal"}


def body_of(settings: Mapping[str, Any], parameters: ModelRequestParameters) -> dict[str, Any]:
    """The fields of a request without the model and the conversation."""
    config = {to: settings[of] for of, to in _LIMITS.items() if settings.get(of) is not None}
    config |= _thinking(parameters.thinking)
    tools = [*_functions(parameters), *map(_native, parameters.native_tools)]
    if tools:
        config |= _choice(settings.get("tool_choice"))
    body: dict[str, Any] = {"tools": tools} if tools else {}
    if config:
        body["generation_config"] = config
    output = parameters.output_object
    if parameters.output_mode == "native" and output is not None:
        body["response_format"] = {
            "type": "text",
            "mime_type": "application/json",
            "schema": output.json_schema,
        }
    return body


def _functions(parameters: ModelRequestParameters) -> Iterator[dict[str, Any]]:
    for tool in [*parameters.function_tools, *parameters.output_tools]:
        facts = {"name": tool.name, "parameters": tool.parameters_json_schema}
        description = {"description": tool.description} if tool.description else {}
        yield {"type": "function", **facts, **description}


def _native(tool: AbstractNativeTool) -> dict[str, Any]:
    match tool:
        case WebSearchTool():
            return {"type": "google_search"}
        case WebFetchTool():
            return {"type": "url_context"}
        case CodeExecutionTool():
            return {"type": "code_execution"}
        case FileSearchTool():
            stores = {"file_search_store_names": list(tool.file_store_ids)}
            most = getattr(tool, "max_num_results", None)
            return {"type": "file_search", **stores, **({"top_k": most} if most else {})}
        case MCPServerTool():
            return _server(tool)
        case _:
            raise UserError(f"the Interactions API has no {tool.kind}")


def _server(tool: MCPServerTool) -> dict[str, Any]:
    headers = dict(tool.headers or {})
    if tool.authorization_token:
        headers["Authorization"] = tool.authorization_token
    entry: dict[str, Any] = {"type": "mcp_server", "name": tool.id, "url": tool.url}
    if headers:
        entry["headers"] = headers
    if tool.allowed_tools is not None:
        entry["allowed_tools"] = [{"tools": list(tool.allowed_tools)}]
    return entry


def _choice(wanted: Any) -> dict[str, Any]:
    match wanted:
        case None | "auto":
            return {}
        case "none":
            return {"tool_choice": "none"}
        case "required":
            return {"tool_choice": "any"}
        case list():
            return {"tool_choice": {"allowed_tools": {"mode": "any", "tools": wanted}}}
        case _:
            raise UserError(f"the Interactions API has no tool_choice like {wanted!r}")


def _thinking(wanted: Any) -> dict[str, Any]:
    if wanted is None or wanted is True:
        return {}
    return {"thinking_level": _LEVELS.get(wanted, wanted)}


Step = dict[str, Any]


def steps_of(messages: Sequence[ModelMessage], provider: str) -> list[Step]:
    """The conversation in order. Steps of this provider go back as they came."""
    return [step for message in messages for step in _steps(message, provider)]


def system_texts(messages: Sequence[ModelMessage]) -> Iterator[str]:
    """The system prompts of the conversation."""
    for message in messages:
        for part in message.parts:
            if isinstance(part, SystemPromptPart):
                yield part.content


def _steps(message: ModelMessage, provider: str) -> Iterator[Step]:
    if isinstance(message, ModelRequest):
        for part in message.parts:
            yield from _request_steps(part)
    else:
        for part in message.parts:
            yield from _response_steps(part, message, provider)


def _request_steps(part: Any) -> Iterator[Step]:
    match part:
        case UserPromptPart():
            contents = [part.content] if isinstance(part.content, str) else part.content
            yield {"type": "user_input", "content": [_content(content) for content in contents]}
        case ToolReturnPart():
            yield _function_result(cast("ToolReturnPart[Any]", part))
        case SystemPromptPart():
            pass
        case _:
            raise UserError(f"an interaction has no step for a {type(part).__name__}")


def _function_result(part: ToolReturnPart[Any]) -> Step:
    step = {
        "type": "function_result",
        "call_id": part.tool_call_id,
        "name": part.tool_name,
        "result": part.model_response_str(),
    }
    return step if part.outcome == "success" else {**step, "is_error": True}


def _response_steps(
    part: ModelResponsePart, message: ModelResponse, provider: str
) -> Iterator[Step]:
    is_own = (getattr(part, "provider_name", None) or message.provider_name) == provider
    rest = mapping_of(getattr(part, "provider_details", None) or {}, STEP) if is_own else {}
    match part:
        case TextPart():
            yield {"type": "model_output", "content": [{"type": "text", "text": part.content}]}
        case ThinkingPart():
            yield from _thought(part) if is_own else ()
        case ToolCallPart():
            yield {
                **rest,
                "type": "function_call",
                "id": part.tool_call_id,
                "name": part.tool_name,
                "arguments": part.args_as_dict(),
            }
        case NativeToolCallPart() | NativeToolReturnPart():
            yield from _hosted_call(part, rest)
        case FilePart():
            # A file under a call's id is part of that call's result.
            if part.id is None:
                yield {"type": "model_output", "content": [_binary(part.content)]}
        case CompactionPart():
            pass
        case _:
            raise UserError(f"an interaction has no step for a {type(part).__name__}")


def _hosted_call(part: NativeToolCallPart | NativeToolReturnPart, rest: Step) -> Iterator[Step]:
    """A hosted call or its result; nothing when another provider ran it."""
    if not rest:
        return
    if isinstance(part, NativeToolCallPart):
        yield {**rest, "id": part.tool_call_id, "arguments": _arguments(part)}
    else:
        result = {} if part.content is None else {"result": part.content}
        yield {**result, **rest, "call_id": part.tool_call_id}


def _thought(part: ThinkingPart) -> Iterator[Step]:
    """A thought; the model cannot use one without its signature."""
    if part.signature:
        step = {"type": "thought", "signature": part.signature}
        summary = [{"type": "text", "text": part.content}]
        yield {**step, "summary": summary} if part.content else step


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
            return _remote_file(content.media_type, content.url)
        case UploadedFile():
            return _remote_file(content.media_type, content.file_id)
        case _:
            raise UserError(f"an interaction has no content like a {type(content).__name__}")


def _remote_file(media_type: str, uri: str) -> Step:
    return {"type": _family(media_type), "uri": uri, "mime_type": media_type}


def _binary(content: BinaryContent) -> Step:
    data = b64encode(content.data).decode()
    return {"type": _family(content.media_type), "data": data, "mime_type": content.media_type}


def _family(media_type: str) -> str:
    family = media_type.partition("/")[0]
    return family if family in ("image", "audio", "video") else "document"

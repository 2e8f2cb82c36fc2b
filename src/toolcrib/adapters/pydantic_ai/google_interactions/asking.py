"""What a request says besides the conversation: tools, choice, form and limits of the answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pydantic_ai.exceptions import UserError
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.native_tools import (
    AbstractNativeTool,
    CodeExecutionTool,
    FileSearchTool,
    MCPServerTool,
    WebFetchTool,
    WebSearchTool,
)

_LIMITS: Final[Mapping[str, str]] = {
    "max_tokens": "max_output_tokens",
    "seed": "seed",
    "stop_sequences": "stop_sequences",
    "temperature": "temperature",
    "top_p": "top_p",
}
_LEVELS: Final[Mapping[Any, str]] = {"xhigh": "high", "max": "high", False: "minimal"}


def body_of(settings: Mapping[str, Any], parameters: ModelRequestParameters) -> dict[str, Any]:
    """The fields of a request, but the model and the conversation."""
    config = {to: settings[of] for of, to in _LIMITS.items() if settings.get(of) is not None}
    config |= _thinking(parameters.thinking)
    tools = [*_functions(parameters), *map(_native, parameters.native_tools)]
    if tools:
        config |= _choice(settings.get("tool_choice"))
    found: dict[str, Any] = {"tools": tools} if tools else {}
    if config:
        found["generation_config"] = config
    output = parameters.output_object
    if parameters.output_mode == "native" and output is not None:
        form = {"type": "text", "mime_type": "application/json", "schema": output.json_schema}
        found["response_format"] = form
    return found


def _functions(parameters: ModelRequestParameters) -> Iterator[dict[str, Any]]:
    for tool in [*parameters.function_tools, *parameters.output_tools]:
        told = {"name": tool.name, "parameters": tool.parameters_json_schema}
        description = {"description": tool.description} if tool.description else {}
        yield {"type": "function", **told, **description}


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
    found: dict[str, Any] = {"type": "mcp_server", "name": tool.id, "url": tool.url}
    if headers:
        found["headers"] = headers
    if tool.allowed_tools is not None:
        found["allowed_tools"] = [{"tools": list(tool.allowed_tools)}]
    return found


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

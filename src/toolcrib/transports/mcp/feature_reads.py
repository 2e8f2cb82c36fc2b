"""`resources/read` and `prompts/get`: calls of the tools behind them, with the approval, the forms
and the waiting that `tools/call` has. A result cannot be an error there, so failures are errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    CallToolRequestParams,
    GetPromptResult,
    ReadResourceResult,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from toolcrib.features.declaration import GET_PROMPT, READ_RESOURCE
from toolcrib.transports.mcp.results import CALL_META, meta_of
from toolcrib.transports.mcp.tool_calls import ToolCallHandler

if TYPE_CHECKING:
    from mcp.server.context import HandlerResult, ServerRequestContext
    from mcp_types import GetPromptRequestParams, ReadResourceRequestParams

    from toolcrib.runtime.messages import CallResult
    from toolcrib.transports.mcp.request import McpRequest
    from toolcrib.transports.mcp.tool_list import ToolList

RESOURCE_NOT_FOUND: Final = -32002
"""The code of the handshake protocol; the stateless one has retired it for -32602."""

_CODES: Final[Mapping[str, int]] = {
    "not_found": INVALID_PARAMS,
    "invalid_arguments": INVALID_PARAMS,
    "not_permitted": INVALID_REQUEST,
    "denied": INVALID_REQUEST,
    "expired": INVALID_REQUEST,
}
_FORMS: Final = {READ_RESOURCE: ReadResourceResult, GET_PROMPT: GetPromptResult}


class FeatureReadHandler(ToolCallHandler):
    """Answers reads of resources and prompts."""

    async def read(
        self, ctx: ServerRequestContext[Any, Any], params: ReadResourceRequestParams
    ) -> HandlerResult:
        """Answer `resources/read`."""
        return await self._called(ctx, params, READ_RESOURCE, {"uri": params.uri})

    async def get(
        self, ctx: ServerRequestContext[Any, Any], params: GetPromptRequestParams
    ) -> HandlerResult:
        """Answer `prompts/get`."""
        arguments = {"name": params.name, "arguments": params.arguments or {}}
        return await self._called(ctx, params, GET_PROMPT, arguments)

    async def _called(
        self,
        ctx: ServerRequestContext[Any, Any],
        params: ReadResourceRequestParams | GetPromptRequestParams,
        name: str,
        arguments: dict[str, Any],
    ) -> HandlerResult:
        call = CallToolRequestParams(
            name=name,
            arguments=arguments,
            input_responses=params.input_responses,
            request_state=params.request_state,
            _meta=params.meta,
        )
        answer = await self(ctx, call)
        if isinstance(answer, dict) and answer.get("isError"):
            # A call that waits: `_result` answers all others.
            raise MCPError(INVALID_REQUEST, answer["content"][0]["text"], answer["_meta"])
        return answer

    def _result(
        self, result: CallResult, request: McpRequest, tool_list: ToolList
    ) -> HandlerResult:
        facts = meta_of(result)
        if result.status != "completed":
            failure = result.failure
            kind = "" if failure is None else failure.kind
            facts["failure"] = asdict(failure) if failure else None
            data: dict[str, Any] = {CALL_META: facts}
            text = result.text
            if result.tool == READ_RESOURCE:
                data["uri"] = (request.params.arguments or {}).get("uri")
                text = f"Resource not found: {text}" if kind == "not_found" else text
            raise MCPError(self._code(kind, result.tool, request), text, data)
        try:
            value = _FORMS[result.tool].model_validate(result.value)
        except ValidationError:
            # A hook or a person may have replaced the result.
            text = f"The result of `{result.tool}` is not what MCP can send and was withheld."
            raise MCPError(INTERNAL_ERROR, text, {CALL_META: facts}) from None
        written = value.model_dump(mode="json", by_alias=True, exclude_none=True)
        written["_meta"] = {**written.get("_meta", {}), CALL_META: facts}
        return {"resultType": "complete", **written}

    def _code(self, kind: str, tool: str, request: McpRequest) -> int:
        is_stateless = request.context.protocol_version in MODERN_PROTOCOL_VERSIONS
        if kind == "not_found" and tool == READ_RESOURCE and not is_stateless:
            return RESOURCE_NOT_FOUND
        return _CODES.get(kind, INTERNAL_ERROR)

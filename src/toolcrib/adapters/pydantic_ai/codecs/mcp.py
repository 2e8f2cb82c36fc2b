"""Remote MCP servers through pydantic-ai."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final

from toolcrib.adapters.codec import Invocation, RawItem
from toolcrib.adapters.items import mapping_of, mappings_of, maybe_text, text_of, texts_of
from toolcrib.adapters.pydantic_ai.codecs.hosted_call import HostedCall
from toolcrib.adapters.pydantic_ai.codecs.native import NativeCodec
from toolcrib.tools.mcp import (
    KIND,
    McpCall,
    McpCallResult,
    McpConfig,
    McpResult,
    McpTool,
    ToolFilter,
)
from toolcrib.tools.provider_tools import HostedTool
from toolcrib.tools.redaction import Scrubber

LISTING: Final = "list_tools"
_CONNECTOR: Final = "x-openai-connector:"


class McpCodec(NativeCodec[McpConfig, McpResult]):
    """The codec of `mcp`. Items name their server, so a request may have several.

    A server's credentials are redacted wherever its items repeat them.
    """

    kind = KIND
    native = "mcp_server"
    params_type: ClassVar[type[Any] | None] = McpCall
    result_type: ClassVar[type[Any] | None] = McpCallResult

    def fields(self, config: McpConfig) -> dict[str, Any]:
        place = f"{_CONNECTOR}{config.connector_id}" if config.connector_id else config.server_url
        fields: dict[str, Any] = {"id": config.server_label, "url": place or ""}
        if config.authorization is not None:
            fields["authorization_token"] = config.authorization
        if config.description is not None:
            fields["description"] = config.description
        if config.headers:
            fields["headers"] = dict(config.headers)
        if config.allowed_tools is not None:
            allowed = config.allowed_tools
            fields["allowed_tools"] = list(
                allowed.names if isinstance(allowed, ToolFilter) else allowed
            )
        return fields

    def settings(self, config: McpConfig) -> dict[str, Any]:
        return {"xai_include_mcp_output": True} if self.provider == "xai" else {}

    def is_named(self, name: str, tool: HostedTool[McpConfig]) -> bool:
        """Whether the server is this one. An item without a label counts for every server."""
        own = getattr(tool.config, "server_label", None)
        native, _, label = name.partition(":")
        return native == self.native and (not label or own is None or label == own)

    def is_call(self, item: RawItem, tool: HostedTool[McpConfig]) -> bool:
        """Whether the item is a call. A listing of the server's tools is none."""
        action = text_of(HostedCall(item, {}).arguments, "action")
        return super().is_call(item, tool) and action != LISTING

    def is_result(self, item: RawItem, tool: HostedTool[McpConfig]) -> bool:
        return super().is_result(item, tool) and not _is_listing(item)

    def read(
        self, call: HostedCall, items: Sequence[RawItem], tool: HostedTool[McpConfig]
    ) -> Invocation:
        redacted = _redacted(call, tool)
        result = _result(redacted)
        return Invocation(
            item_id=redacted.id,
            kind=self.kind,
            params=_request(redacted),
            value=result,
            message=result.render(),
            success=result.error is None,
            error=result.error,
            raw=redacted.raw,
        )

    def combine(
        self,
        values: Sequence[McpCallResult],
        items: Sequence[RawItem],
        tool: HostedTool[McpConfig],
    ) -> McpResult | None:
        """None when the server was not called, unless its tools could not be listed."""
        listings = [
            _redacted(HostedCall({}, item), tool).facts for item in items if self._lists(item, tool)
        ]
        errors = [error for listing in listings if (error := maybe_text(listing, "error"))]
        if not values and not errors:
            return None
        tools = {entry.name: entry for listing in listings for entry in _tools(listing)}
        return McpResult(tuple(values), tuple(tools.values()), errors[-1] if errors else None)

    def _lists(self, item: RawItem, tool: HostedTool[McpConfig]) -> bool:
        return super().is_result(item, tool) and _is_listing(item)


def _is_listing(item: RawItem) -> bool:
    """Whether a result lists the tools of a server."""
    return "tools" in mapping_of(item, "content")


def _redacted(call: HostedCall, tool: HostedTool[Any]) -> HostedCall:
    """The call without the server's credentials."""
    secrets: tuple[str, ...] = getattr(tool.config, "secrets", ())
    if not secrets:
        return call
    scrubber = Scrubber(list(secrets))
    return HostedCall(scrubber.scrub(dict(call.call_item)), scrubber.scrub(dict(call.result_item)))


def _request(call: HostedCall) -> McpCall:
    arguments = call.arguments
    server = call.name.partition(":")[2]
    return McpCall(server, text_of(arguments, "tool_name"), mapping_of(arguments, "tool_args"))


def _result(call: HostedCall) -> McpCallResult:
    facts = call.facts
    output = text_of(facts, "output") or _text(facts.get("content")) or _text(call.content)
    error = call.failure or _error(facts, output)
    is_only_error = facts.get("is_error") is True
    return McpCallResult(
        tool=text_of(call.arguments, "tool_name"),
        output="" if is_only_error else output,
        error=error,
        arguments=mapping_of(call.arguments, "tool_args"),
        status="completed" if error is None else call.status if call.failure else "failed",
    )


def _error(facts: RawItem, output: str) -> str | None:
    if facts.get("is_error") is True:
        return ": ".join(filter(None, ("mcp_call failed", output)))
    error = mapping_of(facts, "error")
    if not error:
        text = maybe_text(facts, "error")
        return f"mcp_call failed: {text}" if text else None
    name = " ".join(filter(None, (text_of(error, "type"), _text(error.get("code")))))
    text = text_of(error, "message") or _text(error.get("content"))
    return ": ".join(filter(None, ("mcp_call failed", name, text)))


def _text(value: Any) -> str:
    """The text of a server's value: a text, a number, or parts with texts."""
    if isinstance(value, str | int) and not isinstance(value, bool):
        return str(value)
    parts = mappings_of({"parts": value}, "parts")
    texts = [*texts_of({"parts": value}, "parts"), *(text_of(part, "text") for part in parts)]
    return "\n".join(filter(None, texts))


def _tools(listing: RawItem) -> list[McpTool]:
    return [
        McpTool(
            text_of(entry, "name"),
            text_of(entry, "description"),
            mapping_of(entry, "input_schema"),
            mapping_of(entry, "annotations"),
        )
        for entry in mappings_of(listing, "tools")
    ]

"""Remote MCP servers on the Responses API, and the approval requests for their tools."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, ClassVar, Final, assert_never

from toolcrib.adapters.codec import Codec, Invocation, RawItem, failure_of, status_of
from toolcrib.adapters.credentials import Credentials
from toolcrib.adapters.items import (
    json_object_of,
    mapping_of,
    mappings_of,
    maybe_text,
    text_of,
    texts_of,
)
from toolcrib.adapters.openai.container_options import wire_callers
from toolcrib.adapters.tool_calls import ClientCall, ClientItems
from toolcrib.errors import UnsupportedOption
from toolcrib.tools.mcp import (
    KIND,
    ApprovalFilter,
    McpCall,
    McpCallResult,
    McpConfig,
    McpResult,
    McpTool,
    RequireApproval,
    ToolFilter,
)
from toolcrib.tools.provider_tools import HostedTool
from toolcrib.tools.redaction import Scrubber

CALL: Final = "mcp_call"
LISTING: Final = "mcp_list_tools"

# Closed in the API and deprecated there for models released after 2026-09-01.
CONNECTORS: Final = tuple(
    f"connector_{name}"
    for name in (
        "dropbox",
        "gmail",
        "googlecalendar",
        "googledrive",
        "microsoftteams",
        "outlookcalendar",
        "outlookemail",
        "sharepoint",
    )
)
_TUNNEL: Final = re.compile(r"tunnel_[a-z0-9]{32}")
_UNFINISHED: Final = frozenset({"in_progress", "calling"})


class OpenAIMcpCodec(Codec[McpConfig, McpResult]):
    """Speaks for `mcp`. Items name their server, so a request may have several.

    The server's credentials are hidden wherever a server repeats them.
    """

    kind = KIND
    call_types: ClassVar[frozenset[str]] = frozenset({CALL})
    params_type: ClassVar[type[Any] | None] = McpCall
    result_type: ClassVar[type[Any] | None] = McpCallResult

    def serialize(self, tool: HostedTool[McpConfig]) -> dict[str, Any]:
        config = tool.config
        entry: dict[str, Any] = {"type": "mcp", "server_label": config.server_label}
        entry |= _place(config)
        if config.description is not None:
            entry["server_description"] = config.description
        if config.authorization is not None:
            entry["authorization"] = config.authorization
        if config.headers:
            entry["headers"] = dict(config.headers)
        if config.allowed_tools is not None:
            entry["allowed_tools"] = _allowed(config.allowed_tools)
        entry["require_approval"] = _approval(config.require_approval)
        if config.defer_loading:
            entry["defer_loading"] = True
        return {**entry, **wire_callers(config.allowed_callers)}

    def choice(self, tool: HostedTool[McpConfig]) -> Any:
        return {"type": "mcp", "server_label": tool.config.server_label}

    def is_call(self, item: RawItem, tool: HostedTool[McpConfig]) -> bool:
        return super().is_call(item, tool) and _is_from(item, tool)

    def invocation(
        self, item: RawItem, items: Sequence[RawItem], tool: HostedTool[McpConfig]
    ) -> Invocation:
        shown = _shown(item, tool)
        answer = _answer(shown)
        return Invocation(
            item_id=text_of(shown, "id"),
            kind=self.kind,
            params=_request(shown),
            value=answer,
            message=answer.render(),
            success=answer.error is None,
            error=answer.error,
            raw=shown,
        )

    def combine(
        self,
        values: Sequence[McpCallResult],
        items: Sequence[RawItem],
        tool: HostedTool[McpConfig],
    ) -> McpResult | None:
        """None when the server was not called, unless that is because it could not be asked."""
        listings = [_shown(item, tool) for item in items if _is_listing(item, tool)]
        errors = [failure for listing in listings if (failure := failure_of(listing))]
        if not values and not errors:
            return None
        tools = {mcp_tool.name: mcp_tool for listing in listings for mcp_tool in _tools(listing)}
        return McpResult(tuple(values), tuple(tools.values()), errors[-1] if errors else None)


def _place(config: McpConfig) -> dict[str, str]:
    if config.connector_id is not None:
        if config.connector_id not in CONNECTORS:
            known = ", ".join(CONNECTORS)
            raise UnsupportedOption(KIND, "connector_id", "openai", f"it knows only {known}")
        return {"connector_id": config.connector_id}
    if config.tunnel_id is not None:
        if not _TUNNEL.fullmatch(config.tunnel_id):
            why = "a tunnel's id is tunnel_ and 32 small letters or digits"
            raise UnsupportedOption(KIND, "tunnel_id", "openai", why)
        return {"tunnel_id": config.tunnel_id}
    return {"server_url": config.server_url or ""}


def _allowed(allowed: tuple[str, ...] | ToolFilter) -> Any:
    return _filter(allowed) if isinstance(allowed, ToolFilter) else list(allowed)


def _filter(chosen: ToolFilter) -> dict[str, Any]:
    wire: dict[str, Any] = {"tool_names": list(chosen.names)} if chosen.names else {}
    return wire if chosen.read_only is None else {**wire, "read_only": chosen.read_only}


def _approval(required: RequireApproval) -> Any:
    match required:
        case "always" | "never":
            return required
        case ApprovalFilter(always=always, never=never):
            sides = {"always": always, "never": never}
            return {
                side: _filter(tool_filter)
                for side, tool_filter in sides.items()
                if tool_filter is not None
            }
        case _:
            assert_never(required)


def _is_from(item: RawItem, tool: HostedTool[Any]) -> bool:
    """Whether the item is this server's. One without a label may be anybody's, and is not lost."""
    label = maybe_text(item, "server_label")
    own = getattr(tool.config, "server_label", None)
    return label is None or own is None or label == own


def _is_listing(item: RawItem, tool: HostedTool[Any]) -> bool:
    return text_of(item, "type") == LISTING and _is_from(item, tool)


def _shown(item: RawItem, tool: HostedTool[Any]) -> RawItem:
    """The item without the server's credentials."""
    secrets: tuple[str, ...] = getattr(tool.config, "secrets", ())
    return Scrubber(list(secrets)).scrub(dict(item)) if secrets else item


def _request(item: RawItem) -> McpCall:
    return McpCall(
        text_of(item, "server_label"), text_of(item, "name"), json_object_of(item, "arguments")
    )


def _answer(item: RawItem) -> McpCallResult:
    error = _error(item)
    return McpCallResult(
        tool=text_of(item, "name"),
        output=text_of(item, "output"),
        error=error,
        approval_request_id=maybe_text(item, "approval_request_id"),
        arguments=json_object_of(item, "arguments"),
        status=status_of(item, error),
    )


def _error(item: RawItem) -> str | None:
    error = mapping_of(item, "error")
    if not error:
        status = text_of(item, "status")
        is_open = status in _UNFINISHED and maybe_text(item, "output") is None
        return f"{CALL} did not finish: {status}" if is_open else failure_of(item)
    code = error.get("code")
    name = " ".join(filter(None, (text_of(error, "type"), _text(code))))
    message = text_of(error, "message") or _text(error.get("content"))
    return ": ".join(filter(None, (f"{CALL} failed", name, message)))


def _text(value: Any) -> str:
    """What a server says of an error: a text, a number, or parts that hold texts."""
    if isinstance(value, str | int) and not isinstance(value, bool):
        return str(value)
    parts = mappings_of({"parts": value if isinstance(value, list) else [value]}, "parts")
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


class OpenAIMcpApprovals(ClientItems):
    """Reads a server's `mcp_approval_request` as a call of its gate (`mcp_gate`), and answers it.

    Only a gate that ran with exactly the arguments that the provider will use is a yes.
    """

    call_type: ClassVar[str] = "mcp_approval_request"
    output_type: ClassVar[str] = "mcp_approval_response"
    id_field: ClassVar[str] = "approval_request_id"

    def __init__(self, server_label: str | None = None, secrets: Sequence[str] = ()) -> None:
        self._label = server_label
        self._credentials = Credentials(secrets)

    def is_call(self, item: RawItem) -> bool:
        is_own = self._label is None or text_of(item, "server_label") == self._label
        return super().is_call(item) and is_own

    def id_of(self, item: RawItem) -> str:
        return text_of(item, "id")

    def arguments(self, item: RawItem) -> dict[str, Any]:
        """What would be called, without the server's credentials. Arguments that cannot be read are
        handed on as they are, so that the gate refuses them: nobody can say yes to what nobody can
        read.
        """
        return {
            "server": text_of(item, "server_label"),
            "tool": text_of(item, "name"),
            "arguments": self._credentials.hide(_read(item)),
        }

    def output(
        self, call: ClientCall, text: str, *, success: bool, value: Any, failure: str | None
    ) -> dict[str, Any]:
        if success and _is_same(_granted(value), call.arguments):
            return {"approve": True}
        edited = "The arguments were changed, and a remote call runs only as it was asked."
        return {"approve": False, "reason": edited if success else text}


def _read(item: RawItem) -> Any:
    text = maybe_text(item, "arguments")
    try:
        return None if text is None else json.loads(text)
    except (ValueError, RecursionError):
        return text


def _is_same(granted: dict[str, Any], requested: dict[str, Any]) -> bool:
    """Whether both are the same JSON. Python's own comparison takes 1 for 1.0 and for true."""
    try:
        return json.dumps(granted, sort_keys=True) == json.dumps(requested, sort_keys=True)
    except (TypeError, ValueError, RecursionError):
        return False


def _granted(value: Any) -> dict[str, Any]:
    """What was said yes to, also when it was read back from a ledger as plain JSON."""
    if isinstance(value, McpCall):
        return {"server": value.server, "tool": value.tool, "arguments": value.arguments}
    return mapping_of({"value": value}, "value")

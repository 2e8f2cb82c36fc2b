"""`mcp`: the tools of a remote MCP server, with approvals."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlsplit

from toolcrib.embedded.backend import BackendTool
from toolcrib.embedded.database import new_id
from toolcrib.embedded.faults import invalid
from toolcrib.embedded.tools.tool import ResumedCall, ToolAnswer, ToolPause
from toolcrib.errors import ConnectionLost, EgressRefused

if TYPE_CHECKING:
    from toolcrib.egress import EgressPolicy
    from toolcrib.embedded.responses.request import ResponseRequest
    from toolcrib.embedded.responses.writer import ResponseWriter
    from toolcrib.embedded.tools.tool import OpenTool, RequestContext
    from toolcrib.mcp_client.connection import Connection
    from toolcrib.tools.redaction import Scrubber


_ELSEWHERE: Final = ("connector_id", "tunnel_id")
MAX_HEADERS: Final = 32
MAX_HEADER_CHARACTERS: Final = 16_384
_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}")
_OWN_HEADERS: Final = frozenset(
    {"accept", "accept-encoding", "connection", "content-encoding", "content-length"}
    | {"content-type", "expect", "forwarded", "host", "keep-alive", "last-event-id", "origin"}
    | {"proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer"}
    | {"transfer-encoding", "upgrade", "via"}
)
"""Headers of the connection and of the protocol, which the provider sets itself."""
_OWN_PREFIXES: Final = ("mcp-", "sec-", "x-forwarded-", "x-real-", "x-http-method")
_TRANSPORT_CODES: Final = frozenset({-32700, -32600, -32000})
"""Errors that the client makes itself of an answer that it cannot read."""


@dataclass(frozen=True, slots=True)
class McpServerOptions:
    """The server of a request and its limits. Without `allowed`, every tool may be called."""

    label: str
    url: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    allowed: frozenset[str] | None
    is_read_only: bool
    asks_never: bool
    asks_not_for: frozenset[str]
    """The tools that need no approval."""

    def allows(self, tool: Mapping[str, Any]) -> bool:
        """Whether a tool of the server may be called."""
        if self.allowed is not None and tool["name"] not in self.allowed:
            return False
        annotations = cast(dict[str, Any], tool.get("annotations") or {})
        return not self.is_read_only or annotations.get("readOnlyHint") is True

    def needs_approval(self, name: str) -> bool:
        """Whether a person must approve a call of this tool."""
        return not self.asks_never and name not in self.asks_not_for


def read_server_options(config: Mapping[str, Any], param: str) -> McpServerOptions:
    """Read the options of a request. Raises `ApiFault`."""
    label, url = config.get("server_label"), config.get("server_url")
    if not isinstance(label, str) or not label:
        raise invalid("Missing required parameter: 'server_label'.", f"{param}.server_label")
    for key in _ELSEWHERE:
        if config.get(key):
            raise invalid(f"'{key}' is not here; give a server_url.", f"{param}.{key}")
    if not isinstance(url, str) or urlsplit(url).scheme not in ("http", "https"):
        raise invalid("'server_url' must be an http or https address.", f"{param}.server_url")
    allowed, is_read_only = _allowed(config.get("allowed_tools"), param)
    asks_never, asks_not_for = _approval(config.get("require_approval"), param)
    headers = _headers(config, param)
    return McpServerOptions(label, url, headers, allowed, is_read_only, asks_never, asks_not_for)


def _headers(config: Mapping[str, Any], param: str) -> dict[str, str]:
    value: object = config.get("headers") or {}
    facts = cast(dict[str, Any], value) if isinstance(value, dict) else {"": None}
    if not all(isinstance(value, str) for value in facts.values()):
        raise invalid("'headers' must be names with text.", f"{param}.headers")
    headers = {name: str(value) for name, value in facts.items()}
    _check_headers(headers, f"{param}.headers")
    token = config.get("authorization")
    if isinstance(token, str):
        headers["Authorization"] = f"Bearer {token}"
    return headers


def _check_headers(headers: Mapping[str, str], param: str) -> None:
    """Raises `ApiFault` for a header that steers the connection instead of naming the caller."""
    if len(headers) > MAX_HEADERS or sum(map(len, headers.values())) > MAX_HEADER_CHARACTERS:
        raise invalid(f"At most {MAX_HEADERS} short headers can be given.", param)
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name) or not value.isascii() or not value.isprintable():
            raise invalid("A header needs a plain name and one line of text.", param)
        if name.lower() in _OWN_HEADERS or name.lower().startswith(_OWN_PREFIXES):
            raise invalid(f"The header {name.lower()!r} cannot be chosen; leave it out.", param)


def _allowed(config: object, param: str) -> tuple[frozenset[str] | None, bool]:
    if config is None:
        return None, False
    if isinstance(config, list):
        return _names(cast(list[object], config), f"{param}.allowed_tools"), False
    if not isinstance(config, dict):
        raise invalid("It must be names, or a filter.", f"{param}.allowed_tools")
    facts = cast(dict[str, Any], config)
    names = facts.get("tool_names")
    listed = None if names is None else _names(names, f"{param}.allowed_tools")
    return listed, facts.get("read_only") is True


def _approval(config: object, param: str) -> tuple[bool, frozenset[str]]:
    """Read which tools need no approval: whether all of them, or else their names."""
    at = f"{param}.require_approval"
    if config is None or config == "always":
        return False, frozenset()
    if config == "never":
        return True, frozenset()
    if not isinstance(config, dict):
        raise invalid("It must be 'always', 'never' or a filter.", at)
    facts = cast(dict[str, Any], config)
    never: object = facts.get("never") or {}
    if not isinstance(never, dict):
        raise invalid("'never' must be a filter.", at)
    return False, _names(cast(dict[str, Any], never).get("tool_names") or [], at)


def _names(config: object, param: str) -> frozenset[str]:
    listed = cast(list[object], config) if isinstance(config, list) else [None]
    if not all(isinstance(name, str) for name in listed):
        raise invalid("It must be a list of names.", param)
    return frozenset(map(str, listed))


def _listed_tools(item: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The tools of an item that a caller may have written itself; what is no tool is left out."""
    tools = item.get("tools")
    listed = cast(list[object], tools) if isinstance(tools, list) else []
    objects = [cast(dict[str, Any], tool) for tool in listed if isinstance(tool, dict)]
    return [
        tool
        for tool in objects
        if isinstance(tool.get("name"), str)
        and isinstance(tool.get("input_schema"), dict)
        and isinstance(tool.get("annotations") or {}, dict)
    ]


def _is_request(item: Mapping[str, Any], done: Collection[str]) -> bool:
    """Whether an item asks for the approval of a call that has not been run since."""
    is_whole = all(isinstance(item.get(key), str) for key in ("id", "name", "arguments"))
    return is_whole and item["id"] not in done


MAX_OUTPUT: Final = 100_000
LIST_SECONDS: Final = 30.0
CALL_SECONDS: Final = 600.0


class McpKind:
    """Connects to MCP servers by their address, where `egress` allows it."""

    types = frozenset({"mcp"})

    def __init__(self, egress: EgressPolicy) -> None:
        self._egress = egress

    def check(self, config: Mapping[str, Any], param: str) -> None:
        """Raises `ApiFault`."""
        read_server_options(config, param)

    async def open(
        self, config: Mapping[str, Any], request: ResponseRequest, context: RequestContext
    ) -> OpenTool:
        """The server of one request. Its tools are listed once in a conversation."""
        options = read_server_options(config, "tools")
        remote = _OpenMcpServer(options, self._egress, context.items)
        await remote.list(context.writer)
        return remote


class _OpenMcpServer:
    def __init__(
        self,
        options: McpServerOptions,
        egress: EgressPolicy,
        items: Sequence[Mapping[str, Any]],
    ) -> None:
        self._options = options
        self._egress = egress
        self._items = [item for item in items if item.get("server_label") == options.label]
        self._responses = {
            str(item.get("approval_request_id")): item
            for item in items
            if item.get("type") == "mcp_approval_response"
        }
        self._tools: list[Mapping[str, Any]] = []
        self._hidden = _hidden(options)
        self._stack = AsyncExitStack()
        self._connection: Connection | None = None

    @property
    def backend_tools(self) -> Sequence[BackendTool]:
        """The server's tools, each under the server's label."""
        return [
            BackendTool(
                f"{self._options.label}__{tool['name']}",
                str(tool.get("description") or ""),
                cast(dict[str, Any], tool["input_schema"]),
            )
            for tool in self._tools
        ]

    async def close(self) -> None:
        """End the connection."""
        await self._stack.aclose()

    async def list(self, writer: ResponseWriter) -> None:
        """Take the tools that were listed before, or ask the server and tell of it."""
        for item in self._items:
            if item.get("type") == "mcp_list_tools" and not item.get("error"):
                self._tools = [t for t in _listed_tools(item) if self._options.allows(t)]
                return
        base: dict[str, Any] = {"id": new_id("mcpl"), "type": "mcp_list_tools"}
        index = writer.add_item({**base, "server_label": self._options.label, "tools": []})
        writer.emit("mcp_list_tools.in_progress", index)
        try:
            async with asyncio.timeout(LIST_SECONDS):
                connection = await self._connected()
                listed = [_tool_resource(tool) for tool in await connection.tools()]
        except Exception as error:
            writer.emit("mcp_list_tools.failed", index)
            writer.finish_item(index, error=self._reason(error))
            return
        self._tools = [tool for tool in listed if self._options.allows(tool)]
        writer.emit("mcp_list_tools.completed", index)
        writer.finish_item(index, tools=list(self._tools))

    async def resume(self, writer: ResponseWriter) -> Sequence[ResumedCall]:
        """Run the calls that a person has approved since. Denied calls are in the conversation."""
        done = {str(item.get("approval_request_id")) for item in self._items}
        resumed: list[ResumedCall] = []
        for item in self._items:
            if item.get("type") != "mcp_approval_request" or not _is_request(item, done):
                continue
            response = self._responses.get(item["id"])
            if response is not None and response.get("approve") is True:
                answer = await self._call(item["name"], item["arguments"], writer, item["id"])
                shown = f"{self._options.label}__{item['name']}"
                resumed.append(ResumedCall(shown, item["arguments"], answer))
        return resumed

    async def run(
        self, name: str, arguments: Mapping[str, Any], writer: ResponseWriter
    ) -> ToolAnswer | ToolPause:
        """Call a tool, or ask for approval first."""
        tool, text = name.removeprefix(f"{self._options.label}__"), json.dumps(dict(arguments))
        if self._options.needs_approval(tool):
            base: dict[str, Any] = {"id": new_id("mcpr"), "type": "mcp_approval_request"}
            details = {"server_label": self._options.label, "name": tool, "arguments": text}
            writer.finish_item(writer.add_item({**base, **details}))
            return ToolPause()
        return await self._call(tool, text, writer, None)

    async def _call(
        self, tool: str, arguments: str, writer: ResponseWriter, approval_id: str | None
    ) -> ToolAnswer:
        base: dict[str, Any] = {
            "id": new_id("mcp"),
            "type": "mcp_call",
            "status": "in_progress",
            "approval_request_id": approval_id,
            "server_label": self._options.label,
            "name": tool,
        }
        index = writer.add_item({**base, "arguments": "", "output": None, "error": None})
        writer.emit("mcp_call.in_progress", index)
        writer.emit("mcp_call_arguments.delta", index, delta=arguments)
        writer.emit("mcp_call_arguments.done", index, arguments=arguments)
        try:
            async with asyncio.timeout(CALL_SECONDS):
                connection = await self._connected()
                answer = await connection.call(tool, json.loads(arguments), _no_progress)
        except Exception as error:
            reason = self._reason(error)
            fault = {"type": "mcp_protocol_error", "code": _code(error), "message": reason}
            writer.emit("mcp_call.failed", index)
            writer.finish_item(index, arguments=arguments, status="failed", error=fault)
            return ToolAnswer(base["id"], f"The call failed: {reason}")
        return self._ended(index, base["id"], arguments, answer, writer)

    def _ended(
        self, index: int, item_id: str, arguments: str, answer: Any, writer: ResponseWriter
    ) -> ToolAnswer:
        from toolcrib.mcp_client.results import tool_result, without_secrets

        raw = tool_result(answer, writer.response["output"][index]["name"], MAX_OUTPUT)
        result = without_secrets(raw, self._hidden)
        output = result.message or _as_text(result.value)
        if answer.is_error:
            content = [{"type": "text", "text": output}]
            fault = {"type": "mcp_tool_execution_error", "content": content}
            writer.emit("mcp_call.failed", index)
            writer.finish_item(index, arguments=arguments, status="failed", error=fault)
            return ToolAnswer(item_id, output)
        writer.emit("mcp_call.completed", index)
        writer.finish_item(index, arguments=arguments, status="completed", output=output)
        return ToolAnswer(item_id, output, _value(result.value))

    async def _connected(self) -> Connection:
        from toolcrib.mcp_client.config import ServerAddress
        from toolcrib.mcp_client.connection import connect

        if self._connection is None:
            # For a clear message; the connection itself is checked again.
            await self._egress.check_url(self._options.url)
            address = ServerAddress(
                self._options.url, self._options.headers, self._hidden, self._egress
            )
            self._connection = await self._stack.enter_async_context(connect(address))
        return self._connection

    def _reason(self, error: BaseException) -> str:
        """Why there is no answer, in our own words: what an address answers that is no MCP server
        is not the caller's to read. A server that does speak MCP refuses in its own words.
        """
        from mcp import MCPError

        from toolcrib.mcp_client.config import printable_line

        match error:
            case TimeoutError():
                return "the server took too long"
            case EgressRefused():
                return str(error)
            case MCPError() if self._connection is not None and error.code not in _TRANSPORT_CODES:
                return printable_line(error.message, self._hidden)
            case ConnectionLost() if str(error):
                return str(error)
            case _:
                return "the address does not answer as an MCP server"


def _tool_resource(tool: Any) -> dict[str, Any]:
    annotations = tool.annotations
    return {
        "name": tool.name,
        "description": tool.description,
        "input_schema": dict(tool.input_schema),
        "annotations": None
        if annotations is None
        else annotations.model_dump(mode="json", by_alias=True, exclude_none=True),
    }


async def _no_progress(progress: float, total: float | None, message: str | None) -> None:
    """The Responses API has no event for it."""


def _hidden(options: McpServerOptions) -> Scrubber:
    """A scrubber that removes the secrets in a server's options from the server's output."""
    from toolcrib.tools.mcp.credentials import SHORTEST_SECRET, secrets_in
    from toolcrib.tools.redaction import Scrubber

    values = [value for value in options.headers.values() if len(value) >= SHORTEST_SECRET]
    return Scrubber([*secrets_in(options.url, *values)])


def _code(error: BaseException) -> int:
    code = getattr(error, "code", None)
    return code if isinstance(code, int) else -32000


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _value(value: Any) -> Any:
    """Text that is JSON is its value too."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return None

"""The tools of one Messages request, run by the client or by the provider, and its tool choice."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, cast

from toolcrib.embedded.backend import BackendTool, ToolChoiceMode
from toolcrib.embedded.faults import invalid

if TYPE_CHECKING:
    from toolcrib.embedded.messages.request import Block, MessageRequest
    from toolcrib.embedded.messages.server_tool import ServerTool

SERVER_TYPE: Final = re.compile(r"(web_search|web_fetch|code_execution)_([0-9]{8})")
MCP_TYPE: Final = "mcp_toolset"
_CLIENT_TYPE: Final = re.compile(r"(bash|text_editor|memory)_[0-9]{8}")
_NO_PROPERTIES: Final[dict[str, Any]] = {"type": "object", "properties": {}}
_TEXT: Final = {"type": "string"}
_RANGE: Final = {"type": "array", "items": {"type": "integer"}}
_EDITS: Final = {
    "path": _TEXT,
    "file_text": _TEXT,
    "old_str": _TEXT,
    "new_str": _TEXT,
    "insert_line": {"type": "integer"},
    "insert_text": _TEXT,
    "view_range": _RANGE,
}
_CLIENT_TOOLS: Final[Mapping[str, tuple[str, dict[str, Any]]]] = {
    "bash": (
        "Run a command in a bash session that stays open.",
        {"type": "object", "properties": {"command": _TEXT, "restart": {"type": "boolean"}}},
    ),
    "text_editor": (
        "View, create and edit files. Commands: view, create, str_replace, insert.",
        {
            "type": "object",
            "properties": {"command": _TEXT, **_EDITS},
            "required": ["command", "path"],
        },
    ),
    "memory": (
        "Keep notes in files below /memories. Commands: view, create, str_replace, insert, "
        "delete, rename.",
        {
            "type": "object",
            "properties": {"command": _TEXT, **_EDITS, "old_path": _TEXT, "new_path": _TEXT},
            "required": ["command"],
        },
    ),
}
"""The tools of Anthropic that a client runs: what they do, and their parameters."""


@dataclass(frozen=True, slots=True)
class MessageToolChoice:
    """The tool choice of a request. One that forces a call holds until a tool was called."""

    first: ToolChoiceMode = "auto"
    only: str | None = None
    is_parallel: bool = True

    def mode(self, *, has_called: bool) -> ToolChoiceMode:
        """The mode of the next backend request."""
        return "auto" if has_called and self.first == "required" else self.first

    def allows(self, *, has_called: bool) -> Callable[[str], bool]:
        """A predicate: whether the choice allows the tool of this name."""
        only = None if has_called else self.only
        return lambda name: only is None or name == only


def read_choice(request: MessageRequest) -> MessageToolChoice:
    """Read the tool choice of a request. Raises `ApiFault`."""
    choice = request.tool_choice or {"type": "auto"}
    is_parallel = choice.get("disable_parallel_tool_use") is not True
    match choice.get("type"):
        case "auto":
            return MessageToolChoice(is_parallel=is_parallel)
        case "none":
            return MessageToolChoice("none")
        case "any" if request.tools:
            return MessageToolChoice("required", is_parallel=is_parallel)
        case "tool" if any(tool.get("name") == choice.get("name") for tool in request.tools or []):
            return MessageToolChoice("required", str(choice["name"]), is_parallel=is_parallel)
        case "any" | "tool":
            raise invalid("tool_choice: the request has no such tool.")
        case kind:
            raise invalid(f"tool_choice.type: {str(kind)[:80]!r} is not auto, any, tool or none.")


@dataclass(frozen=True, slots=True)
class _ServerFunction:
    """A function of a server tool under the name that the backend sees; `own_name` is the tool's
    own name for it.
    """

    function: BackendTool
    own_name: str
    tool: ServerTool


class MessageTools:
    """The open tools of one request, by the names that the backend sees."""

    def __init__(
        self, client: Sequence[BackendTool], server: Sequence[ServerTool], choice: MessageToolChoice
    ) -> None:
        self._client = {tool.name: tool for tool in client}
        self._server: dict[str, _ServerFunction] = {}
        self._choice = choice
        for tool in server:
            for function in tool.backend_tools:
                name = function.name
                while name in self._client or name in self._server:
                    name = f"hosted_{name}"
                shown = replace(function, name=name)
                self._server[name] = _ServerFunction(shown, function.name, tool)

    @property
    def is_parallel(self) -> bool:
        """Whether several calls may be proposed at once."""
        return self._choice.is_parallel

    def backend_tools(self, *, has_called: bool) -> list[BackendTool]:
        """The tools that the backend may call next."""
        allows = self._choice.allows(has_called=has_called)
        client = [tool for tool in self._client.values() if allows(tool.name)]
        server = [entry.function for entry in self._server.values() if allows(entry.tool.name)]
        return client + server

    def mode(self, *, has_called: bool) -> ToolChoiceMode:
        """Whether something has to be proposed."""
        return self._choice.mode(has_called=has_called)

    def is_client_tool(self, name: str) -> bool:
        """Whether the client runs the tool of this name."""
        return name in self._client

    def server_tool(self, name: str) -> tuple[ServerTool, str] | None:
        """The server tool that a call names, and the tool's own name for it."""
        entry = self._server.get(name)
        return None if entry is None else (entry.tool, entry.own_name)


def read_client_tools(tools: Sequence[Block]) -> list[BackendTool]:
    """The tools of a request that the client runs. Raises `ApiFault`."""
    client: list[BackendTool] = []
    names: set[str] = set()
    for at, config in enumerate(tools):
        kind = config.get("type")
        if kind == MCP_TYPE:
            continue
        name = config.get("name")
        if not isinstance(name, str) or not name:
            raise invalid(f"tools.{at}.name: Field required")
        if name in names:
            raise invalid(f"tools: Tool names must be unique; two are named {name[:80]!r}.")
        names.add(name)
        if not is_server_type(kind):
            client.append(_client_tool(name, kind, config, at))
    return client


def is_server_type(kind: object) -> bool:
    """Whether the provider runs tools of this type."""
    return isinstance(kind, str) and SERVER_TYPE.fullmatch(kind) is not None


def _client_tool(name: str, kind: object, config: Block, at: int) -> BackendTool:
    if kind in (None, "custom"):
        schema = config.get("input_schema")
        if not isinstance(schema, dict):
            raise invalid(f"tools.{at}.input_schema: Field required")
        parameters = cast(dict[str, Any], schema) or _NO_PROPERTIES
        return BackendTool(name, str(config.get("description") or ""), parameters)
    known = _CLIENT_TYPE.fullmatch(str(kind))
    if known is None:
        raise invalid(
            f"tools.{at}.type: there is no tool of type {str(kind)[:80]!r} here; there are custom, "
            "web_search, web_fetch, code_execution, mcp_toolset, bash, text_editor and memory."
        )
    return BackendTool(name, *_CLIENT_TOOLS[known[1]])

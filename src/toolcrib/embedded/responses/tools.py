"""The tools of one request, run by the client or by the provider, and its tool choice."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from toolcrib.embedded.backend import BackendTool, ToolChoiceMode
from toolcrib.embedded.faults import invalid
from toolcrib.embedded.tools.tool import ResourceCheck, ResumableTool

if TYPE_CHECKING:
    from toolcrib.embedded.responses.request import ResponseRequest


_KEYS = ("type", "name", "server_label")


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """The tool choice of a request.

    `only` are the tools that it names, if any. A choice that forces a tool holds until a tool was
    called; a list of allowed tools (`is_lasting`) holds for the whole response.
    """

    first: ToolChoiceMode
    only: tuple[Mapping[str, Any], ...] | None = None
    is_lasting: bool = False

    def mode(self, *, has_called: bool) -> ToolChoiceMode:
        """The mode of the next backend request."""
        return "auto" if has_called and self.first == "required" else self.first

    def allows(self, *, has_called: bool) -> Callable[[Mapping[str, Any]], bool]:
        """A predicate: whether the choice allows a tool with these facts."""
        only = self.only
        if only is None or (has_called and not self.is_lasting):
            return lambda facts: True
        return lambda facts: any(_is_meant(named, facts) for named in only)


def read_choice(request: ResponseRequest) -> ToolChoice:
    """Read the tool choice of a request. Raises `ApiFault`."""
    choice = "auto" if request.tool_choice is None else request.tool_choice
    if isinstance(choice, str):
        if choice not in ("auto", "none", "required"):
            raise invalid(f"Unknown tool_choice: {choice[:80]!r}.", "tool_choice")
        if choice == "required" and not request.tools:
            raise invalid("tool_choice is 'required', and there are no tools.", "tool_choice")
        return ToolChoice(choice)
    if choice.get("type") == "allowed_tools":
        return _allowed(choice, request)
    _check_named(choice, request, "tool_choice")
    return ToolChoice("required", (choice,))


def _allowed(choice: Mapping[str, Any], request: ResponseRequest) -> ToolChoice:
    mode, tools = choice.get("mode", "auto"), choice.get("tools")
    if mode not in ("auto", "required"):
        raise invalid("The mode must be 'auto' or 'required'.", "tool_choice.mode")
    listed = cast(list[object], tools) if isinstance(tools, list) else [None]
    if not all(isinstance(tool, dict) for tool in listed):
        raise invalid("'tools' must be a list of tools.", "tool_choice.tools")
    named = tuple(cast(list[dict[str, Any]], listed))
    for at, tool in enumerate(named):
        _check_named(tool, request, f"tool_choice.tools[{at}]")
    return ToolChoice(cast(ToolChoiceMode, mode), named, is_lasting=True)


def _check_named(named: Mapping[str, Any], request: ResponseRequest, param: str) -> None:
    # The tool names of a remote server are unknown until the server is connected.
    keys = ("type", "server_label") if named.get("type") == "mcp" else _KEYS
    if not any(
        _is_meant({k: named[k] for k in keys if k in named}, t) for t in request.tools or []
    ):
        raise invalid("Tool choice names a tool that the request does not have.", param)


def _is_meant(named: Mapping[str, Any], facts: Mapping[str, Any]) -> bool:
    """Whether a tool matches a named one in all keys that the name has."""
    type_, other = str(named.get("type")), str(facts.get("type"))
    # A type may end in a date, such as web_search_2025_08_26.
    if other != type_ and not other.startswith(f"{type_}_20"):
        return False
    keys = ("server_label", "name") if type_ == "mcp" else ("name",)
    if type_ not in ("mcp", "function", "custom"):
        return True
    return all(named.get(key) in (None, facts.get(key)) for key in keys)


if TYPE_CHECKING:
    from toolcrib.embedded.access import ResourceAccess
    from toolcrib.embedded.responses.request import ResponseRequest
    from toolcrib.embedded.responses.writer import ResponseWriter
    from toolcrib.embedded.tools.tool import (
        HostedKind,
        OpenTool,
        RequestContext,
        ResumedCall,
        ToolAnswer,
        ToolPause,
    )

    ToolRunner: TypeAlias = Callable[
        [Mapping[str, Any], ResponseWriter], Awaitable[ToolAnswer | ToolPause]
    ]

CLIENT_TYPES: Final = frozenset({"function", "custom"})
_NO_PARAMETERS: Final[dict[str, Any]] = {"type": "object", "properties": {}}
_FREE: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"input": {"type": "string"}},
    "required": ["input"],
}


@dataclass(frozen=True, slots=True)
class _HostedFunction:
    """A function of a hosted tool under the name that the backend sees.

    `own_name` is the name that the tool itself uses.
    """

    function: BackendTool
    own_name: str
    tool: OpenTool
    config: Mapping[str, Any]


class HostedKinds:
    """The kinds of hosted tools that the provider supports."""

    def __init__(self, kinds: Sequence[HostedKind]) -> None:
        self._by_type = {name: kind for kind in kinds for name in kind.types}

    def check(self, request: ResponseRequest) -> None:
        """Raises `ApiFault` for an invalid or unsupported tool of a request."""
        names: set[str] = set()
        for at, config in enumerate(request.tools or []):
            param, type_ = f"tools[{at}]", config.get("type")
            if type_ in CLIENT_TYPES:
                name = _client_tool(config, param).name
                if name in names:
                    raise invalid(f"Two tools are named {name[:80]!r}.", f"{param}.name")
                names.add(name)
            elif type_ in self._by_type:
                self._by_type[type_].check(config, param)
            else:
                raise invalid(_unknown(type_, self._by_type), f"{param}.type")
        read_choice(request)

    async def check_resources(self, request: ResponseRequest, access: ResourceAccess) -> None:
        """Raises `ApiFault` if a resource that the tools of a request need is missing."""
        for at, config in enumerate(request.tools or []):
            kind = self._by_type.get(config["type"])
            if isinstance(kind, ResourceCheck):
                await kind.check_resources(config, f"tools[{at}]", access)

    async def open(
        self, request: ResponseRequest, context: RequestContext, stack: AsyncExitStack
    ) -> OpenTools:
        """Open the tools of a checked request; `stack` closes them."""
        client = [
            _client_tool(config, "tools")
            for config in request.tools or []
            if config["type"] in CLIENT_TYPES
        ]
        taken = {tool.name for tool in client}
        hosted: list[_HostedFunction] = []
        for config in request.tools or []:
            if config["type"] in CLIENT_TYPES:
                continue
            tool = await self._by_type[config["type"]].open(config, request, context)
            stack.push_async_callback(tool.close)
            for function in tool.backend_tools:
                shown = replace(function, name=_free_name(function.name, taken))
                taken.add(shown.name)
                hosted.append(_HostedFunction(shown, function.name, tool, config))
        return OpenTools(client, hosted, read_choice(request))


class OpenTools:
    """The open tools of one request, by the names that the backend sees."""

    def __init__(
        self, client: Sequence[BackendTool], hosted: Sequence[_HostedFunction], chosen: ToolChoice
    ) -> None:
        self._client = {tool.name: tool for tool in client}
        self._hosted = {entry.function.name: entry for entry in hosted}
        self._chosen = chosen

    def backend_tools(self, *, has_called: bool, may_run: bool) -> list[BackendTool]:
        """The tools that the backend may call next. Without `may_run`, client tools only."""
        allows = self._chosen.allows(has_called=has_called)
        client = [tool for tool in self._client.values() if allows(_client_facts(tool))]
        if not may_run:
            return client
        return client + [
            hosted.function
            for hosted in self._hosted.values()
            if allows({**hosted.config, "name": hosted.own_name.rpartition("__")[2]})
        ]

    async def resume(self, writer: ResponseWriter) -> list[ResumedCall]:
        """Run the calls that waited for the client's approval. Returns them with their answers."""
        resumed: list[ResumedCall] = []
        for tool in dict.fromkeys(hosted.tool for hosted in self._hosted.values()):
            if isinstance(tool, ResumableTool):
                resumed += await tool.resume(writer)
        return resumed

    def choice(self, *, has_called: bool) -> ToolChoiceMode:
        """Whether something has to be proposed."""
        return self._chosen.mode(has_called=has_called)

    def client_tool(self, name: str) -> BackendTool | None:
        """The client tool of this name."""
        return self._client.get(name)

    def runner(self, name: str) -> ToolRunner | None:
        """The function that runs the hosted tool of this name."""
        hosted = self._hosted.get(name)
        return None if hosted is None else partial(hosted.tool.run, hosted.own_name)


def _client_tool(config: Mapping[str, Any], param: str) -> BackendTool:
    name = config.get("name")
    if not isinstance(name, str) or not name:
        raise invalid("A tool needs a name.", f"{param}.name")
    description = config.get("description") or ""
    if config["type"] == "custom":
        return BackendTool(name, str(description), _FREE, is_freeform=True)
    parameters = config.get("parameters") or _NO_PARAMETERS
    if not isinstance(parameters, dict):
        raise invalid("A function's parameters must be a JSON Schema.", f"{param}.parameters")
    return BackendTool(name, str(description), cast(dict[str, Any], parameters))


def _client_facts(tool: BackendTool) -> dict[str, Any]:
    return {"type": "custom" if tool.is_freeform else "function", "name": tool.name}


def _free_name(name: str, taken: set[str]) -> str:
    while name in taken:
        name = f"hosted_{name}"
    return name


def _unknown(type_: object, known: Mapping[str, Any]) -> str:
    have = ", ".join(sorted({*known, *CLIENT_TYPES}))
    return f"There is no tool of type {str(type_)[:80]!r} here; there are {have}."

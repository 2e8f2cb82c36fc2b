"""The tools of one request, run by the client or by the provider."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from toolcrib.embedded.faults import invalid
from toolcrib.embedded.responses.client_tools import (
    CLIENT_TYPES,
    LOADING_ITEMS,
    TOOL_SEARCH,
    RequestTool,
    is_client_tool,
    loaded_tools,
    read_client_tools,
    unique_tools,
)
from toolcrib.embedded.responses.tool_choice import read_choice
from toolcrib.embedded.responses.tool_search import ToolSearch
from toolcrib.embedded.tools.tool import ResourceCheck, ResumableTool

if TYPE_CHECKING:
    from toolcrib.embedded.access import ResourceAccess
    from toolcrib.embedded.backend import BackendTool, ToolChoiceMode
    from toolcrib.embedded.responses.request import ResponseRequest
    from toolcrib.embedded.responses.tool_choice import ToolChoice
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


@dataclass(frozen=True, slots=True)
class _HostedFunction:
    """A function of a hosted tool under the name that the backend sees.

    `own_name` is the name that the tool itself uses.
    """

    function: BackendTool
    own_name: str
    tool: OpenTool
    config: Mapping[str, Any]

    @property
    def facts(self) -> dict[str, Any]:
        """What a tool choice may name."""
        return {**self.config, "name": self.own_name.rpartition("__")[2]}


class HostedKinds:
    """The kinds of hosted tools that the provider supports."""

    def __init__(self, kinds: Sequence[HostedKind]) -> None:
        self._by_type = {name: kind for kind in kinds for name in kind.types}

    def check(self, request: ResponseRequest) -> None:
        """Raises `ApiFault` for an invalid or unsupported tool of a request."""
        for at, config in enumerate(request.tools or []):
            param, type_ = f"tools[{at}]", str(config.get("type"))
            if is_client_tool(config) or type_ == TOOL_SEARCH:
                continue
            if type_ not in self._by_type:
                raise invalid(_unknown(type_, self._by_type), f"{param}.type")
            self._by_type[type_].check(config, param)
        unique_tools(_declared(request.tools or []))
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
        configs = request.tools or []
        loaded = list(_loaded(context.items))
        declared = list(_declared(configs))
        known = {(tool.namespace_name, tool.name) for tool, _ in declared}
        # A tool that an item brings twice, or that the request declares as well, is the same one.
        brought = {(tool.namespace_name, tool.name): (tool, "input") for tool in loaded}
        added = [entry for key, entry in brought.items() if key not in known]
        client = unique_tools([*declared, *added])
        taken = {tool.declaration.name for tool in client}
        hosted: list[_HostedFunction] = []
        for config in configs:
            if config["type"] not in self._by_type:
                continue
            tool = await self._by_type[config["type"]].open(config, request, context)
            stack.push_async_callback(tool.close)
            for function in tool.backend_tools:
                shown = replace(function, name=_free_name(function.name, taken))
                taken.add(shown.name)
                hosted.append(_HostedFunction(shown, function.name, tool, config))
        search: ToolSearch | None = None
        if any(config["type"] == TOOL_SEARCH for config in configs):
            is_clients = any(tool.type == TOOL_SEARCH for tool in client)
            search = ToolSearch(None if is_clients else _free_name(TOOL_SEARCH, taken))
            search.defer(client, [(each.function, each.config) for each in hosted])
            search.load(context.items)
        return OpenTools(client, hosted, read_choice(request), search)


class OpenTools:
    """The open tools of one request, by the names that the backend sees."""

    def __init__(
        self,
        client: Sequence[RequestTool],
        hosted: Sequence[_HostedFunction],
        chosen: ToolChoice,
        search: ToolSearch | None = None,
    ) -> None:
        self._client = {tool.declaration.name: tool for tool in client}
        self._hosted = {entry.function.name: entry for entry in hosted}
        self._chosen = chosen
        self._search = search

    def backend_tools(self, *, has_called: bool, may_run: bool) -> list[BackendTool]:
        """The tools that the backend may call next. Without `may_run`, client tools only."""
        allows = self._chosen.allows(has_called=has_called)
        tools = [
            tool.declaration
            for tool in self._client.values()
            if allows(tool.facts) and self._is_shown(tool.declaration, tool.facts)
        ]
        if not may_run:
            return tools
        tools += [
            entry.function
            for entry in self._hosted.values()
            if allows(entry.facts) and self._is_shown(entry.function, entry.facts)
        ]
        search = self._search
        if search is not None and search.declaration is not None and allows({"type": TOOL_SEARCH}):
            tools.append(search.declaration)
        return tools

    def _is_shown(self, declaration: BackendTool, facts: Mapping[str, Any]) -> bool:
        search = self._search
        return search is None or search.is_loaded(declaration.name) or self._chosen.names(facts)

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

    def client_tool(self, name: str) -> RequestTool | None:
        """The client tool of this name."""
        return self._client.get(name)

    def runner(self, name: str) -> ToolRunner | None:
        """The function that runs the hosted tool of this name."""
        if self._search is not None and name == self._search.name:
            return self._search.run
        hosted = self._hosted.get(name)
        return None if hosted is None else partial(hosted.tool.run, hosted.own_name)


def _declared(configs: Iterable[Mapping[str, Any]]) -> Iterator[tuple[RequestTool, str]]:
    for at, config in enumerate(configs):
        param = f"tools[{at}]"
        for tool in read_client_tools(config, param):
            yield tool, param


def _loaded(items: Iterable[Mapping[str, Any]]) -> Iterator[RequestTool]:
    """The tools that items of the conversation bring."""
    for item in items:
        if item.get("type") in LOADING_ITEMS:
            yield from loaded_tools(item, "input")


def _free_name(name: str, taken: set[str]) -> str:
    while name in taken:
        name = f"hosted_{name}"
    return name


def _unknown(type_: object, known: Mapping[str, Any]) -> str:
    have = ", ".join(sorted({*known, *CLIENT_TYPES, TOOL_SEARCH}))
    return f"There is no tool of type {str(type_)[:80]!r} here; there are {have}."

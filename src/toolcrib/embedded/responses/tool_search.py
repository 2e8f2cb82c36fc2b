"""The tool search that the provider runs: it finds the deferred tools of a request."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from toolcrib.embedded.backend import BackendTool
from toolcrib.embedded.database import new_id
from toolcrib.embedded.responses.client_tools import LOADING_ITEMS, read_client_tools
from toolcrib.embedded.responses.request import tool_resource
from toolcrib.embedded.tools.tool import ToolAnswer

if TYPE_CHECKING:
    from toolcrib.embedded.responses.client_tools import RequestTool
    from toolcrib.embedded.responses.writer import ResponseWriter

MAX_FOUND: Final = 8
"""Tools that one search loads."""
_LONGEST_LIST: Final = 4000
_WORD: Final = re.compile(r"[a-z0-9]+")
_NAME_WEIGHT: Final = 3
_PARAMETERS: Final = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "description": "What the tool should do, in a few words."},
        "paths": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Instead: names of tools or groups to load.",
        },
    },
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class _DeferredTool:
    """A tool that the backend does not see yet. `group` is its namespace or its MCP server."""

    declaration: BackendTool
    group: str | None
    name: str
    config: Mapping[str, Any]
    namespace: Mapping[str, Any] | None

    @property
    def is_remote(self) -> bool:
        """Whether it is a tool of an MCP server."""
        return "server_label" in self.config

    @property
    def paths(self) -> set[str]:
        """The names by which a search may ask for it."""
        names = {self.declaration.name, self.name}
        return names | ({self.group, f"{self.group}.{self.name}"} if self.group else set())

    def score(self, words: Sequence[str]) -> int:
        """How well it fits the words of a query."""
        named = _words(f"{self.declaration.name} {self.name}")
        members = cast(Mapping[str, Any], self.declaration.parameters.get("properties") or {})
        told = _words(f"{self.declaration.description} {' '.join(members)}")
        return sum(
            _NAME_WEIGHT * _has(named, word) + _has(told, word) for word in dict.fromkeys(words)
        )


class ToolSearch:
    """Hides the deferred tools of one request until a search loads them. Without a name the backend
    cannot search: the client does.
    """

    def __init__(self, name: str | None) -> None:
        self.name = name
        self._deferred: dict[str, _DeferredTool] = {}

    def defer(
        self,
        client: Iterable[RequestTool],
        hosted: Iterable[tuple[BackendTool, Mapping[str, Any]]],
    ) -> None:
        """Hide the deferred ones of these tools."""
        for tool in client:
            if tool.is_deferred:
                self._deferred[tool.declaration.name] = _DeferredTool(
                    tool.declaration, tool.namespace_name, tool.name, tool.config, tool.namespace
                )
        for declaration, config in hosted:
            if config.get("defer_loading") is True:
                label = str(config.get("server_label") or "") or None
                name = declaration.name.rpartition("__")[2]
                self._deferred[declaration.name] = _DeferredTool(
                    declaration, label, name, config, None
                )

    def load(self, items: Iterable[Mapping[str, Any]]) -> None:
        """Show the tools that earlier items of the conversation list."""
        names = {name for item in items for name in _listed_names(item)}
        for flat, tool in list(self._deferred.items()):
            if (tool.group, tool.name) in names or (tool.group, None) in names:
                del self._deferred[flat]

    def is_loaded(self, flat: str) -> bool:
        """Whether the backend sees the tool of this name."""
        return flat not in self._deferred

    @property
    def declaration(self) -> BackendTool | None:
        """The search as the backend sees it, while there is something to find."""
        if self.name is None or not self._deferred:
            return None
        return BackendTool(self.name, f"{_ABOUT}\n{self._listed()}", _PARAMETERS)

    async def run(self, arguments: Mapping[str, Any], writer: ResponseWriter) -> ToolAnswer:
        """Find tools, load them, and write both items of the search."""
        found = self._found(arguments)
        base = {"type": "tool_search_call", "execution": "server", "call_id": None}
        item_id = new_id("tsc")
        index = writer.add_item(
            {"id": item_id, **base, "status": "in_progress", "arguments": dict(arguments)}
        )
        writer.finish_item(index, status="completed")
        output: dict[str, Any] = {
            **base,
            "id": new_id("tso"),
            "type": "tool_search_output",
            "tools": [],
        }
        index = writer.add_item({**output, "status": "in_progress"})
        writer.finish_item(index, status="completed", tools=_resources(found))
        for tool in found:
            del self._deferred[tool.declaration.name]
        return ToolAnswer(item_id, self._told(found))

    def _found(self, arguments: Mapping[str, Any]) -> list[_DeferredTool]:
        tools = list(self._deferred.values())
        paths: object = arguments.get("paths")
        wanted = set(map(str, cast(list[object], paths))) if isinstance(paths, list) else set[str]()
        if wanted:
            return self._whole([tool for tool in tools if tool.paths & wanted])
        query = arguments.get("query")
        words = _words(query if isinstance(query, str) else json.dumps(dict(arguments)))
        scored = sorted(((tool.score(words), tool) for tool in tools), key=lambda each: -each[0])
        return self._whole([tool for score, tool in scored[:MAX_FOUND] if score])

    def _whole(self, found: Sequence[_DeferredTool]) -> list[_DeferredTool]:
        """The tools, and all others of their MCP servers: an item lists a server, not its tools."""
        servers = {tool.group for tool in found if tool.is_remote}
        others = [
            tool
            for tool in self._deferred.values()
            if tool.is_remote and tool.group in servers and tool not in found
        ]
        return [*found, *others]

    def _told(self, found: Sequence[_DeferredTool]) -> str:
        if not found:
            return f"No tool fits. There are:\n{self._listed()}"
        lines = [f"{tool.declaration.name}: {tool.declaration.description}" for tool in found]
        return "These tools can be called now:\n" + "\n".join(lines)

    def _listed(self) -> str:
        """The groups with their descriptions, and the tools outside of groups."""
        lines: dict[str, str] = {}
        for tool in self._deferred.values():
            about = tool.config if tool.group is None else tool.namespace or tool.config
            told = str(about.get("description") or about.get("server_description") or "")
            lines.setdefault(tool.group or tool.name, told.strip().partition("\n")[0])
        listed = "\n".join(f"- {name}: {about}".rstrip(": ") for name, about in lines.items())
        return listed[:_LONGEST_LIST]


_ABOUT: Final = "Find tools that are not offered yet, and load them. There are tools for:"


def _resources(found: Iterable[_DeferredTool]) -> list[dict[str, Any]]:
    """The tools as the item lists them: those of a namespace together, an MCP server once."""
    resources: dict[str, dict[str, Any]] = {}
    for tool in found:
        if tool.namespace is not None:
            empty: dict[str, Any] = {"description": "", **tool.namespace, "tools": []}
            group = resources.setdefault(f"namespace {tool.group}", empty)
            group["tools"].append(dict(tool.config))
        else:
            key = f"group {tool.group}" if tool.group else f"tool {tool.name}"
            resources.setdefault(key, tool_resource(dict(tool.config)))
    return list(resources.values())


def _listed_names(item: Mapping[str, Any]) -> Iterator[tuple[str | None, str | None]]:
    """The groups and names of the tools in an item; an MCP server has no names of tools."""
    if item.get("type") not in LOADING_ITEMS:
        return
    for config in cast(list[Mapping[str, Any]], item.get("tools") or []):
        client = read_client_tools(config, "input")
        for tool in client:
            yield tool.namespace_name, tool.name
        if not client and isinstance(config.get("server_label"), str):
            yield config["server_label"], None


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _has(words: Iterable[str], word: str) -> bool:
    """Whether a word is there, also in another form: `orders` for `order`."""
    stem = word.removesuffix("s")
    return any(each.removesuffix("s") == stem for each in words)

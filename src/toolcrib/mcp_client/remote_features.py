"""The resources, templates and prompts of one mounted server: listed when they are asked for, kept
until the server says that they changed, and read through its connection.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast, get_args

import anyio

from toolcrib.errors import CallEnded
from toolcrib.features.arguments import ArgumentCompletion
from toolcrib.features.content import value_text
from toolcrib.features.declaration import (
    GET_PROMPT,
    GET_SCHEMA,
    READ_RESOURCE,
    READ_SCHEMA,
)
from toolcrib.features.registry import PROMPTS_CHANGED, RESOURCES_CHANGED, FeatureChange
from toolcrib.mcp_client.config import printable_line
from toolcrib.mcp_client.elicitation import AskingCall
from toolcrib.mcp_client.errors import call_failure
from toolcrib.mcp_client.remote_subscriptions import RemoteSubscriptions
from toolcrib.tools.redaction import Scrubber
from toolcrib.tools.result import ToolResult
from toolcrib.tools.tool import Tool

if TYPE_CHECKING:
    from mcp import Client
    from mcp_types import ContentBlock

    from toolcrib.mcp_client.config import McpServerConfig
    from toolcrib.mcp_client.connection import Connection
    from toolcrib.mcp_client.load import ServerLoad
    from toolcrib.tools.context import ToolContext
    from toolcrib.tools.identity import HandlerIdentity

logger = logging.getLogger(__name__)

FeatureList: TypeAlias = Literal["resources", "templates", "prompts"]
FEATURE_LISTS: Final[tuple[FeatureList, ...]] = get_args(FeatureList)

MAX_PAGES: Final = 100
MAX_FEATURES: Final = 5_000
"""The maximum number of entries of one list."""
MAX_LIST_BYTES: Final = 4_000_000
MAX_LINKS: Final = 10_000
"""How many resource links in results of a server are remembered, over all sessions."""
LIST_SECONDS: Final = 10.0
RELAY_SECONDS: Final = 0.1
RETRY_SECONDS: Final = 30.0
"""A list that failed is asked for again after this time."""
_NOT_FOUND: Final = (-32002, -32602)

# Control characters could steer a terminal, and direction marks make text read as other text.
_CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True, slots=True)
class RemoteFeature:
    """An entry of a list of a server: without secrets, and by the key that the server knows."""

    key: str
    """Its URI, URI template or name at the server."""
    entry: Mapping[str, Any] = field(hash=False)
    """As MCP writes it."""


@dataclass(frozen=True, slots=True)
class FeatureHandler:
    """Reads a resource or gets a prompt of a server. Handlers of an unchanged server are equal."""

    features: RemoteFeatures
    name: str
    identity: HandlerIdentity = field(hash=False)

    def handler_identity(self) -> HandlerIdentity:
        """The server that answers."""
        return self.identity

    async def __call__(self, input: dict[str, Any], context: ToolContext) -> ToolResult[Any]:
        """Have the server answer."""
        if self.name == READ_RESOURCE:
            return await self.features.read(input["uri"], context, self.identity)
        arguments: dict[str, str] = input.get("arguments") or {}
        return await self.features.get(input["name"], arguments, context, self.identity)


class RemoteFeatures:
    """What a server offers besides tools. `on_change` hears of changed lists and contents."""

    def __init__(self, config: McpServerConfig, source: str, load: ServerLoad) -> None:
        self.source = source
        self.on_change: Callable[[FeatureChange], None] = lambda change: None
        self.check_credential: Callable[[float], None] = lambda started: None
        """Raises `CallEnded` when a request since then was refused for want of a credential."""
        self._config = config
        self._load = load
        self._connection: Connection | None = None
        self._identity: HandlerIdentity | None = None
        self._scrubber = Scrubber([])
        self._tools: dict[str, Tool[Any, Any]] = {}
        self._lists: dict[FeatureList, tuple[tuple[RemoteFeature, ...], float]] = {}
        self._listing = {name: asyncio.Lock() for name in FEATURE_LISTS}
        self._told: dict[FeatureChange, asyncio.TimerHandle] = {}
        self._links: OrderedDict[tuple[str, str], str] = OrderedDict()
        self.subscriptions = RemoteSubscriptions(self._updated)

    @property
    def name(self) -> str:
        """The name of the server."""
        return self._config.name

    @property
    def prefix(self) -> str:
        """What the names of its prompts begin with here."""
        return self._config.terms.prefix

    @property
    def has_audience(self) -> bool:
        """Whether it is shown to some principals only."""
        return self._config.terms.visible_to is not None

    def connected(
        self, connection: Connection, identity: HandlerIdentity, scrubber: Scrubber
    ) -> None:
        """The server can be asked from now on."""
        if identity != self._identity:
            self._tools.clear()
        if connection is self._connection:
            self._identity = identity
            return
        self._connection, self._identity, self._scrubber = connection, identity, scrubber
        self._lists.clear()
        connection.on_event = self.hear
        self.subscriptions.connected(connection)
        for change in (RESOURCES_CHANGED, PROMPTS_CHANGED):
            if self.may_have(change.kind):
                self.on_change(change)

    def disconnected(self) -> None:
        """The server cannot be asked; its lists stay as they were until it is back."""
        self._connection = None
        self.subscriptions.disconnected()

    def removed(self) -> None:
        """The server is not mounted any more."""
        self.disconnected()
        self._lists.clear()
        for change in (RESOURCES_CHANGED, PROMPTS_CHANGED):
            self.on_change(change)

    def may_have(self, kind: str) -> bool:
        """Whether the server has resources, prompts or completions; one that is away may."""
        connection = self._connection
        return connection is None or getattr(connection.capabilities, kind, None) is not None

    def hear(self, change: FeatureChange) -> None:
        """The server said that something changed. Clients are told of each change soon, and not
        more often, however often the server says it.
        """
        if change.kind != "updated":
            for name in ("prompts",) if change.kind == "prompts" else ("resources", "templates"):
                self._lists.pop(name, None)
        if change not in self._told and len(self._told) < MAX_FEATURES:
            loop = asyncio.get_running_loop()
            self._told[change] = loop.call_later(RELAY_SECONDS, self._tell, change)

    def _tell(self, change: FeatureChange) -> None:
        del self._told[change]
        self.on_change(change)

    @property
    def state(self) -> object:
        """Another value after every change of the lists, for those who keep what they made."""
        return tuple(id(self._lists[name][0]) for name in FEATURE_LISTS if name in self._lists)

    def tool(self, name: str) -> Tool[Any, Any] | None:
        """The tool behind a read; None for a server that was never connected."""
        if self._identity is None:
            return None
        if name not in self._tools:
            self._tools[name] = self._tool(name, self._identity)
        return self._tools[name]

    def _tool(self, name: str, identity: HandlerIdentity) -> Tool[Any, Any]:
        return Tool[Any, Any](
            name=name,
            description=_DESCRIPTIONS[name].format(self.name),
            handler=FeatureHandler(self, name, identity),
            calling="input",
            json_schema=READ_SCHEMA if name == READ_RESOURCE else GET_SCHEMA,
            source=self.source,
            is_read_only=True,
            is_idempotent=True,
            timeout=self._config.terms.timeout,
            visible_to=self._config.terms.visible_to,
        )

    async def listed(self, name: FeatureList) -> Sequence[RemoteFeature]:
        """A list of the server, empty when there is none. A list that fails is logged."""
        async with self._listing[name]:
            connection, kept = self._connection, self._lists.get(name)
            if kept is not None and (connection is None or time.monotonic() < kept[1]):
                return kept[0]
            if connection is None or not _has(connection, name):
                return ()
            until = float("inf")
            try:
                with anyio.fail_after(LIST_SECONDS):
                    entries = await connection.ask(lambda client: _pages(client, name))
                features = tuple(_feature(entry, name, self._scrubber) for entry in entries)
            except Exception as error:
                until, features = time.monotonic() + RETRY_SECONDS, ()
                logger.warning(
                    "the MCP server %r did not list its %s: %s",
                    self.name,
                    name,
                    printable_line(f"{type(error).__name__}: {error}", self._scrubber),
                )
            if connection is self._connection:
                self._lists[name] = features, until
            return features

    def note_links(self, session_id: str, blocks: Iterable[ContentBlock]) -> None:
        """Remember the resources that a result of a session names: its client may read them."""
        for block in blocks:
            uri = None
            if block.type == "resource_link":
                uri = block.uri
            elif block.type == "resource":
                uri = block.resource.uri
            if uri is not None:
                self._links[session_id, self._scrubber.scrub(str(uri))] = str(uri)
        while len(self._links) > MAX_LINKS:
            self._links.popitem(last=False)

    def linked(self, session_id: str, uri: str) -> str | None:
        """The URI at the server of a resource that a result of the session named; None else."""
        return self._links.get((session_id, uri))

    async def read(
        self, uri: str, context: ToolContext, identity: HandlerIdentity
    ) -> ToolResult[Any]:
        """Read a resource by its URI at the server."""
        answer = await self._asked(lambda client: client.read_resource(uri), context, identity)
        return self._result(answer, ("contents", "_meta"), context)

    async def get(
        self,
        name: str,
        arguments: Mapping[str, str],
        context: ToolContext,
        identity: HandlerIdentity,
    ) -> ToolResult[Any]:
        """Get a prompt by the name that it has here."""
        own = name.removeprefix(self.prefix)
        answer = await self._asked(
            lambda client: client.get_prompt(own, dict(arguments)), context, identity
        )
        self.note_links(context.session_id, [message.content for message in answer.messages])
        return self._result(answer, ("description", "messages", "_meta"), context)

    async def complete(
        self, ref: Mapping[str, str], argument: Mapping[str, str], known: Mapping[str, str]
    ) -> ArgumentCompletion:
        """Complete an argument of a prompt or template, by the server's own name or template."""
        connection = self._connection
        if connection is None or getattr(connection.capabilities, "completions", None) is None:
            return ArgumentCompletion()
        from mcp import MCPError

        try:
            with anyio.fail_after(LIST_SECONDS):
                answer = await connection.ask(
                    lambda client: client.complete(
                        _reference(ref), dict(argument), dict(known) or None
                    )
                )
        except (MCPError, TimeoutError, ValueError) as error:
            logger.info("the MCP server %r completed nothing: %s", self.name, type(error).__name__)
            return ArgumentCompletion()
        completion = answer.completion
        values = tuple(_clean(value, self._scrubber) for value in completion.values[:100])
        return ArgumentCompletion(values, completion.total, bool(completion.has_more))

    async def _asked(
        self,
        ask: Callable[[Client], Awaitable[Any]],
        context: ToolContext,
        identity: HandlerIdentity,
    ) -> Any:
        connection, server = self._connection, f"`{self.name}`"
        if connection is None:
            raise CallEnded("unavailable", f"The MCP server {server} is not connected.")
        if identity != self._identity:
            raise CallEnded("unavailable", f"The MCP server {server} has changed; ask again.")
        return await self._load.run(
            lambda: self._answered(connection, ask, context), context.deadline
        )

    async def _answered(
        self, connection: Connection, ask: Callable[[Client], Awaitable[Any]], context: ToolContext
    ) -> Any:
        from mcp import MCPError

        server = f"`{self.name}`"

        def label(message: str) -> str:
            return f"The MCP server {server} asks: {self._scrubber.scrub(message)}"

        started = anyio.current_time()
        try:
            return await connection.ask(ask, AskingCall(context, label))
        except Exception as error:
            self.check_credential(started)
            if isinstance(error, MCPError) and error.code in _NOT_FOUND:
                kind = "not_found" if context.tool_name == READ_RESOURCE else "invalid_arguments"
                message = printable_line(error.message, self._scrubber)
                raise CallEnded(kind, f"The MCP server {server} says: {message}") from error
            raise call_failure(
                error, server, context.tool_name, connection, self._scrubber
            ) from error

    def _result(self, answer: Any, keys: Sequence[str], context: ToolContext) -> ToolResult[Any]:
        written = answer.model_dump(mode="json", by_alias=True, exclude_none=True)
        value = _clean_json({key: written[key] for key in keys if key in written}, self._scrubber)
        size, most = len(json.dumps(value, ensure_ascii=False)), self._config.terms.max_output_chars
        if size > most:
            raise CallEnded(
                "invalid_result",
                f"The MCP server `{self.name}` gave {size} characters; at most {most} are "
                "accepted (max_output_chars).",
            )
        return ToolResult(value=value, message=value_text(value))

    def _updated(self, uri: str) -> None:
        self.hear(FeatureChange("updated", uri))


_DESCRIPTIONS: Final[Mapping[str, str]] = {
    READ_RESOURCE: "Read a resource of the MCP server {}.",
    GET_PROMPT: "Get a prompt of the MCP server {}.",
}


def _has(connection: Connection, name: FeatureList) -> bool:
    kind = "prompts" if name == "prompts" else "resources"
    return getattr(connection.capabilities, kind, None) is not None


async def _pages(client: Client, name: FeatureList) -> list[dict[str, Any]]:
    """Every entry of a list, page by page, within bounds."""
    entries: list[dict[str, Any]] = []
    cursor: str | None = None
    size = 0
    for _ in range(MAX_PAGES):
        page, cursor_next = await _page(client, name, cursor)
        for item in page:
            entry = item.model_dump(mode="json", by_alias=True, exclude_none=True)
            size += len(json.dumps(entry, ensure_ascii=False))
            if size > MAX_LIST_BYTES or len(entries) >= MAX_FEATURES:
                logger.warning("a list of %s was cut: it is too long", name)
                return entries
            entries.append(entry)
        if cursor_next is None or cursor_next == cursor:
            break
        cursor = cursor_next
    return entries


async def _page(
    client: Client, name: FeatureList, cursor: str | None
) -> tuple[Sequence[Any], str | None]:
    match name:
        case "resources":
            resources = await client.list_resources(cursor=cursor)
            return resources.resources, resources.next_cursor
        case "templates":
            from mcp import MCPError

            try:
                templates = await client.list_resource_templates(cursor=cursor)
            except MCPError as error:
                if error.code == -32601:
                    # Many servers with resources have no templates, and no method to say so.
                    return (), None
                raise
            return templates.resource_templates, templates.next_cursor
        case "prompts":
            prompts = await client.list_prompts(cursor=cursor)
            return prompts.prompts, prompts.next_cursor


_KEYS: Final[Mapping[FeatureList, str]] = {
    "resources": "uri",
    "templates": "uriTemplate",
    "prompts": "name",
}


def _feature(entry: dict[str, Any], name: FeatureList, scrubber: Scrubber) -> RemoteFeature:
    return RemoteFeature(str(entry[_KEYS[name]]), _clean_json(entry, scrubber))


def _reference(ref: Mapping[str, str]) -> Any:
    import mcp_types

    if "name" in ref:
        return mcp_types.PromptReference(type="ref/prompt", name=ref["name"])
    return mcp_types.ResourceTemplateReference(type="ref/resource", uri=ref["uri"])


def _clean_json(value: Any, scrubber: Scrubber) -> Any:
    return _printable(scrubber.scrub(value))


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", value.replace("\r\n", "\n"))
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        return {key: _printable(member) for key, member in members.items()}
    if isinstance(value, list):
        return [_printable(member) for member in cast("list[Any]", value)]
    return value


def _clean(text: str, scrubber: Scrubber) -> str:
    return str(_clean_json(text, scrubber))

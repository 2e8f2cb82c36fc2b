"""A connection to a server through the SDK's client, in either protocol revision.

The SDK's client rejects a whole list for one tool that violates the MCP schema, and with it the
whole server. So such tools are removed from the list before the SDK reads it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import anyio

from toolcrib._version import __version__
from toolcrib.errors import ConnectionLost
from toolcrib.features.registry import PROMPTS_CHANGED, RESOURCES_CHANGED, FeatureChange
from toolcrib.mcp_client.child import child_streams
from toolcrib.mcp_client.config import ServerEndpoint, ServerProgram
from toolcrib.mcp_client.elicitation import AskingCall, ServerQuestions
from toolcrib.mcp_client.errors import ConnectionEnd
from toolcrib.mcp_client.web import http_streams

if TYPE_CHECKING:
    import mcp_types
    from mcp import Client
    from mcp.shared.dispatcher import ProgressFnT

    from toolcrib.mcp_client.config import ConnectionTiming
    from toolcrib.mcp_client.sdk_internals import TransportStreams


T = TypeVar("T")

_REVISIONS: Final = ("2025-11-25", "2026-07-28")
_WITH_PING: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""The revisions that have a ping."""


class InvalidToolFilter:
    """Filters the messages of a server. `rejected` has the reason for each removed tool."""

    def __init__(self) -> None:
        self.rejected: dict[str, str] = {}

    def filter(self, item: Any) -> Any:
        """The same message, without invalid tools."""
        result = getattr(getattr(item, "message", None), "result", None)
        page = cast("dict[str, Any]", result) if isinstance(result, dict) else {}
        listed = page.get("tools")
        tools = cast("list[Any]", listed) if isinstance(listed, list) else []
        if tools and _fault(page, tools) is not None:
            page["tools"] = [tool for tool in tools if self._is_valid(page, tool)]
        return item

    def _is_valid(self, page: dict[str, Any], tool: Any) -> bool:
        fault = _fault(page, [tool])
        if fault is None:
            return True
        facts = cast("dict[str, Any]", tool) if isinstance(tool, dict) else {}
        self.rejected[str(facts.get("name", "?"))] = fault
        return False


def _fault(page: dict[str, Any], tools: list[Any]) -> str | None:
    """The first fault of these tools; None when they are valid, or the page itself is not."""
    from mcp_types.methods import validate_server_result
    from pydantic import ValidationError

    for revision in _REVISIONS:
        try:
            validate_server_result("tools/list", revision, {**page, "tools": []})
        except ValidationError:
            # A page of another protocol revision, or one that is invalid by itself.
            continue
        try:
            validate_server_result("tools/list", revision, {**page, "tools": tools})
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"][2:])
            return f"{where}: {first['msg']}" if where else first["msg"]
    return None


@asynccontextmanager
async def filtered_streams(
    streams: AbstractAsyncContextManager[TransportStreams], tool_filter: InvalidToolFilter
) -> AsyncGenerator[TransportStreams]:
    """The same streams, with the incoming one filtered."""
    async with streams as (incoming, outgoing):
        yield cast("Any", _FilteredStream(incoming, tool_filter)), outgoing


class _FilteredStream:
    def __init__(self, incoming: Any, tool_filter: InvalidToolFilter) -> None:
        self._incoming = incoming
        self._tool_filter = tool_filter

    @property
    def last_context(self) -> Any:
        """The context of the last item, in which the SDK's client carries traces."""
        return getattr(self._incoming, "last_context", None)

    async def receive(self) -> Any:
        return self._tool_filter.filter(await self._incoming.receive())

    async def aclose(self) -> None:
        await self._incoming.aclose()

    def __aiter__(self) -> _FilteredStream:
        return self

    async def __anext__(self) -> Any:
        return self._tool_filter.filter(await self._incoming.__anext__())

    async def __aenter__(self) -> _FilteredStream:
        await self._incoming.__aenter__()
        return self

    async def __aexit__(self, *reason: Any) -> bool | None:
        return await self._incoming.__aexit__(*reason)


MAX_PAGES: Final = 100
"""The maximum number of pages of tools that are requested."""


_LIST_CHANGES: Final[Mapping[str, FeatureChange | None]] = {
    **dict.fromkeys(("ToolListChangedNotification", "ToolsListChanged")),
    **dict.fromkeys(("PromptListChangedNotification", "PromptsListChanged"), PROMPTS_CHANGED),
    **dict.fromkeys(("ResourceListChangedNotification", "ResourcesListChanged"), RESOURCES_CHANGED),
}
"""By the classes of both revisions, which are imported with the first connection only; None for
tools."""
_UPDATES: Final = ("ResourceUpdatedNotification", "ResourceUpdated")


class Connection:
    """The connection of a mounted server. The task that opened it owns it; calls may come from any
    task of the same event loop.
    """

    def __init__(
        self,
        client: Client,
        tool_filter: InvalidToolFilter,
        end: ConnectionEnd,
        wake: asyncio.Event,
        questions: ServerQuestions,
    ) -> None:
        self._client = client
        self._questions = questions
        self._tool_filter = tool_filter
        self._end = end
        self._wake = wake
        self.on_event: Callable[[FeatureChange], None] = lambda change: None
        """Called when the server says that its resources or prompts changed."""

    @property
    def capabilities(self) -> mcp_types.ServerCapabilities:
        """What the server said that it has."""
        return self._client.server_capabilities

    async def ask(
        self, ask: Callable[[Client], Awaitable[T]], asking: AskingCall | None = None
    ) -> T:
        """Ask the server something else than a tool, with questions as in `call`."""
        with self._questions.of(asking) if asking is not None else nullcontext():
            return await ask(self._client)

    def hear(self, message: object) -> None:
        """Take a notification of the server."""
        if type(message).__name__ in _LIST_CHANGES:
            kind = _LIST_CHANGES[type(message).__name__]
            if kind is None:
                self._wake.set()
            else:
                self.on_event(kind)
        elif type(message).__name__ in _UPDATES:
            event: Any = message
            self.on_event(FeatureChange("updated", getattr(event, "uri", None) or event.params.uri))

    @property
    def program(self) -> str | None:
        """What the server says it is: the name and version of its program."""
        info = self._client.server_info
        return None if info is None else f"{info.name} {info.version}"

    @property
    def rejected(self) -> Mapping[str, str]:
        """The invalid tools of the last list, with the reason."""
        return dict(self._tool_filter.rejected)

    async def tools(self) -> list[mcp_types.Tool]:
        """Every tool of the server, page by page."""
        self._tool_filter.rejected.clear()
        tools: list[mcp_types.Tool] = []
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            page = await self._client.list_tools(cursor=cursor)
            tools += page.tools
            if page.next_cursor is None or page.next_cursor == cursor:
                break
            cursor = page.next_cursor
        return tools

    async def call(
        self,
        name: str,
        arguments: dict[str, Any],
        progress: ProgressFnT,
        asking: AskingCall | None = None,
    ) -> mcp_types.CallToolResult:
        """Run a tool, whose questions are those of `asking`; without one there is nobody to ask.
        Raises what the SDK's client does.
        """
        with self._questions.of(asking) if asking is not None else nullcontext():
            return await self._client.call_tool(name, arguments, progress_callback=progress)

    def leave(self) -> None:
        """End the connection from this side."""
        self._end.set("it was closed")

    @property
    def is_over(self) -> bool:
        """Whether the server has disconnected, or has forgotten the session."""
        return self._end.over.is_set()

    async def follow(
        self,
        relist: Callable[[Connection], Awaitable[None]],
        timing: ConnectionTiming,
        on_ping: Callable[[float], None] = lambda seconds: None,
    ) -> None:
        """Call `relist` whenever the tools change, and `on_ping` with the time that each answer to
        a ping took. Raises `ConnectionLost` at the end.
        """
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._listen)
            if timing.ping is not None and self._client.protocol_version in _WITH_PING:
                tasks.start_soon(self._ping, timing.ping, timing, on_ping)
            while not self._end.over.is_set():
                await self._wake.wait()
                self._wake.clear()
                if not self._end.over.is_set():
                    await relist(self)
                    # A server that reports changes all the time is not listed as often.
                    with anyio.move_on_after(timing.relist):
                        await self._end.over.wait()
            tasks.cancel_scope.cancel()
        raise ConnectionLost(self._end.reason)

    async def _ping(
        self, pause: float, timing: ConnectionTiming, on_ping: Callable[[float], None]
    ) -> None:
        """Ask again and again whether the server is there; it hung up when it does not answer."""
        from mcp import MCPError

        while True:
            await anyio.sleep(pause)
            started = anyio.current_time()
            try:
                with anyio.fail_after(timing.timeout):
                    await self._client.session.send_ping()
            except TimeoutError:
                self._end.set(f"it did not answer a ping within {timing.timeout:g} seconds")
                return
            except MCPError:
                # An error is an answer too; the end of the connection is noticed elsewhere.
                pass
            on_ping(anyio.current_time() - started)

    async def _listen(self) -> None:
        """In the newer protocol revision, changes come over a stream that has to be requested."""
        from mcp import MCPError
        from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost

        wanted: dict[str, Any] = {
            f"{kind}_list_changed": True
            for kind in ("tools", "prompts", "resources")
            if getattr(getattr(self.capabilities, kind), "list_changed", False)
        }
        if not wanted:
            return
        try:
            async with self._client.listen(**wanted) as changes:
                async for change in changes:
                    self.hear(change)
        except (MCPError, ListenNotSupportedError):
            # The server does not allow it; its tools are listed again after a reconnection.
            return
        except SubscriptionLost:
            self._end.set("it hung up")


@asynccontextmanager
async def connect(endpoint: ServerEndpoint) -> AsyncGenerator[Connection]:
    """Connect to a server. Raises `ConnectionLost`, or what the SDK's client raises."""
    import mcp_types
    from mcp import Client

    wake = asyncio.Event()
    end, tool_filter, questions = ConnectionEnd(wake), InvalidToolFilter(), ServerQuestions()

    connection: Connection | None = None

    async def on_message(message: object) -> None:
        if connection is not None:
            connection.hear(message)
        elif isinstance(message, mcp_types.ToolListChangedNotification):
            wake.set()

    client = Client(
        filtered_streams(_streams(endpoint, end), tool_filter),
        message_handler=on_message,
        elicitation_callback=questions,
        client_info=mcp_types.Implementation(name="toolcrib", version=__version__),
        # Tools are listed when they may have changed; a cached list would be stale.
        cache=None,
    )
    try:
        async with client:
            # The SDK would check results against the server's own schema in pure Python, in time
            # that the server chooses. The executor checks them, within bounds.
            client.session.validate_tool_result = _accept
            connection = Connection(client, tool_filter, end, wake, questions)
            yield connection
    except Exception as error:
        raise ConnectionLost(end.reason or end.hint) from error


async def _accept(name: str, result: mcp_types.CallToolResult) -> None:
    """Take any result."""


def _streams(
    endpoint: ServerEndpoint, end: ConnectionEnd
) -> AbstractAsyncContextManager[TransportStreams]:
    if isinstance(endpoint, ServerProgram):
        return child_streams(endpoint, end)
    return http_streams(endpoint, end)

"""A connection to a server through the SDK's client, in either protocol revision."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import anyio

from toolcrib._version import __version__
from toolcrib.errors import ConnectionLost
from toolcrib.mcp_client.child import child_streams
from toolcrib.mcp_client.config import ServerEndpoint, ServerProgram
from toolcrib.mcp_client.errors import ConnectionEnd
from toolcrib.mcp_client.invalid_tools import InvalidToolFilter, filtered_streams
from toolcrib.mcp_client.web import http_streams

if TYPE_CHECKING:
    import mcp_types
    from mcp import Client
    from mcp.shared.dispatcher import ProgressFnT

    from toolcrib.mcp_client.config import ConnectionTiming
    from toolcrib.mcp_client.sdk_internals import TransportStreams

MAX_PAGES: Final = 100
"""The maximum number of pages of tools that are requested."""


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
    ) -> None:
        self._client = client
        self._tool_filter = tool_filter
        self._end = end
        self._wake = wake

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
        self, name: str, arguments: dict[str, Any], progress: ProgressFnT
    ) -> mcp_types.CallToolResult:
        """Run a tool. Raises what the SDK's client raises."""
        return await self._client.call_tool(name, arguments, progress_callback=progress)

    def leave(self) -> None:
        """End the connection from this side."""
        self._end.set("it was closed")

    @property
    def is_over(self) -> bool:
        """Whether the server has disconnected, or has forgotten the session."""
        return self._end.over.is_set()

    async def follow(
        self, relist: Callable[[Connection], Awaitable[None]], timing: ConnectionTiming
    ) -> None:
        """Call `relist` whenever the tools change. Raises `ConnectionLost` at the end."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._listen)
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

    async def _listen(self) -> None:
        """In the newer protocol revision, changes come over a stream that has to be requested."""
        from mcp import MCPError
        from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost

        capability = self._client.server_capabilities.tools
        if capability is None or not capability.list_changed:
            return
        try:
            async with self._client.listen(tools_list_changed=True) as changes:
                async for _ in changes:
                    self._wake.set()
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
    end, tool_filter = ConnectionEnd(wake), InvalidToolFilter()

    async def on_message(message: object) -> None:
        if isinstance(message, mcp_types.ToolListChangedNotification):
            wake.set()

    client = Client(
        filtered_streams(_streams(endpoint, end), tool_filter),
        message_handler=on_message,
        client_info=mcp_types.Implementation(name="toolcrib", version=__version__),
        # Tools are listed when they may have changed; a cached list would be stale.
        cache=None,
    )
    try:
        async with client:
            yield Connection(client, tool_filter, end, wake)
    except Exception as error:
        raise ConnectionLost(end.reason or end.hint) from error


def _streams(
    endpoint: ServerEndpoint, end: ConnectionEnd
) -> AbstractAsyncContextManager[TransportStreams]:
    if isinstance(endpoint, ServerProgram):
        return child_streams(endpoint, end)
    return http_streams(endpoint, end)

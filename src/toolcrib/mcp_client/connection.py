"""A connection to a server by the official client, in whichever protocol era the server speaks."""

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
    from mcp.client._transport import TransportStreams
    from mcp.shared.dispatcher import ProgressFnT

    from toolcrib.mcp_client.config import ConnectionTiming

MAX_PAGES: Final = 100
"""How many pages of tools are asked for."""


class Connection:
    """What a mounted server asks of its connection. Belongs to the task that opened it; calls may
    come from any task of the same loop.
    """

    def __init__(
        self,
        client: Client,
        sieve: InvalidToolFilter,
        ending: ConnectionEnd,
        stirred: asyncio.Event,
    ) -> None:
        self._client = client
        self._sieve = sieve
        self._ending = ending
        self._stirred = stirred

    @property
    def rejected(self) -> Mapping[str, str]:
        """What the last list had that is no tool at all, with the reason."""
        return dict(self._sieve.rejected)

    async def tools(self) -> list[mcp_types.Tool]:
        """Every tool of the server, page by page."""
        self._sieve.rejected.clear()
        found: list[mcp_types.Tool] = []
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            page = await self._client.list_tools(cursor=cursor)
            found += page.tools
            if page.next_cursor is None or page.next_cursor == cursor:
                break
            cursor = page.next_cursor
        return found

    async def call(
        self, name: str, arguments: dict[str, Any], progress: ProgressFnT
    ) -> mcp_types.CallToolResult:
        """Run a tool. Raises what the official client raises."""
        return await self._client.call_tool(name, arguments, progress_callback=progress)

    def leave(self) -> None:
        """End it from this side."""
        self._ending.end("it was left")

    @property
    def is_over(self) -> bool:
        """Whether the server has left, or no longer knows us."""
        return self._ending.over.is_set()

    async def follow(
        self, relist: Callable[[Connection], Awaitable[None]], pace: ConnectionTiming
    ) -> None:
        """List the tools anew whenever they change. Raises `ConnectionLost` at the end."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._listen)
            while not self._ending.over.is_set():
                await self._stirred.wait()
                self._stirred.clear()
                if not self._ending.over.is_set():
                    await relist(self)
                    # A server that says all the time that its tools changed is not asked as often.
                    with anyio.move_on_after(pace.relist):
                        await self._ending.over.wait()
            tasks.cancel_scope.cancel()
        raise ConnectionLost(self._ending.reason)

    async def _listen(self) -> None:
        """In the newer era changes come over a stream that has to be asked for."""
        from mcp import MCPError
        from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost

        can = self._client.server_capabilities.tools
        if can is None or not can.list_changed:
            return
        try:
            async with self._client.listen(tools_list_changed=True) as changes:
                async for _ in changes:
                    self._stirred.set()
        except (MCPError, ListenNotSupportedError):
            # It does not let us listen; its tools are looked at when we connect again.
            return
        except SubscriptionLost:
            self._ending.end("it hung up")


@asynccontextmanager
async def connect(reach: ServerEndpoint) -> AsyncGenerator[Connection]:
    """Connect to a server. Raises `ConnectionLost`, or what the official client raises."""
    import mcp_types
    from mcp import Client

    stirred = asyncio.Event()
    ending, sieve = ConnectionEnd(stirred), InvalidToolFilter()

    async def hear(message: object) -> None:
        if isinstance(message, mcp_types.ToolListChangedNotification):
            stirred.set()

    client = Client(
        filtered_streams(_streams(reach, ending), sieve),
        message_handler=hear,
        client_info=mcp_types.Implementation(name="toolcrib", version=__version__),
        # Tools are looked at when they may have changed, and then as they are.
        cache=None,
    )
    try:
        async with client:
            yield Connection(client, sieve, ending, stirred)
    except Exception as error:
        raise ConnectionLost(ending.reason or ending.hint) from error


def _streams(
    reach: ServerEndpoint, ending: ConnectionEnd
) -> AbstractAsyncContextManager[TransportStreams]:
    if isinstance(reach, ServerProgram):
        return child_streams(reach, ending)
    return http_streams(reach, ending)

"""One mounted server: its connection, its tools, its calls, and reconnection."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import anyio

from toolcrib.errors import CallEnded, InvalidTool
from toolcrib.mcp_client.config import ConnectionTiming, ServerEndpoint, endpoint_of, printable_line
from toolcrib.mcp_client.connection import Connection, connect
from toolcrib.mcp_client.errors import call_failure, connection_fault
from toolcrib.mcp_client.results import RemoteHandler, report_progress, tool_result, without_secrets
from toolcrib.mcp_client.tool_list import ServerTools, server_tools
from toolcrib.tools.redaction import Scrubber

if TYPE_CHECKING:
    from toolcrib.mcp_client.config import McpServerConfig
    from toolcrib.tools.context import ToolContext
    from toolcrib.tools.result import ToolResult

logger = logging.getLogger(__name__)

LEAVE_SECONDS: Final = 2.0
"""How long a server may take to hear that we leave."""


class MountedServer:
    """Keeps one connection to a server, in a task of its own. `fault` says why there is none.

    `environ` fills in the variables that the configuration names; None leaves it as it is written.
    `on_change` hears when the tools, or whether they can be called, have changed.
    """

    def __init__(
        self,
        config: McpServerConfig,
        source: str,
        on_change: Callable[[MountedServer], None],
        *,
        environ: Mapping[str, str] | None,
        pace: ConnectionTiming | None = None,
    ) -> None:
        self.config = config
        self.source = source
        self.listing = ServerTools()
        self.fault: str | None = "it is being connected to"
        self._on_change = on_change
        self._environ = environ
        self._pace = pace or ConnectionTiming()
        self._connection: Connection | None = None
        self._hidden = Scrubber([])
        self._scope = anyio.CancelScope()
        self._task: asyncio.Task[None] | None = None
        self._is_tried = asyncio.Event()
        self._is_left = False

    def start(self) -> None:
        """Begin to connect."""
        self._task = asyncio.create_task(self._keep(), name=f"toolcrib {self.source}")

    async def first_try(self) -> None:
        """Wait until it is connected, or the first attempt has failed."""
        await self._is_tried.wait()

    async def close(self) -> None:
        """End the connection, and the program if there is one. Calls that run fail."""
        self._is_left = True
        self._is_tried.set()
        if self._task is None:
            return
        if self._connection is not None:
            # A server that keeps sessions is told that ours is over.
            self._connection.leave()
            await asyncio.wait([self._task], timeout=LEAVE_SECONDS)
        self._scope.cancel()
        await asyncio.wait([self._task])

    async def call(
        self, name: str, promise: str, arguments: Mapping[str, Any], context: ToolContext
    ) -> ToolResult[Any]:
        """Run a tool by its own name. Raises `CallEnded` (unavailable) when the server is away, or
        the tool is no longer what it was when it was offered.
        """
        connection = self._connection
        if connection is None:
            raise CallEnded("unavailable", f"The MCP server {self._name} is away: {self.fault}.")
        if self.listing.promises.get(name) != promise:
            raise CallEnded(
                "unavailable",
                f"The MCP server {self._name} has changed `{context.tool_name}` since it was "
                "offered; look at the tools again.",
            )

        async def tell(progress: float, total: float | None, message: str | None) -> None:
            said = None if message is None else printable_line(message, self._hidden)
            report_progress(context, progress, total, said)

        try:
            answer = await connection.call(name, dict(arguments), tell)
        except Exception as error:
            tool = context.tool_name
            raise call_failure(error, self._name, tool, connection, self._hidden) from error
        result = tool_result(answer, context.tool_name, self.config.terms.max_output_chars)
        return without_secrets(result, self._hidden)

    @property
    def _name(self) -> str:
        return f"`{self.config.name}`"

    async def _keep(self) -> None:
        with self._scope:
            reach, failures = self._reach(), 0
            while reach is not None and not self._is_left:
                self._hidden = reach.hidden
                began = anyio.current_time()
                fault = await self._one_connection(reach)
                self._down(printable_line(fault, reach.hidden))
                was_steady = anyio.current_time() - began >= self._pace.steady
                failures = 0 if was_steady else failures + 1
                await anyio.sleep(self._pace.pause(failures))

    def _reach(self) -> ServerEndpoint | None:
        """Where the server is; None when its configuration has a fault that stays."""
        try:
            return endpoint_of(self.config, self._environ)
        except InvalidTool as error:
            self._down(printable_line(str(error)))
            return None

    async def _one_connection(self, reach: ServerEndpoint) -> str:
        """Connect, and stay until the end of it. Returns the reason of the end."""
        with anyio.CancelScope(deadline=anyio.current_time() + self._pace.patience) as scope:
            try:
                async with connect(reach) as connection:
                    await self._list(connection)
                    scope.deadline = float("inf")
                    await connection.follow(self._list, self._pace)
            except Exception as error:
                return connection_fault(error)
        return f"it did not answer within {self._pace.patience:g} seconds"

    async def _list(self, connection: Connection) -> None:
        with anyio.fail_after(self._pace.patience):
            told = await connection.tools()
        listing = server_tools(
            told,
            connection.rejected,
            self.source,
            self.config.terms,
            lambda name, promise: RemoteHandler(self, name, promise),
        )
        is_news = listing != self.listing or self._connection is not connection
        self.listing, self._connection, self.fault = listing, connection, None
        if is_news:
            self._tell()

    def _down(self, fault: str) -> None:
        is_news = not self._is_left and (self.fault != fault or self._connection is not None)
        self._connection, self.fault = None, fault
        if is_news:
            logger.warning("the MCP server %r is away: %s", self.config.name, fault)
            self._tell()

    def _tell(self) -> None:
        self._is_tried.set()
        try:
            self._on_change(self)
        except Exception:
            # Whoever fails to follow must not cost the others their connection.
            logger.exception("a change of the MCP server %r was not followed", self.config.name)

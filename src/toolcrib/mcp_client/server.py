"""One mounted server: its connection, its tools, its calls, and reconnection."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import anyio

from toolcrib.errors import CallEnded, InvalidTool
from toolcrib.mcp_client.config import (
    ConnectionTiming,
    ServerAddress,
    ServerEndpoint,
    endpoint_of,
    printable_line,
    server_identity,
)
from toolcrib.mcp_client.connection import Connection, connect
from toolcrib.mcp_client.errors import call_failure, connection_fault
from toolcrib.mcp_client.remote_features import RemoteFeatures
from toolcrib.mcp_client.results import RemoteHandler, report_progress, tool_result, without_secrets
from toolcrib.mcp_client.running_calls import AskingCall
from toolcrib.mcp_client.server_history import ServerHistory
from toolcrib.mcp_client.server_requests import ServerRequests
from toolcrib.mcp_client.sign_in_tool import SignInNotice, is_notice, sign_in_tools
from toolcrib.mcp_client.tool_list import RemoteTools, remote_tools
from toolcrib.tools.redaction import Scrubber

if TYPE_CHECKING:
    from toolcrib.clock import Clock
    from toolcrib.egress import EgressPolicy
    from toolcrib.mcp_client.config import McpServerConfig
    from toolcrib.mcp_client.request_credential import RequestCredential
    from toolcrib.tools.context import ToolContext
    from toolcrib.tools.identity import HandlerIdentity
    from toolcrib.tools.result import ToolResult
    from toolcrib.tools.tool import Tool

logger = logging.getLogger(__name__)

CLOSE_SECONDS: Final = 2.0
"""How long a server may take to end the connection when it is closed."""


class MountedServer:
    """Keeps one connection to a server open, in a task of its own. While there is none, `fault` is
    the reason.

    `environ` fills in the variables of the configuration; None leaves them as they are. `egress`
    bounds the address of a server that a caller chose. `on_change` is called when the tools, or
    whether they can be called, have changed. The connection is that of `principal` alone, if one is
    named; `credential` goes with each request.
    """

    def __init__(
        self,
        config: McpServerConfig,
        source: str,
        on_change: Callable[[MountedServer], None],
        *,
        environ: Mapping[str, str] | None,
        egress: EgressPolicy | None = None,
        timing: ConnectionTiming | None = None,
        clock: Clock = time.time,
        principal: str | None = None,
        credential: RequestCredential | None = None,
    ) -> None:
        self.principal = principal
        self._credential = credential
        self.history = ServerHistory(clock)
        self.config = config
        self.source = source
        self.tools = RemoteTools()
        self.features = RemoteFeatures(config, source)
        """Its resources and prompts."""
        self.fault: str | None = "it is being connected to"
        self._was_away = False
        """Whether somebody was told that it is not connected."""
        self._on_change = on_change
        self._environ = environ
        self._egress = egress
        self._timing = timing or ConnectionTiming()
        self._connection: Connection | None = None
        self._identity: HandlerIdentity | None = None
        self._scrubber = Scrubber([])
        self._scope = anyio.CancelScope()
        self._task: asyncio.Task[None] | None = None
        self._was_attempted = asyncio.Event()
        self._is_closed = False

    def tools_for(self, context: ToolContext) -> list[Tool[Any, Any]]:
        """The tools that the server has now, for a toolset that it is part of."""
        return [] if self._connection is None else list(self.tools.served.values())

    def start(self) -> None:
        """Start to connect."""
        self._task = asyncio.create_task(self._stay_connected(), name=f"toolcrib {self.source}")

    async def first_attempt(self) -> None:
        """Wait until it is connected, or the first attempt has failed."""
        await self._was_attempted.wait()

    async def close(self) -> None:
        """End the connection, and the server's program if there is one. Running calls fail."""
        self._is_closed = True
        self._was_attempted.set()
        self.features.subscriptions.disconnected()
        if self._task is None:
            return
        if self._connection is not None:
            # A server that keeps sessions hears that this one is over.
            self._connection.leave()
            await asyncio.wait([self._task], timeout=CLOSE_SECONDS)
        self._scope.cancel()
        await asyncio.wait([self._task])

    async def call(
        self, handler: RemoteHandler, arguments: Mapping[str, Any], context: ToolContext
    ) -> ToolResult[Any]:
        """Run a tool by its own name. Raises `CallEnded` (unavailable) when the server is not
        connected, or what it is or declares has changed since the session got the tool.
        """
        connection = self._connection
        if connection is None:
            raise CallEnded(
                "unavailable", f"The MCP server {self._name} is not connected: {self.fault}."
            )
        name = handler.name
        is_same = self.tools.digests.get(name) == handler.digest
        if not is_same or self._identity != handler.identity:
            raise CallEnded(
                "unavailable",
                f"The MCP server {self._name} has changed `{context.tool_name}` since the session "
                "got it; list the tools again.",
            )

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            text = None if message is None else printable_line(message, self._scrubber)
            if asking.client is not None:
                # Events of progress are coalesced; a client gets every report.
                await asking.client.report(progress, total, text)
            report_progress(context, progress, total, text)

        asking = AskingCall(context, self._question_text)
        started = anyio.current_time()
        try:
            answer = await connection.call(name, dict(arguments), on_progress, asking)
        except Exception as error:
            self._check_credential(started)
            raise call_failure(error, self._name, asking, connection, self._scrubber) from error
        self.features.note_links(context.session_id, answer.content)
        result = tool_result(answer, context.tool_name, self.config.terms.max_output_chars)
        return without_secrets(result, self._scrubber)

    def _check_credential(self, started: float) -> None:
        """Raise `CallEnded` when a request since `started` was refused for want of a credential."""
        trouble = self._trouble_since(started)
        if trouble is not None:
            raise CallEnded(
                "unavailable", f"The MCP server {self._name} did not let the call in: {trouble}."
            ) from None

    def _trouble_since(self, started: float) -> str | None:
        return None if self._credential is None else self._credential.trouble_since(started)

    def _question_text(self, message: str) -> str:
        return f"The MCP server {self._name} asks: {self._scrubber.scrub(message)}"

    @property
    def _name(self) -> str:
        return f"`{self.config.name}`"

    async def _stay_connected(self) -> None:
        with self._scope:
            endpoint, failures = self._endpoint(), 0
            while endpoint is not None and not self._is_closed:
                self._scrubber = endpoint.scrubber
                started = anyio.current_time()
                fault = await self._run_connection(endpoint)
                self._disconnected(printable_line(fault, endpoint.scrubber))
                was_stable = anyio.current_time() - started >= self._timing.stable_after
                failures = 0 if was_stable else failures + 1
                pause = self._timing.pause(failures)
                self.history.note_pause(pause)
                await self._pause(pause, started)

    async def _pause(self, seconds: float, started: float) -> None:
        """Wait before the next attempt; a credential that comes meanwhile ends the wait."""
        if self._credential is None or self._trouble_since(started) is None:
            await anyio.sleep(seconds)
        else:
            await self._credential.news(seconds)

    def _endpoint(self) -> ServerEndpoint | None:
        """How to reach the server; None when its configuration is invalid."""
        try:
            endpoint = endpoint_of(self.config, self._environ, self._egress, self.principal)
            if self._credential is None or not isinstance(endpoint, ServerAddress):
                return endpoint
            self._credential.scrubber.base = endpoint.scrubber
            return replace(endpoint, auth=self._credential.auth, scrubber=self._credential.scrubber)
        except InvalidTool as error:
            self._disconnected(printable_line(str(error)), is_final=True)
            return None

    async def _run_connection(self, endpoint: ServerEndpoint) -> str:
        """Connect, and wait until the connection ends. Returns the reason."""
        started = anyio.current_time()
        with anyio.CancelScope(deadline=anyio.current_time() + self._timing.timeout) as scope:
            try:
                requests = ServerRequests(
                    self.config.name, self.config.terms.requests, endpoint.scrubber
                )
                async with connect(endpoint, requests) as connection:
                    await self._list(connection)
                    scope.deadline = float("inf")
                    await connection.follow(self._list, self._timing)
            except Exception as error:
                return self._trouble_since(started) or connection_fault(error)
        return f"it did not answer within {self._timing.timeout:g} seconds"

    async def _list(self, connection: Connection) -> None:
        started = anyio.current_time()
        with anyio.fail_after(self._timing.timeout):
            listed = await connection.tools()
        self.history.latency_seconds = anyio.current_time() - started
        identity = self._identify(connection)
        # In a thread: a server may list many schemas, which are measured and compiled.
        tools = await asyncio.to_thread(
            remote_tools,
            listed,
            connection.rejected,
            self.source,
            self.config.terms,
            lambda name, digest: RemoteHandler(self, name, digest, identity),
        )
        is_change = tools != self.tools or self._connection is not connection
        if self._was_away and self._connection is not connection:
            self._was_away = False
            logger.warning("the MCP server %r is back", self.config.name)
        before = RemoteTools() if is_notice(self.tools) else self.tools
        self.history.note_tools(before, tools)
        if self._connection is not connection:
            self.history.note_connected(self._program(connection))
        self.tools, self._connection, self.fault = tools, connection, None
        self._identity = identity
        self.features.connected(connection, identity, self._scrubber)
        if is_change:
            self._notify()

    def _identify(self, connection: Connection) -> HandlerIdentity:
        return server_identity(self.config, self._environ, self._program(connection))

    def _program(self, connection: Connection) -> str | None:
        program = connection.program
        return None if program is None else printable_line(program, self._scrubber)

    def _disconnected(self, fault: str, *, is_final: bool = False) -> None:
        is_change = not self._is_closed and (self.fault != fault or self._connection is not None)
        self._connection, self.fault = None, fault
        self.features.disconnected()
        how = None if self._credential is None else self._credential.how_to_sign_in
        if how is not None and not self.tools.served:
            notice = SignInNotice(self.config.name, how)
            self.tools = sign_in_tools(notice, self.config.terms.prefix, self.source)
        if not self._is_closed:
            self.history.note_fault(fault, is_final=is_final)
        if is_change:
            self._was_away = True
            logger.warning("the MCP server %r is not connected: %s", self.config.name, fault)
            self._notify()

    def _notify(self) -> None:
        self._was_attempted.set()
        try:
            self._on_change(self)
        except Exception:
            # A failing listener must not end the connection, which others use.
            logger.exception("the listener of the MCP server %r failed", self.config.name)

"""`AsyncClient`: the typed operations of a server, for programs with an event loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolcrib.client.address import server_location
from toolcrib.runtime.chat import ChatOperations
from toolcrib.runtime.session_events import SessionEvents

if TYPE_CHECKING:
    from toolcrib.client.connected_tools import ConnectedTools
    from toolcrib.client.event_source import StreamedEnvelopes
    from toolcrib.client.http_requests import Sleep
    from toolcrib.tools.tool import Tool

logger = logging.getLogger(__name__)


class AsyncClient(ChatOperations):
    """A client of the server at `url`: the same methods as a runtime in the process has. Use it as
    an async context manager, or `aclose` it.

    The token is `token`, or that in `token_file`; else that of `TOOLCRIB_TOKEN` or, for a server on
    this machine, of the owner's token file. `timeout` is how many seconds an answer may take, None
    for any time; `reconnect_seconds` how long events wait for a server that is away. Certificates
    are checked against the system's, or those in `ca_file`. A `proxy` is used when it is named.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        token_file: Path | str | None = None,
        *,
        timeout: float | None = 600.0,
        reconnect_seconds: float = 60.0,
        ca_file: Path | str | None = None,
        proxy: str | None = None,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        location = server_location(url, token, token_file, ca_file=ca_file, proxy=proxy)
        # Checked first: a missing library is told with the command that installs it.
        from toolcrib.client.http_requests import HttpRequests

        self._location = location
        self._requests = HttpRequests(location, timeout=timeout, sleep=sleep)
        self._reconnect_seconds = reconnect_seconds
        self._sleep = sleep
        if location.is_exposed:
            logger.warning("the token goes to %s unencrypted; use https", location.name)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._location.url!r})"

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._requests.aclose()

    async def run_operation(self, name: str, params: Mapping[str, Any]) -> Any:
        """Run an operation by its name."""
        return await self._requests.run(name, params)

    def events(self, session_id: str, after: int = 0) -> SessionEvents:
        """The events of a session after the record `after`, then those that happen. A lost
        connection is made again, and no event is missed or comes twice.
        """
        from toolcrib.client.event_source import StreamedEnvelopes

        async def follow(seq: int) -> StreamedEnvelopes:
            source = StreamedEnvelopes(
                self._requests,
                session_id,
                seq,
                resume=self.resume_session,
                reconnect_seconds=self._reconnect_seconds,
            )
            await source.connect()
            return source

        return SessionEvents(follow, after)

    def client_tools(
        self, session_id: str, tools: Sequence[Tool[Any, Any] | Callable[..., Any]]
    ) -> ConnectedTools:
        """Tools of this program as tools of a session, while the context manager is entered."""
        from toolcrib.client.connected_tools import ConnectedTools

        return ConnectedTools(self._location, session_id, tools, sleep=self._sleep)

    async def run_client_tools(
        self, session_id: str, tools: Sequence[Tool[Any, Any] | Callable[..., Any]]
    ) -> None:
        """Run tools of this program for a session until this is cancelled. Raises `Refused` when
        the server does not take them.
        """
        async with self.client_tools(session_id, tools) as connected:
            await connected.wait()

"""`Client`: the typed operations of a server, for programs without an event loop."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from toolcrib.client.async_client import AsyncClient
from toolcrib.portal import Portal
from toolcrib.runtime.blocking_chat import BlockingChat
from toolcrib.runtime.blocking_operations import BlockingOperations

if TYPE_CHECKING:
    from toolcrib.tools.tool import Tool

T = TypeVar("T")


class Client(BlockingOperations):
    """A client of the server at `url`, which waits for every answer. Use it as a context manager,
    or `close` it. The parameters are those of `AsyncClient`.

    The connections and client tools live in one thread of their own.
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
    ) -> None:
        self._client = AsyncClient(
            url,
            token,
            token_file,
            timeout=timeout,
            reconnect_seconds=reconnect_seconds,
            ca_file=ca_file,
            proxy=proxy,
        )
        self._portal = Portal(name="toolcrib-client")
        super().__init__(self._client, self._complete)

    def __repr__(self) -> str:
        return repr(self._client).replace("AsyncClient", type(self).__name__, 1)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections, and end the thread."""
        self._portal.close(self._client.aclose, for_good=True)

    def chat(self, session_id: str | None = None) -> BlockingChat:
        """A chat in a session of the server; a new session when there is none of that id."""
        return BlockingChat(self._complete(self._client.chat(session_id)), self._complete)

    @contextmanager
    def client_tools(
        self, session_id: str, tools: Sequence[Tool[Any, Any] | Callable[..., Any]]
    ) -> Generator[None]:
        """Tools of this program as tools of a session, within the block."""
        connected = self._client.client_tools(session_id, tools)
        self._complete(connected.__aenter__())
        try:
            yield
        finally:
            self._complete(connected.__aexit__(None, None, None))

    def _complete(self, work: Coroutine[Any, Any, T], /) -> T:
        return self._portal.run_from_thread(work)

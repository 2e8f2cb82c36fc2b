"""A provider served over HTTP on a real socket, behind the gate that the runtime has."""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from toolcrib.errors import Refused, UsageError
from toolcrib.local.http.answering import MAX_BODY
from toolcrib.transports.http.gate import Gate, principal_of, refuse
from toolcrib.transports.http.stalled import STALL_SECONDS, impatient
from toolcrib.transports.security import Tokens, default_token_file, read_or_make_tokens
from toolcrib.transports.security_origins import LOOPBACK_HOSTS, check_bind, doors

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from toolcrib.local.provider import LocalProvider

DEFAULT_PORT: Final = 8421
DRAIN_SECONDS: Final = 5
"""How long responses that are being made may go on when the server stops."""

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})


class ProviderServer:
    """Listens from `async with` on. The provider stays its maker's, who has started it.

    Without `tokens` those of `token_file` are taken, which is made when it is not there; then only
    loopback may be listened on. Who holds a token that may only `read` can ask for nothing new.
    """

    def __init__(
        self,
        provider: LocalProvider,
        *,
        host: str = "127.0.0.1",
        port: int = DEFAULT_PORT,
        tokens: Tokens | None = None,
        token_file: Path | None = None,
        allowed_hosts: Iterable[str] | None = None,
        allowed_origins: Iterable[str] | None = None,
        stall_seconds: float = STALL_SECONDS,
    ) -> None:
        check_bind(host, has_explicit_token=tokens is not None)
        self._host, self._port = host, port
        gate = Gate(
            _scoped(provider.app),
            tokens=tokens or read_or_make_tokens(token_file or default_token_file()),
            doors=doors(allowed_hosts or _own_names(host), allowed_origins),
        )
        config = uvicorn.Config(
            gate,
            http=impatient(HttpToolsProtocol, stall_seconds),
            ws=impatient(WebSocketsSansIOProtocol, stall_seconds),
            ws_max_size=MAX_BODY,
            lifespan="off",
            access_log=False,
            log_config=None,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=DRAIN_SECONDS,
        )
        self._server = _Server(config)
        self._serving: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """The base URL for clients. With port 0 it is known once the server listens."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._port}/v1"

    async def __aenter__(self) -> ProviderServer:
        listening = _listen(self._host, self._port)
        self._port = listening.getsockname()[1]
        self._serving = asyncio.ensure_future(self._server.serve(sockets=[listening]))
        await self._server.is_ready.wait()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stop()
        await self.wait()

    def stop(self) -> None:
        """Take nothing new, and end when what is being answered has ended or its time is up."""
        self._server.should_exit = True

    async def wait(self) -> None:
        """Wait until it has stopped."""
        if self._serving is not None:
            await self._serving


async def serve_provider(
    provider: LocalProvider,
    host: str = "127.0.0.1",
    port: int = DEFAULT_PORT,
    *,
    tokens: Tokens | None = None,
    token_file: Path | None = None,
    allowed_hosts: Iterable[str] | None = None,
    allowed_origins: Iterable[str] | None = None,
    on_ready: Callable[[str], None] | None = None,
) -> None:
    """Serve a started provider until SIGINT or SIGTERM. `on_ready` gets the base URL."""
    server = ProviderServer(
        provider,
        host=host,
        port=port,
        tokens=tokens,
        token_file=token_file,
        allowed_hosts=allowed_hosts,
        allowed_origins=allowed_origins,
    )
    with _stopped_by_signals(server.stop):
        async with server:
            if on_ready is not None:
                on_ready(server.url)
            await server.wait()


def _scoped(app: ASGIApp) -> ASGIApp:
    """What is behind the gate: who may only read cannot have anything run."""

    async def scoped(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if scope["type"] != "lifespan":
                is_reading = scope["type"] == "http" and scope["method"] in _READING
                needed = "read" if is_reading else "call"
                principal_of(scope).check(needed, "this request")
        except Refused as refused:
            await refuse(scope, send, refused)
            return
        await app(scope, receive, send)

    return scoped


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.is_ready = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        # Uvicorn raises a signal again when it is done, which would end the process before the
        # provider has closed.
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.is_ready.set()


@contextmanager
def _stopped_by_signals(stop: Callable[[], None]) -> Generator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    for each in _SIGNALS:
        loop.add_signal_handler(each, stop)
    try:
        yield
    finally:
        for each in _SIGNALS:
            loop.remove_signal_handler(each)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise UsageError(f"cannot listen on {host} port {port}: {error.strerror}") from None


def _own_names(host: str) -> tuple[str, ...]:
    own = f"[{host}]" if ":" in host else host
    return LOOPBACK_HOSTS if own in ("0.0.0.0", "[::]") else (*LOOPBACK_HOSTS, own)

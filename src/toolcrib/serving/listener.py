"""An ASGI application on a socket: it listens, with or without TLS, and drains when it stops."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import uvicorn

from toolcrib.errors import UsageError
from toolcrib.serving.connections import ConnectionTable, ListenerLimits
from toolcrib.serving.stop_signals import on_stop_signals
from toolcrib.serving.uvicorn_server import UvicornServer, protocols

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from toolcrib.serving.access import Access

_log = logging.getLogger(__name__)

_CERTIFICATE_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """The certificate of a server, with the certificates between it and its authority, and its
    private key, both in PEM.
    """

    certificate: Path
    key: Path


class TlsContext:
    """The TLS of a server: version 1.2 or newer, with the certificate that the files have now. A
    changed certificate is for new connections; one that cannot be used changes nothing.
    """

    def __init__(self, files: TlsFiles) -> None:
        self._files = files
        self._stamp = self._stamp_now()
        self.context = self._load()

    def reload_if_changed(self) -> None:
        """Load the files again when they have changed."""
        stamp = self._stamp_now()
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            # A chain that does not fit its key would spoil the context in use.
            self._load()
        except UsageError as error:
            _log.error("the certificate was not loaded again, the last one stays: %s", error)
            return
        self.context.load_cert_chain(self._files.certificate, self._files.key)
        _log.info("the certificate %s was loaded again", self._files.certificate)

    def _load(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
        context.set_alpn_protocols(["http/1.1"])
        try:
            # An encrypted key would be asked for on the terminal.
            context.load_cert_chain(self._files.certificate, self._files.key, password=_no_password)
        except (OSError, ValueError) as error:
            text = getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)
            raise UsageError(
                f"the certificate {self._files.certificate} and the key {self._files.key} cannot "
                f"be used: {text}"
            ) from None
        return context

    def _stamp_now(self) -> tuple[tuple[int, int] | None, ...]:
        return tuple(_stamp_of(path) for path in (self._files.certificate, self._files.key))


def _no_password() -> str:
    raise ValueError("the key is encrypted; give one without a password")


def _stamp_of(path: Path) -> tuple[int, int] | None:
    try:
        facts = os.stat(path)
    except OSError:
        return None
    return facts.st_ino, facts.st_mtime_ns


class Listener:
    """Serves an application from `async with` on, and drains when the block ends.

    `before_end` is awaited when the server no longer accepts connections and the open ones have
    not been closed yet.
    """

    def __init__(
        self,
        app: ASGIApp,
        host: str,
        port: int,
        *,
        max_message: int,
        drain_seconds: float,
        limits: ListenerLimits | None = None,
        before_end: Callable[[], Awaitable[None]] | None = None,
        access: Access | None = None,
        tls: TlsFiles | None = None,
    ) -> None:
        self._host, self._port = host, port
        self._access = access
        self._tls = None if tls is None else TlsContext(tls)
        own_tls = self._tls
        limits = limits or ListenerLimits()
        table = ConnectionTable(limits, None if access is None else access.proxies.trusts)
        http, websocket = protocols(limits, table)
        config = uvicorn.Config(
            app,
            http=http,
            ws=websocket,
            timeout_keep_alive=limits.keep_alive_seconds,
            ws_max_size=max_message,
            lifespan="off",
            access_log=False,
            log_config=None,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=max(1, round(drain_seconds)),
            ssl_context_factory=None if own_tls is None else lambda _, __: own_tls.context,
        )
        self._server = UvicornServer(config, before_end, limits, table)
        self._serving: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def url(self) -> str:
        """The base URL. With port 0, the port is known once the server listens."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{'http' if self._tls is None else 'https'}://{host}:{self._port}"

    @property
    def own_url(self) -> str:
        """The base URL for a browser on this machine: one that listens on every address is reached
        by loopback.
        """
        every = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "": "127.0.0.1"}
        scheme, host = ("http" if self._tls is None else "https"), self._host
        bracketed = f"[{host}]" if ":" in host else host
        return f"{scheme}://{every.get(host, bracketed)}:{self._port}"

    @property
    def is_stopping(self) -> bool:
        """Whether it was told to stop."""
        return self._server.should_exit

    async def __aenter__(self) -> Self:
        server_socket = listening_socket(self._host, self._port)
        self._port = server_socket.getsockname()[1]
        self._serving = asyncio.ensure_future(self._server.serve(sockets=[server_socket]))
        await self._server.is_ready.wait()
        if self._access is not None:
            await self._access.start()
        self._watch_certificate()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stop()
        await self.wait()
        if self._timer is not None:
            self._timer.cancel()
        if self._access is not None:
            await self._access.close()

    def _watch_certificate(self) -> None:
        if self._tls is None:
            return
        if self._timer is not None:
            self._tls.reload_if_changed()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(_CERTIFICATE_SECONDS, self._watch_certificate)

    def stop(self) -> None:
        """Accept nothing new, and end when open requests are done or the drain time is over."""
        self._server.should_exit = True

    async def wait(self) -> None:
        """Wait until the server has stopped."""
        if self._serving is not None:
            await self._serving

    async def until_stopped(self, on_ready: Callable[[str], None] | None = None) -> None:
        """Serve until SIGINT or SIGTERM, then drain. `on_ready` gets the URL."""
        with on_stop_signals(self.stop):
            async with self:
                if on_ready is not None:
                    on_ready(self.url)
                await self.wait()


def listening_socket(host: str, port: int) -> socket.socket:
    """A socket that listens. Its connections send at once: asyncio sets that only on sockets that
    name their protocol, and a client that keeps its connection would wait 40 ms for each answer.
    Raises `UsageError`.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        server_socket = socket.create_server((host, port), family=family)
        server_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return server_socket
    except OSError as error:
        is_taken = error.errno == errno.EADDRINUSE
        text = "another program has it; choose another, or 0 for any free one"
        reason = text if is_taken else error.strerror
        raise UsageError(f"cannot listen on {host} port {port}: {reason}") from None

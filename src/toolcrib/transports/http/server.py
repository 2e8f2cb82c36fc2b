"""A runtime served over HTTP on a socket."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, Self, Unpack

from toolcrib.runtime.principal import OWNER
from toolcrib.serving.access import AccessOptions, create_access
from toolcrib.serving.connections import ListenerLimits
from toolcrib.serving.health import Readiness
from toolcrib.serving.listener import Listener, TlsFiles
from toolcrib.serving.replica_address import checked_replica_url, listener_url
from toolcrib.serving.replica_credential import PURPOSE, ReplicaCredential
from toolcrib.serving.request_log import ServerWatch
from toolcrib.store.shared_store import is_shared
from toolcrib.store.store import ask_store
from toolcrib.transports.http.accounts.accounts import owner_link
from toolcrib.transports.http.app import create_routes
from toolcrib.transports.http.connections import Connections

if TYPE_CHECKING:
    from toolcrib.runtime.runtime import Runtime
    from toolcrib.telemetry.prometheus import PrometheusMetrics
    from toolcrib.transports.http.replica_link import HttpReplicaLink
    from toolcrib.transports.mcp.server import McpServer


DEFAULT_PORT: Final = 8420


class HttpServer(Listener):
    """Serves a started runtime from `async with` on, and drains when the block ends. The caller
    closes the runtime. The access options say who may use it; without them, the owner. With
    `access_log` every request is logged; with `metrics` they are counted, and `/metrics` is there.
    With `console`, browsers get the console at `/`. On a store that several share, `replica_url` is
    where other replicas reach it; by default where it listens.
    """

    def __init__(
        self,
        runtime: Runtime,
        *,
        host: str = "127.0.0.1",
        port: int = DEFAULT_PORT,
        heartbeat: float = 15.0,
        limits: ListenerLimits | None = None,
        mcp: McpServer | None = None,
        tls: TlsFiles | None = None,
        access_log: bool = False,
        metrics: PrometheusMetrics | None = None,
        console: bool = True,
        replica_url: str | None = None,
        **access_options: Unpack[AccessOptions],
    ) -> None:
        self._replica_url: str | None = None
        self.credential: ReplicaCredential | None = None
        """What requests between replicas are signed with; None unless the store is shared."""
        self._link: HttpReplicaLink | None = None
        if is_shared(runtime.store):
            keys = runtime.store.derived_keys(PURPOSE)
            self.credential = ReplicaCredential(keys, runtime.store.replica_id)
            self._replica_url = (
                None if replica_url is None else checked_replica_url(replica_url)
            ) or listener_url(host, "")
        access = create_access(
            host,
            access_options,
            replica_url=self._replica_url,
            store=runtime.store if is_shared(runtime.store) else None,
        )
        self.access = access
        self.readiness = Readiness(self._is_ready, runtime.store)
        self._runtime = runtime
        watch = ServerWatch(self.readiness, access_log, metrics)
        connections = Connections(heartbeat=heartbeat, keeps_tasks=True, limits=limits)
        app = create_routes(
            runtime, access, connections, mcp, watch, console=console, credential=self.credential
        )
        drain = runtime.config.drain_seconds
        super().__init__(
            app,
            host,
            port,
            max_message=runtime.config.max_payload_bytes,
            drain_seconds=drain,
            limits=limits,
            before_end=partial(connections.close, drain),
            access=access,
            tls=tls,
        )

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        if self.access.browsers.public_url is None:
            self._runtime.gateway.serve_at(self.own_url)
        store = self._runtime.store
        if is_shared(store) and self.credential is not None:
            from toolcrib.transports.http.replica_link import HttpReplicaLink

            self._link = HttpReplicaLink(self.credential)
            self._runtime.link_replicas(self._link, self._link)
            self._runtime.client_answers.link = self._link
            # From here on others forward requests, which are answered.
            await ask_store(store, store.join, self._replica_url or self.url)
        return self

    async def __aexit__(self, *details: object) -> None:
        await super().__aexit__(*details)
        if self._link is not None:
            self._runtime.link_replicas(None)
            self._runtime.client_answers.link = None
            await self._link.close()

    def stop(self) -> None:
        """Accept nothing new, and let other replicas go on with what runs here."""
        super().stop()
        self._runtime.start_draining()

    def sign_in_link(self) -> str:
        """A link that signs in the owner in a browser: once, within ten minutes. Raises
        `UsageError` when the owner has no token here.
        """
        return owner_link(self.access, OWNER, self.access.browsers.public_url or self.own_url)

    def _is_ready(self) -> bool:
        return self._runtime.is_ready and not self.is_stopping


async def serve_http(
    runtime: Runtime,
    host: str = "127.0.0.1",
    port: int = DEFAULT_PORT,
    *,
    on_ready: Callable[[str], None] | None = None,
    limits: ListenerLimits | None = None,
    mcp: McpServer | None = None,
    tls: TlsFiles | None = None,
    access_log: bool = False,
    metrics: PrometheusMetrics | None = None,
    console: bool = True,
    replica_url: str | None = None,
    **access_options: Unpack[AccessOptions],
) -> None:
    """Serve a started runtime until SIGINT or SIGTERM, then drain. `on_ready` gets the URL."""
    server = HttpServer(
        runtime,
        host=host,
        port=port,
        limits=limits,
        mcp=mcp,
        tls=tls,
        access_log=access_log,
        metrics=metrics,
        console=console,
        replica_url=replica_url,
        **access_options,
    )
    await server.until_stopped(on_ready)

"""`/metrics`: what Prometheus scrapes of a runtime, for auditors and admins.

It is served beside the API, behind the same logins, and on a port of its own if the host wants
one. There, on loopback, whoever can connect may read; elsewhere the logins count too.
"""

from __future__ import annotations

import time
from itertools import islice
from typing import TYPE_CHECKING, Final

from toolcrib.errors import Refused
from toolcrib.serving.auth import principal_of, read_headers, refuse
from toolcrib.serving.health import HealthMiddleware, Readiness
from toolcrib.serving.listener import Listener
from toolcrib.serving.origins import AllowedOrigins, is_loopback, own_hosts
from toolcrib.serving.refusals import HttpRefused, send_bytes, send_refusal
from toolcrib.store.store import ask_store, every
from toolcrib.telemetry.prometheus import CONTENT_TYPE

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from toolcrib.runtime.principal import Role
    from toolcrib.runtime.runtime import Runtime
    from toolcrib.serving.access import Access
    from toolcrib.serving.listener import TlsFiles
    from toolcrib.store.store import Store
    from toolcrib.telemetry.prometheus import PrometheusMetrics

METRICS_PATH: Final = "/metrics"
MOST_WAITING: Final = 1_000
"""How many waiting approvals are counted."""

_READERS: Final[tuple[Role, ...]] = ("auditor",)
_DRAIN_SECONDS: Final = 1.0
_MAX_MESSAGE: Final = 65_536


class MetricsEndpoint:
    """Answers a scrape with the metrics as they are now. An ASGI application; it lets in whoever
    reaches it.
    """

    def __init__(self, metrics: PrometheusMetrics, runtime: Runtime, readiness: Readiness) -> None:
        self._metrics = metrics
        self._runtime = runtime
        self._readiness = readiness

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        is_ready = await self._readiness.check()
        waiting = 0
        if is_ready:
            waiting = await ask_store(self._runtime.store, _count_waiting, self._runtime.store)
        state = self._runtime.state
        self._metrics.set_readiness(is_ready=is_ready, write_seconds=self._readiness.write_seconds)
        self._metrics.set_server_state(
            open_sessions=state.open_sessions, waiting=waiting, server_faults=state.server_faults
        )
        await send_bytes(send, 200, self._metrics.text(), CONTENT_TYPE)


def _count_waiting(store: Store) -> int:
    store.expire(time.time())
    pending = every(lambda cursor: store.approvals(state="pending", cursor=cursor))
    return sum(1 for _ in islice(pending, MOST_WAITING))


class MetricsForAuditors:
    """The endpoint behind a login: it answers auditors and admins. An ASGI application."""

    def __init__(self, endpoint: MetricsEndpoint) -> None:
        self._endpoint = endpoint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            principal_of(scope).check(_READERS, METRICS_PATH)
        except Refused as refused:
            await send_refusal(send, refused)
            return
        await self._endpoint(scope, receive, send)


class MetricsServer(Listener):
    """Serves the metrics and the health checks on a port of their own."""

    def __init__(
        self,
        endpoint: MetricsEndpoint,
        readiness: Readiness,
        access: Access,
        *,
        host: str,
        port: int,
        tls: TlsFiles | None = None,
    ) -> None:
        app: ASGIApp
        if is_loopback(host):
            app = _OwnHostOnly(_MetricsOnly(endpoint), AllowedOrigins.of(own_hosts(host), None))
        else:
            app = access.protect(_MetricsOnly(MetricsForAuditors(endpoint)))
        super().__init__(
            HealthMiddleware(app, is_ready=readiness.check),
            host,
            port,
            max_message=_MAX_MESSAGE,
            drain_seconds=_DRAIN_SECONDS,
            tls=tls,
        )


class _MetricsOnly:
    def __init__(self, endpoint: ASGIApp) -> None:
        self._endpoint = endpoint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != METRICS_PATH:
            refused = Refused("not_found", f"there is nothing at this path; see {METRICS_PATH}")
            await refuse(scope, send, refused)
        elif scope["method"] != "GET":
            await refuse(scope, send, HttpRefused(405, "not_found", "only GET is allowed here"))
        else:
            await self._endpoint(scope, receive, send)


class _OwnHostOnly:
    """Refuses a page that points its own name at this machine."""

    def __init__(self, app: ASGIApp, allowed: AllowedOrigins) -> None:
        self._app = app
        self._allowed = allowed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            headers = read_headers(scope["headers"])
            host, origin = headers.get(b"host"), headers.get(b"origin")
            self._allowed.check(
                None if host is None else host.decode("latin-1"),
                None if origin is None else origin.decode("latin-1"),
                scheme=scope.get("scheme", "http"),
            )
        except Refused as refused:
            await refuse(scope, send, refused)
            return
        await self._app(scope, receive, send)

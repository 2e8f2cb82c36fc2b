"""The log of requests: who asked for what, what came of it, and how long it took.

Paths are logged as the templates of their routes, and queries not at all: both may hold what is
nobody else's business. Every request has an id, which the response repeats.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from starlette.middleware import Middleware
from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute

from toolcrib.logs import LogFacts, log_facts, request_facts, without_credentials
from toolcrib.serving.auth import PRINCIPAL
from toolcrib.serving.health import HEALTH_PATHS

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from toolcrib.runtime.runtime import Runtime
    from toolcrib.serving.health import Readiness
    from toolcrib.telemetry.prometheus import PrometheusMetrics

_log = logging.getLogger("toolcrib.access")

UNKNOWN_ROUTE: Final = "other"
REQUEST_ID: Final = b"x-request-id"
_WELL_FORMED: Final = re.compile(rb"[A-Za-z0-9._:-]{1,128}")
_METHODS: Final = frozenset(("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"))
_LONGEST_ID: Final = 128
_DISCONNECTED: Final = 499
"""The status of a request whose client left before there was an answer."""


@dataclass(frozen=True, slots=True)
class AnsweredRequest:
    """A request that is over."""

    method: str
    """The verb, `WEBSOCKET`, or `other`."""
    route: str
    """The template of the path, or `other` for a path that has no route."""
    status: int
    seconds: float
    sent_bytes: int


class RequestLog:
    """ASGI middleware that logs every request when it is over, with `writes_lines`, and tells
    `on_answered` of it. `pages` are the paths that are answered without a route.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        routes: Sequence[BaseRoute],
        pages: Iterable[str] = (),
        writes_lines: bool,
        on_answered: Callable[[AnsweredRequest], None] | None = None,
        elapsed: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._app = app
        self._routes = dict(_templates(routes))
        self._pages = HEALTH_PATHS.union(pages)
        self._writes_lines = writes_lines
        self._on_answered = on_answered
        self._elapsed = elapsed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on one request, and log it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        exchange = _RequestInFlight(scope, send)
        started = self._elapsed()
        token = request_facts.set(exchange.facts)
        try:
            await self._app(scope, receive, exchange.send)
        finally:
            request_facts.reset(token)
            self._answered(scope, exchange, self._elapsed() - started)

    def _answered(self, scope: Scope, exchange: _RequestInFlight, seconds: float) -> None:
        request = AnsweredRequest(
            _method(scope), self._route_of(scope), exchange.status, seconds, exchange.sent_bytes
        )
        if self._writes_lines:
            _write_line(scope, exchange, request)
        if self._on_answered is not None:
            self._on_answered(request)

    def _route_of(self, scope: Scope) -> str:
        endpoint = scope.get("endpoint")
        if endpoint is not None:
            return self._routes.get(endpoint, (UNKNOWN_ROUTE, None))[0]
        path: str = scope["path"]
        if path in self._pages:
            return path
        # It was answered before its route was looked for.
        for template, pattern in self._routes.values():
            if pattern is not None and pattern.match(path):
                return template
        return UNKNOWN_ROUTE


class _RequestInFlight:
    """What is known of a request while it runs."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self._scope = scope
        self._send = send
        self.request_id = _request_id(scope)
        self.status = _DISCONNECTED
        self.sent_bytes = 0

    def facts(self) -> LogFacts:
        """Facts for every line that is logged meanwhile."""
        principal = self._scope.get(PRINCIPAL)
        return {
            "request_id": self.request_id,
            "principal": None if principal is None else principal.name,
        }

    async def send(self, message: Message) -> None:
        """Send, and note what is sent."""
        match message["type"]:
            case "http.response.start" | "websocket.http.response.start":
                self.status = message["status"]
                own = (REQUEST_ID, self.request_id.encode())
                message = {**message, "headers": [*message.get("headers", ()), own]}
            case "http.response.body" | "websocket.http.response.body":
                self.sent_bytes += len(message.get("body", b""))
            case "websocket.accept":
                self.status = 101
                own = (REQUEST_ID, self.request_id.encode())
                message = {**message, "headers": [*message.get("headers", ()), own]}
            case "websocket.send":
                self.sent_bytes += len(message.get("text") or message.get("bytes") or "")
            case _:
                pass
        await self._send(message)


def _write_line(scope: Scope, exchange: _RequestInFlight, request: AnsweredRequest) -> None:
    is_check = request.route in HEALTH_PATHS
    level = logging.DEBUG if is_check and request.status < 400 else logging.INFO
    facts: dict[str, Any] = {
        **exchange.facts(),
        **_named_in_path(scope),
        "client": scope["client"][0] if scope.get("client") else None,
        "method": request.method,
        "path": request.route,
        "status": request.status,
        "seconds": round(request.seconds, 6),
        "bytes": request.sent_bytes,
    }
    log_facts(_log, level, "request", facts=facts)


def _named_in_path(scope: Scope) -> dict[str, str]:
    """The session and the call that the path of a known principal names."""
    if scope.get(PRINCIPAL) is None:
        return {}
    named: dict[str, Any] = scope.get("path_params") or {}
    names = {key: str(named[key]) for key in ("session_id", "call_id") if key in named}
    return {key: without_credentials(name)[:_LONGEST_ID] for key, name in names.items()}


def _request_id(scope: Scope) -> str:
    for name, value in scope["headers"]:
        if name.lower() == REQUEST_ID and _WELL_FORMED.fullmatch(value):
            return value.decode("ascii")
    return os.urandom(8).hex()


def _method(scope: Scope) -> str:
    if scope["type"] == "websocket":
        return "WEBSOCKET"
    method: str = scope["method"]
    return method if method in _METHODS else "other"


def _templates(
    routes: Sequence[BaseRoute], before: str = ""
) -> list[tuple[Any, tuple[str, re.Pattern[str] | None]]]:
    """The template, and the pattern if it is the whole path's, of each endpoint."""
    templates: list[tuple[Any, tuple[str, re.Pattern[str] | None]]] = []
    for route in routes:
        match route:
            case Mount(path=path, routes=inner):
                templates += _templates(inner, before + path)
            case Route(path=path) | WebSocketRoute(path=path):
                pattern = None if before else route.path_regex
                templates.append((route.endpoint, (before + path, pattern)))
            case _:
                pass
    return templates


@dataclass(frozen=True, slots=True)
class ServerWatch:
    """What is watched of a server: whether it is ready, and its requests if anybody wants them."""

    readiness: Readiness
    logs_requests: bool = False
    metrics: PrometheusMetrics | None = None

    @property
    def on_login_failure(self) -> Callable[[str], None] | None:
        """Who counts the logins that fail."""
        return None if self.metrics is None else self.metrics.login_failed

    def middleware(self, routes: Sequence[BaseRoute], pages: Iterable[str]) -> list[Middleware]:
        """What stands before everything else; nothing where nobody watches."""
        if not self.logs_requests and self.metrics is None:
            return []
        return [
            Middleware(
                RequestLog,
                routes=routes,
                pages=pages,
                writes_lines=self.logs_requests,
                on_answered=None if self.metrics is None else self._count,
            )
        ]

    def routes(self, runtime: Runtime) -> list[BaseRoute]:
        """`/metrics`, for auditors, if there are metrics."""
        if self.metrics is None:
            return []
        from toolcrib.serving.metrics import METRICS_PATH, MetricsEndpoint, MetricsForAuditors

        endpoint = MetricsForAuditors(MetricsEndpoint(self.metrics, runtime, self.readiness))
        route = Route(METRICS_PATH, endpoint, methods=["GET"], name="metrics")
        route.methods = {"GET"}
        return [route]

    def _count(self, request: AnsweredRequest) -> None:
        assert self.metrics is not None, "requests are counted where there are metrics"
        self.metrics.request_answered(
            request.method, request.route, request.status, request.seconds
        )

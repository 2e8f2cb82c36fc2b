"""Metrics for Prometheus: what is counted of calls, approvals, prompts, requests and notifications.

The values of every label are few: tools beyond `MAX_TOOLS`, models beyond `MAX_MODELS` and
principals beyond `MAX_PRINCIPALS` share the name `other`, as do tools that do not exist.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, ProcessCollector
from prometheus_client.exposition import generate_latest

from toolcrib._version import __version__
from toolcrib.ledger.events import (
    ApprovalDecided,
    ApprovalRequested,
    CallDeferred,
    CallStarted,
    CallUnrecorded,
    ToolInvoked,
)
from toolcrib.ledger.prompt_events import HistoryCompacted, ModelResponded, TurnEnded

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toolcrib.prices.cost import Cost
    from toolcrib.session.bus import EventBus

MAX_TOOLS: Final = 500
MAX_MODELS: Final = 50
MAX_PRINCIPALS: Final = 500
OTHER: Final = "other"
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_CALL_BUCKETS: Final = (0.005, 0.02, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_REQUEST_BUCKETS: Final = (0.002, 0.005, 0.02, 0.1, 0.5, 1.0, 5.0, 30.0)
_WAIT_BUCKETS: Final = (1.0, 10.0, 60.0, 300.0, 900.0, 3_600.0, 14_400.0, 86_400.0)


class BoundedNames:
    """The first `most` names are kept; all others are `other`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._names: set[str] = set()

    def label(self, name: str | None) -> str:
        """The name as a label."""
        if name is None:
            return OTHER
        if name not in self._names:
            if len(self._names) >= self._most:
                return OTHER
            self._names.add(name)
        return name


class PrometheusMetrics:
    """The metrics of one server, in a registry of its own. Every method may be called from any
    thread.
    """

    def __init__(self, *, by_principal: bool = False) -> None:
        self._by_principal = by_principal
        self._tools = BoundedNames(MAX_TOOLS)
        self._models = BoundedNames(MAX_MODELS)
        self._principals = BoundedNames(MAX_PRINCIPALS)
        self._running: set[tuple[str, str]] = set()
        """Session and id of the calls whose handlers run."""
        self.registry = CollectorRegistry(auto_describe=True)
        self._create_call_metrics(self.registry)
        self._create_prompt_metrics(self.registry)
        self._create_server_metrics(self.registry)
        ProcessCollector(registry=self.registry)

    def _create_call_metrics(self, registry: CollectorRegistry) -> None:
        whose = ("principal",) if self._by_principal else ()
        self._calls = Counter(
            "toolcrib_calls",
            "Calls that have ended, by tool, status and place.",
            ("tool", "status", "place", *whose),
            registry=registry,
        )
        self._call_seconds = Histogram(
            "toolcrib_call_duration_seconds",
            "How long tools ran, without waiting for decisions.",
            ("tool", "place"),
            buckets=_CALL_BUCKETS,
            registry=registry,
        )
        self._unrecorded = Counter(
            "toolcrib_calls_unrecorded",
            "Calls whose end could not be written to the ledger.",
            registry=registry,
        )
        self._active = Gauge("toolcrib_calls_active", "Calls that run now.", registry=registry)
        self._requests = Counter(
            "toolcrib_approval_requests",
            "Approval requests, by tool.",
            ("tool",),
            registry=registry,
        )
        self._decisions = Counter(
            "toolcrib_approval_decisions",
            "Decisions that calls went on with, by decision and kind of actor.",
            ("decision", "actor"),
            registry=registry,
        )
        self._wait_seconds = Histogram(
            "toolcrib_approval_wait_seconds",
            "How long calls waited for a decision.",
            buckets=_WAIT_BUCKETS,
            registry=registry,
        )

    def _create_prompt_metrics(self, registry: CollectorRegistry) -> None:
        self._prompts = Counter(
            "toolcrib_prompts", "Prompts, by how they ended.", ("outcome",), registry=registry
        )
        self._tokens = Counter(
            "toolcrib_tokens",
            "Tokens that models reported, by model and kind.",
            ("model", "kind"),
            registry=registry,
        )
        self._cost = Counter(
            "toolcrib_cost_dollars",
            "US dollars for requests to models and for provider-run calls, where the price is "
            "known.",
            ("what", "name"),
            registry=registry,
        )

    def _create_server_metrics(self, registry: CollectorRegistry) -> None:
        Info("toolcrib_build", "The version of Toolcrib.", registry=registry).info(
            {"version": __version__}
        )
        self._http = Counter(
            "toolcrib_http_requests",
            "Requests, by method, route and status.",
            ("method", "route", "status"),
            registry=registry,
        )
        self._http_seconds = Histogram(
            "toolcrib_http_request_duration_seconds",
            "How long requests took, by route; streams until they ended.",
            ("route",),
            buckets=_REQUEST_BUCKETS,
            registry=registry,
        )
        self._logins = Counter(
            "toolcrib_login_failures", "Refused logins, by reason.", ("reason",), registry=registry
        )
        self._notifications = Counter(
            "toolcrib_notifications",
            "Notifications, by event and outcome (sent, failed, dropped).",
            ("event", "outcome"),
            registry=registry,
        )
        self._waiting = Gauge(
            "toolcrib_approvals_waiting",
            "Calls that wait for a decision now, in all sessions of the store; at most 1000.",
            registry=registry,
        )
        self._sessions = Gauge("toolcrib_sessions_open", "Open sessions.", registry=registry)
        self._servers = Gauge(
            "toolcrib_mounted_server_up",
            "Whether a mounted MCP server can be called.",
            ("server",),
            registry=registry,
        )
        self._ready = Gauge("toolcrib_ready", "What /readyz says.", registry=registry)
        self._store_seconds = Gauge(
            "toolcrib_store_write_seconds",
            "How long the last write took with which /readyz tried the store.",
            registry=registry,
        )

    def watch(self, bus: EventBus) -> None:
        """Count what happens on a bus."""
        bus.subscribe(CallStarted, lambda event: self._running.add(_key(event)))
        bus.subscribe(CallDeferred, lambda event: self._running.discard(_key(event)))
        bus.subscribe(ToolInvoked, self._on_invoked)
        bus.subscribe(CallUnrecorded, self._on_unrecorded)
        bus.subscribe(ApprovalRequested, self._on_requested)
        bus.subscribe(ApprovalDecided, self._on_decided)
        bus.subscribe(ModelResponded, self._on_responded)
        bus.subscribe(HistoryCompacted, self._on_compacted)
        bus.subscribe(TurnEnded, lambda event: self._prompts.labels(event.outcome).inc())

    def request_answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """A request is over."""
        self._http.labels(method, route, str(status)).inc()
        self._http_seconds.labels(route).observe(seconds)

    def login_failed(self, reason: str) -> None:
        """A login was refused."""
        self._logins.labels(reason).inc()

    def notified(self, event: str, outcome: str) -> None:
        """A notification was sent, could not be sent, or was dropped."""
        self._notifications.labels(event, outcome).inc()

    def set_server_state(
        self, *, open_sessions: int, waiting: int, server_faults: Mapping[str, str | None]
    ) -> None:
        """How much is open now."""
        self._sessions.set(open_sessions)
        self._waiting.set(waiting)
        self._servers.clear()
        for name, fault in server_faults.items():
            self._servers.labels(name).set(1 if fault is None else 0)

    def set_readiness(self, *, is_ready: bool, write_seconds: float) -> None:
        """What the health check said."""
        self._ready.set(1 if is_ready else 0)
        self._store_seconds.set(write_seconds)

    def text(self) -> bytes:
        """Every metric, in the text format of Prometheus."""
        self._active.set(len(self._running))
        return generate_latest(self.registry)

    def _on_invoked(self, event: ToolInvoked) -> None:
        self._running.discard(_key(event))
        tool = OTHER if event.tool is None else self._tools.label(event.tool.name)
        place = OTHER if event.tool is None else event.tool.place
        status = "completed" if event.failure is None else event.failure.kind
        whose = (self._principals.label(event.principal),) if self._by_principal else ()
        self._calls.labels(tool, status, place, *whose).inc()
        self._add_cost("call", tool, event.cost)
        if event.duration_seconds > 0:
            self._call_seconds.labels(tool, place).observe(event.duration_seconds)
        if event.waited_seconds > 0:
            self._wait_seconds.observe(event.waited_seconds)

    def _on_unrecorded(self, event: CallUnrecorded) -> None:
        self._running.discard(_key(event))
        self._unrecorded.inc()

    def _on_requested(self, event: ApprovalRequested) -> None:
        # A handler may ask for an approval while it runs; the call is suspended then.
        self._running.discard(_key(event))
        self._requests.labels(self._tools.label(event.request.tool.name)).inc()

    def _on_decided(self, event: ApprovalDecided) -> None:
        decided = event.decided
        self._decisions.labels(decided.decision.kind, decided.actor.kind).inc()

    def _on_compacted(self, event: HistoryCompacted) -> None:
        # A summary is a prompt of its own, whose requests are counted.
        if event.method == "provider":
            self._on_responded(event)

    def _on_responded(self, event: ModelResponded | HistoryCompacted) -> None:
        model = self._models.label(event.model)
        for kind, count in event.usage.items():
            if kind in TOKEN_KINDS:
                self._tokens.labels(model, TOKEN_KINDS[kind]).inc(count)
        self._add_cost("model", model, event.cost)

    def _add_cost(self, what: str, name: str, cost: Cost | None) -> None:
        dollars = None if cost is None else cost.dollars
        if dollars is not None:
            self._cost.labels(what, name).inc(dollars)


def _key(
    event: CallStarted | CallDeferred | ToolInvoked | CallUnrecorded | ApprovalRequested,
) -> tuple[str, str]:
    return event.session_id, event.call_id


TOKEN_KINDS: Final = {
    "input_tokens": "input",
    "output_tokens": "output",
    "cached_tokens": "cached",
    "reasoning_tokens": "reasoning",
    "cache_write_tokens": "cache_write",
}
"""The kinds of tokens that are counted, by their names in a model's usage."""

"""What is told to webhooks: the requests and failures of all sessions of a runtime.

Requests of this process are told at once. Those of other processes on the same store, and those
that are about to expire, are found by looking at the inbox every now and then.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final

from toolcrib.clock import SYSTEM_CLOCK, Clock
from toolcrib.ledger.events import ApprovalRequested, ToolInvoked
from toolcrib.notifications.delivery import Delivery, Outcome
from toolcrib.notifications.notice import Notice, failed_notice, waiting_notice
from toolcrib.store.store import ask_store, every

if TYPE_CHECKING:
    from toolcrib.approval.decision import ApprovalRequest
    from toolcrib.notifications.options import NotificationOptions
    from toolcrib.session.bus import EventBus
    from toolcrib.store.store import Store

_log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 10.0
"""How often the inbox is looked at."""
MAX_REMEMBERED: Final = 10_000
FAILURES: Final = frozenset(
    (
        "expired",
        "hook_error",
        "in_doubt",
        "invalid_result",
        "provider_error",
        "timeout",
        "tool_error",
        "unavailable",
    )
)
"""The kinds of failure that are told: what is wrong with tools, not with their callers."""


class NotificationWatch:
    """The notifications of one runtime. `on_outcome` is told what becomes of each notice."""

    def __init__(
        self,
        options: Sequence[NotificationOptions],
        store: Store,
        *,
        clock: Clock = SYSTEM_CLOCK,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._store = store
        self._clock = clock
        self._sleep = sleep
        self.on_outcome: Callable[[str, Outcome], None] | None = None
        self._deliveries = [Delivery(each, self._report, clock=clock) for each in options]
        self._told: dict[str, None] = {}
        """The ids of what was told, oldest first."""
        self._started_at = clock()
        self._task: asyncio.Task[None] | None = None

    def start(self, bus: EventBus) -> None:
        """Begin to tell what happens on the bus and in the store."""
        self._started_at = self._clock()
        bus.subscribe(ApprovalRequested, self._on_requested)
        bus.subscribe(ToolInvoked, self._on_invoked)
        for delivery in self._deliveries:
            delivery.start()
        self._task = asyncio.get_running_loop().create_task(self._look_again_and_again())

    async def close(self) -> None:
        """Send what can be sent in a moment, and stop."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        await asyncio.gather(*(delivery.close() for delivery in self._deliveries))

    async def look(self) -> None:
        """Tell of the requests in the store that nobody was told of."""
        if not any({"waiting", "expiring"} & set(each.options.events) for each in self._deliveries):
            return
        for request in await ask_store(self._store, _pending, self._store):
            self._tell_pending(request)

    def _tell_pending(self, request: ApprovalRequest) -> None:
        now = self._clock()
        # Those from before were told by the process that this one follows.
        if request.created_at >= self._started_at:
            self._tell(waiting_notice(request, "waiting", now))
        for delivery in self._deliveries:
            if request.deadline is not None and now >= _expires_soon_at(request, delivery.options):
                self._tell_one(delivery, waiting_notice(request, "expiring", now))

    async def _look_again_and_again(self) -> None:
        while True:
            await self._sleep(LOOK_SECONDS)
            try:
                await self.look()
            except Exception:
                _log.exception("the inbox could not be looked at for notifications")

    def _on_requested(self, event: ApprovalRequested) -> None:
        self._tell(waiting_notice(event.request, "waiting", event.at))

    def _on_invoked(self, event: ToolInvoked) -> None:
        if event.failure is not None and event.failure.kind in FAILURES:
            self._tell(failed_notice(event))

    def _tell(self, notice: Notice) -> None:
        for delivery in self._deliveries:
            self._tell_one(delivery, notice)

    def _tell_one(self, delivery: Delivery, notice: Notice) -> None:
        key = f"{id(delivery)} {notice.notice_id}"
        if notice.event not in delivery.options.events or key in self._told:
            return
        self._told[key] = None
        if len(self._told) > MAX_REMEMBERED:
            self._told.pop(next(iter(self._told)), None)
        delivery.submit(notice)

    def _report(self, event: str, outcome: Outcome) -> None:
        if self.on_outcome is not None:
            self.on_outcome(event, outcome)


def _pending(store: Store) -> list[ApprovalRequest]:
    filed = every(lambda cursor: store.approvals(state="pending", cursor=cursor))
    return [each.request for each in filed]


def _expires_soon_at(request: ApprovalRequest, options: NotificationOptions) -> float:
    """When a request is about to expire; one that lives shortly, in the second half of its life."""
    assert request.deadline is not None, "a request without a deadline does not expire"
    half_life = (request.deadline - request.created_at) / 2
    return request.deadline - min(options.expiring_seconds, half_life)

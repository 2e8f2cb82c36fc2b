"""Delivery of notices to one webhook: signed, retried, and never in the way of a call.

The signature is that of the Standard Webhooks specification. What has not been sent when the
process ends is lost; the requests themselves are in the store.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import logging
import time
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from toolcrib.clock import SYSTEM_CLOCK, Clock
from toolcrib.notifications.notice import Notice, body_of
from toolcrib.store.anchors import NoRedirects

if TYPE_CHECKING:
    from toolcrib.notifications.options import NotificationOptions

_log = logging.getLogger(__name__)

Outcome = Literal["sent", "failed", "dropped"]
OutcomeHandler = Callable[[str, Outcome], None]

MAX_QUEUED: Final = 1_000
"""How many notices may wait for one webhook; more are dropped."""
RETRY_SECONDS: Final = (1.0, 5.0, 30.0, 120.0, 600.0)
"""How long to wait before each further attempt."""
POST_SECONDS: Final = 10.0
DRAIN_SECONDS: Final = 2.0
"""How long closing waits for notices that have not been tried yet."""
_AGAIN: Final = frozenset((408, 425, 429))


@dataclass(frozen=True, slots=True)
class WebhookRequest:
    """A request as it goes out."""

    url: str
    headers: dict[str, str]
    body: bytes


class NotAccepted(Exception):
    """A webhook did not take a notice; with `is_final` it never will."""

    def __init__(self, reason: str, *, is_final: bool = False) -> None:
        super().__init__(reason)
        self.is_final = is_final


def sign(secret: bytes, notice_id: str, at: int, body: bytes) -> str:
    """The value of `webhook-signature`."""
    signed = b".".join((notice_id.encode(), str(at).encode(), body))
    digest = hmac.digest(secret, signed, "sha256")
    return f"v1,{base64.b64encode(digest).decode()}"


def request_of(notice: Notice, options: NotificationOptions, at: float) -> WebhookRequest:
    """The request that carries a notice, signed for this time."""
    body = body_of(notice, options)
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "toolcrib",
        "webhook-id": notice.notice_id,
        "webhook-timestamp": str(int(at)),
    }
    if options.secret is not None:
        headers["webhook-signature"] = sign(options.secret, notice.notice_id, int(at), body)
    return WebhookRequest(options.url, headers, body)


def post(request: WebhookRequest) -> None:
    """Send a request. Raises `NotAccepted`, whose reason has nothing of the URL."""
    out = urllib.request.Request(request.url, request.body, request.headers, method="POST")
    # Another place that answers in this one's name has not got the notice.
    opener = urllib.request.build_opener(NoRedirects)
    try:
        with opener.open(out, timeout=POST_SECONDS) as response:
            response.read(0)
    except urllib.error.HTTPError as error:
        error.close()
        is_final = error.code < 500 and error.code not in _AGAIN
        raise NotAccepted(f"it answered {error.code}", is_final=is_final) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise NotAccepted(f"it cannot be reached: {type(reason).__name__}") from None


@dataclass(slots=True)
class _QueuedNotice:
    notice: Notice
    attempts: int = 0
    due_at: float = 0.0


class Delivery:
    """The notices of one webhook, one request at a time. A notice that fails waits for its next
    attempt, and the others do not wait for it.
    """

    def __init__(
        self,
        options: NotificationOptions,
        on_outcome: OutcomeHandler,
        *,
        clock: Clock = SYSTEM_CLOCK,
        elapsed: Callable[[], float] = time.monotonic,
        wait: Callable[[asyncio.Event, float | None], Awaitable[object]] | None = None,
        send: Callable[[WebhookRequest], None] = post,
    ) -> None:
        self.options = options
        self._on_outcome = on_outcome
        self._clock = clock
        self._elapsed = elapsed
        self._wait = wait or _wait
        self._send = send
        self._queue: list[_QueuedNotice] = []
        self._has_news = asyncio.Event()
        self._is_closing = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="toolcrib-notifications")

    def start(self) -> None:
        """Begin to send, in the running loop."""
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(self._run())

    def submit(self, notice: Notice) -> None:
        """Queue a notice, from any thread. It never waits, and never raises."""
        if self._loop is not None:
            # The loop may have been closed under a thread that still runs.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._enqueue, notice)

    async def close(self) -> None:
        """Try once what has not been tried, for a moment, and give up the rest."""
        self._is_closing = True
        self._has_news.set()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=DRAIN_SECONDS)
            self._task.cancel()
            await asyncio.wait([self._task])
        for queued in self._queue:
            self._finish(queued, "dropped", "the process ends")
        self._queue.clear()
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _enqueue(self, notice: Notice) -> None:
        queued = _QueuedNotice(notice)
        if self._is_closing or len(self._queue) >= MAX_QUEUED:
            self._finish(queued, "dropped", "too many wait")
            return
        self._queue.append(queued)
        self._has_news.set()

    async def _run(self) -> None:
        while True:
            queued = self._next()
            if queued is not None:
                await self._attempt(queued)
            elif self._is_closing:
                return
            else:
                await self._wait(self._has_news, self._seconds_to_next())
                self._has_news.clear()

    def _next(self) -> _QueuedNotice | None:
        """The notice whose turn it is; a closing delivery tries nothing a second time."""
        now = self._elapsed()
        due = [each for each in self._queue if each.due_at <= now]
        if self._is_closing:
            due = [each for each in due if each.attempts == 0]
        return min(due, key=lambda each: each.due_at, default=None)

    def _seconds_to_next(self) -> float | None:
        if not self._queue:
            return None
        return max(0.0, min(each.due_at for each in self._queue) - self._elapsed())

    async def _attempt(self, queued: _QueuedNotice) -> None:
        queued.attempts += 1
        loop = asyncio.get_running_loop()
        try:
            # Signed anew each time: receivers refuse old timestamps.
            request = request_of(queued.notice, self.options, self._clock())
            await loop.run_in_executor(self._thread, self._send, request)
        except NotAccepted as error:
            self._retry(queued, str(error), is_final=error.is_final)
        except Exception as error:
            self._retry(queued, type(error).__name__, is_final=True)
        else:
            self._queue.remove(queued)
            self._finish(queued, "sent")

    def _retry(self, queued: _QueuedNotice, reason: str, *, is_final: bool) -> None:
        if is_final or queued.attempts > len(RETRY_SECONDS):
            self._queue.remove(queued)
            self._finish(queued, "failed", reason)
            return
        queued.due_at = self._elapsed() + RETRY_SECONDS[queued.attempts - 1]
        _log.info(
            "the notification %s was not taken by %s and is tried again: %s",
            queued.notice.notice_id,
            self.options.place,
            reason,
        )

    def _finish(self, queued: _QueuedNotice, outcome: Outcome, reason: str = "") -> None:
        if outcome != "sent":
            _log.warning(
                "the notification %s for %s was %s: %s",
                queued.notice.notice_id,
                self.options.place,
                "dropped" if outcome == "dropped" else "not sent",
                reason,
            )
        self._on_outcome(queued.notice.event, outcome)


async def _wait(event: asyncio.Event, seconds: float | None) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()

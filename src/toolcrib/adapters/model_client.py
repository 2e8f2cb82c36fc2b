"""Requests to a model: the client that sends them, its replies, and the retry loop.

Each provider has a client of its own; the retry loop is the same for all.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from toolcrib.errors import DeadlinePassed, PromptEvaluationError, UsageError

if TYPE_CHECKING:
    from toolcrib.adapters.history import Conversation, ReplyItems
    from toolcrib.adapters.stream_announcer import StreamAnnouncer
    from toolcrib.ledger.prompt_events import ModelStatus

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ModelReply:
    """The reply to one request."""

    content: ReplyItems
    status: ModelStatus
    problem: str | None = None
    """Why the turn cannot continue from it; None when it answers, asks for calls, or pauses."""


@dataclass(frozen=True, slots=True)
class QueuedReply:
    """The provider took a request and works on it in the background."""

    response_id: str
    request_id: str | None = None


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """An attempt at a request that failed and is made again."""

    attempt: int
    """Its number, from 1."""
    reason: str
    request_id: str | None
    pause_seconds: float


OnRetry = Callable[[FailedAttempt], Awaitable[None]]


class ModelClient(Protocol):
    """Sends the requests of one turn to one model."""

    async def request(
        self,
        conversation: Conversation,
        *,
        step: int,
        announcer: StreamAnnouncer | None,
        deadline: float | None,
        on_retry: OnRetry | None = None,
    ) -> ModelReply | QueuedReply:
        """Send the unsent items, again after a passing fault, of which `on_retry` is told; with an
        `announcer`, as a stream.

        While the conversation has a `queued_id`, nothing is sent: that response is waited for.
        Raises `PromptEvaluationError` when there is no reply. `deadline` is in the running loop's
        time.
        """
        ...

    async def cancel(self, response_id: str) -> bool:
        """Stop a response that the provider works on in the background; whether it says that it
        did. Never raises.
        """
        ...


@dataclass(frozen=True, slots=True)
class Retry:
    """How often, and how patiently, a request is made again after 429, 5xx or a lost connection.

    A provider that asks for a longer pause than `longest_seconds` is not waited for.
    """

    attempts: int = 4
    first_seconds: float = 0.5
    longest_seconds: float = 30.0

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise UsageError(f"attempts must be 1 or more, not {self.attempts!r}; 1 never retries")
        for name in ("first_seconds", "longest_seconds"):
            seconds = getattr(self, name)
            if not 0 <= seconds < math.inf:
                raise UsageError(f"{name} must be a finite number from 0, not {seconds!r}")

    def pause(self, attempt: int, requested: float | None) -> float | None:
        """Seconds before the next attempt: those that the server requests, else growing, with
        jitter.

        None when the server requests too many.
        """
        if requested is not None:
            return requested if requested <= self.longest_seconds else None
        grown = min(self.longest_seconds, self.first_seconds * 2 ** min(attempt - 1, 60))
        return grown * random.uniform(0.75, 1.0)


async def send_with_retries(
    send: Callable[[], Awaitable[T]],
    retry: Retry,
    deadline: float | None,
    *,
    is_passing: Callable[[Exception], bool],
    requested_pause: Callable[[Exception], float | None],
    on_failure: Callable[[Exception, int, float], Awaitable[None]] | None = None,
) -> T:
    """Send until there is a reply. `deadline` is in the running loop's time. `on_failure` gets the
    error of an attempt that is made again, its number, and the pause.

    Raises `DeadlinePassed`, or the last error of `send` when another attempt would not help or
    would not end in time.
    """
    clock = asyncio.get_running_loop().time
    attempt = 0
    while True:
        if deadline is not None and clock() >= deadline:
            raise DeadlinePassed("the deadline had passed before the request was sent")
        attempt += 1
        limit = asyncio.timeout_at(deadline)
        try:
            async with limit:
                return await send()
        except Exception as error:
            # The SDK may turn the cancellation by the deadline into an error of its own.
            if limit.expired():
                raise DeadlinePassed("the deadline passed before there was a reply") from error
            if attempt >= retry.attempts or not is_passing(error):
                raise
            pause = retry.pause(attempt, requested_pause(error))
            if pause is None or (deadline is not None and clock() + pause >= deadline):
                raise
            if on_failure is not None:
                await on_failure(error, attempt, pause)
        await asyncio.sleep(pause)


def late(prompt_name: str, request_id: str | None = None) -> PromptEvaluationError:
    """The error for a request whose deadline passed."""
    return PromptEvaluationError(
        "the deadline passed before the provider answered; allow more seconds in the prompt's "
        "Budget, or to the call that evaluates it",
        prompt_name=prompt_name,
        phase="budget",
        request_id=request_id,
    )

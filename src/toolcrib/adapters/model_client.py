"""The way to a model, as the loop of a prompt needs it. Each provider has one of its own.

How often, and how patiently, a request is tried again.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from toolcrib.errors import UsageError

if TYPE_CHECKING:
    from toolcrib.adapters.history import Conversation, ReplyItems
    from toolcrib.adapters.loop import StreamAnnouncer
    from toolcrib.ledger.events import ModelStatus


@dataclass(frozen=True, slots=True)
class ModelReply:
    """The reply to one request."""

    content: ReplyItems
    status: ModelStatus
    problem: str | None = None
    """Why the turn cannot continue from it; None when it answers, asks for calls, or pauses."""


class ModelClient(Protocol):
    """Sends the requests of one turn to one model."""

    async def request(
        self,
        conversation: Conversation,
        *,
        step: int,
        announcer: StreamAnnouncer | None,
        deadline: float | None,
    ) -> ModelReply:
        """Send the unsent items, again after a passing fault; with an `announcer`, as a stream.

        Raises `PromptEvaluationError` when there is no reply. `deadline` is in the running loop's
        time.
        """
        ...


@dataclass(frozen=True, slots=True)
class Retry:
    """How often, and how patiently, a request is tried again after 429, 5xx or a lost line.

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

    def pause(self, attempt: int, asked: float | None) -> float | None:
        """Seconds before the next attempt: what the server asked for, else growing, with jitter.

        None when the server asks for too much.
        """
        if asked is not None:
            return asked if asked <= self.longest_seconds else None
        grown = min(self.longest_seconds, self.first_seconds * 2 ** min(attempt - 1, 60))
        return grown * random.uniform(0.75, 1.0)

"""The way to a model, as the loop of a prompt needs it. Each provider has one of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from toolcrib.adapters.announcing import Announcer
    from toolcrib.adapters.conversation import Conversation, Heard
    from toolcrib.session.events import ModelStatus


@dataclass(frozen=True, slots=True)
class Answered:
    """What one request came to."""

    heard: Heard
    status: ModelStatus
    problem: str | None = None
    """Why nothing can follow from it; None when it is an answer, asks for calls, or goes on."""


class Line(Protocol):
    """Speaks to one model for one turn."""

    async def ask(
        self,
        conversation: Conversation,
        *,
        step: int,
        announcer: Announcer | None,
        deadline: float | None,
    ) -> Answered:
        """Send what is unsent until it is answered; with an `announcer`, as a stream.

        Raises `PromptEvaluationError` when there is no answer. `deadline` is in the running
        loop's time.
        """
        ...

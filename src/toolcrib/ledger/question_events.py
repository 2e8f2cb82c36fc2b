"""Events of questions: what a running call asks a person, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from toolcrib.approval.decision import Actor
from toolcrib.approval.question import Question
from toolcrib.ledger.events import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionAsked(Event):
    """A running call asks a person. `QuestionAnswered` or `QuestionClosed` follows."""

    kind: ClassVar[str] = "question.asked"
    call_id: str
    question: Question


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionAnswered(Event):
    """A person answered a question of a running call."""

    kind: ClassVar[str] = "question.answered"
    call_id: str
    question_id: str
    actor: Actor
    value: Any = None
    """The answer as JSON, without secrets; None when all of it is one."""
    is_secret: bool = False


QuestionEnd = Literal["declined", "cancelled", "expired", "withdrawn", "nobody"]
"""Why a question has no answer: the person declined or left, the time was over, the call ended
first, or nobody was there to ask.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionClosed(Event):
    """A question of a call got no answer, and can get none any more."""

    kind: ClassVar[str] = "question.closed"
    call_id: str
    question_id: str
    why: QuestionEnd
    reason: str = ""
    """What the person said, or why nobody could be asked."""
    actor: Actor | None = None
    """Who declined or left; None when no person did."""

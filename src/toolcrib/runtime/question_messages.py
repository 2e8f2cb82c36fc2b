"""The parameters and results of the operations on questions of running calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from pydantic import JsonValue

from toolcrib.runtime.approval_messages import CallerFacts
from toolcrib.runtime.messages import OperationParams

AnswerAction = Literal["answer", "decline", "cancel"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListQuestions(OperationParams):
    """The open questions of one session, or of all."""

    session_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionFacts:
    """An open question of a running call."""

    question_id: str
    session_id: str
    call_id: str
    tool: str
    text: str
    schema: dict[str, Any]
    """The JSON Schema of the answer."""
    created_at: float
    deadline: float | None = None
    is_secret: bool = False
    """Whether the answer must not be shown; it is not recorded."""
    parent_call_id: str | None = None
    turn: int = 0
    caller: CallerFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenQuestions:
    """Open questions, oldest first in each session."""

    questions: list[QuestionFacts]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerQuestion(OperationParams):
    """The answer to a question, or that there will be none. The first one counts; one that does not
    fit leaves the question open.
    """

    question_id: str
    action: AnswerAction = "answer"
    value: JsonValue = None
    """With `answer`: JSON that fits the question's schema."""
    reason: str | None = None
    """With `decline` and `cancel`: for the handler and the record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredQuestion:
    """A question that is closed now."""

    question_id: str
    session_id: str
    call_id: str
    action: AnswerAction

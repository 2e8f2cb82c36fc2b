"""The questions of a session's running calls: which are open, and answering them.

A question lives as long as the call that asks it, in the process that runs the call. What is asked
and what comes of it is in the ledger.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from pydantic_core import to_json

from toolcrib.approval.decision import Actor
from toolcrib.approval.question import Question, QuestionResponse, Responder
from toolcrib.errors import InvalidAnswer, UsageError
from toolcrib.ledger.question_events import (
    QuestionAnswered,
    QuestionAsked,
    QuestionClosed,
    QuestionEnd,
)

if TYPE_CHECKING:
    from toolcrib.ledger.events import Event
    from toolcrib.session.session import Session
    from toolcrib.store.store import OpenCall

MAX_OPEN: Final = 100
"""How many questions of a session may be open at once."""
MAX_ANSWER_BYTES: Final = 64 * 1024


RESPONDER_HERE: Final[ContextVar[Responder | None]] = ContextVar("toolcrib_responder", default=None)


@contextmanager
def answered_by(responder: Responder) -> Generator[None]:
    """Let questions of calls within be put to this responder: the person at a connection."""
    before = RESPONDER_HERE.get()
    RESPONDER_HERE.set(responder)
    try:
        yield
    finally:
        # Not by token: a coroutine may be closed in another context than the one it ran in.
        if RESPONDER_HERE.get() is responder:
            RESPONDER_HERE.set(before)


class OpenQuestion:
    """A question that is open. `read` makes the typed value of an answer's JSON, or raises
    `InvalidAnswer`; `show` makes what may be recorded of it.
    """

    __slots__ = ("question", "read", "result", "show")

    def __init__(
        self,
        question: Question,
        read: Callable[[bytes], Any],
        show: Callable[[Any], Any],
    ) -> None:
        self.question = question
        self.read = read
        self.show = show
        self.result: asyncio.Future[tuple[QuestionResponse, Any]] = (
            asyncio.get_running_loop().create_future()
        )

    def succeed(self, response: QuestionResponse, value: Any) -> None:
        """Let the call that asks go on, with what came of its question."""
        if not self.result.done():
            self.result.set_result((response, value))

    def fail(self, error: Exception) -> None:
        """Let the call that asks fail."""
        if not self.result.done():
            self.result.set_exception(error)


class Questions:
    """The open questions of one session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._open: dict[str, OpenQuestion] = {}
        self.responder: Responder | None = None
        """Whom calls ask that have nobody nearer."""
        self.is_attended = False
        """Whether somebody looks at `pending` and answers; else a question without a responder is
        declined at once. A server knows that itself.
        """

    def can_be_answered(self, question: Question) -> bool:
        """Whether somebody may answer a question without a responder."""
        attendance = self._session.attendance
        is_served = attendance is not None and attendance.has_responders(question.caller)
        return self.is_attended or is_served

    def pending(self) -> list[Question]:
        """The questions that nobody has answered yet, oldest first."""
        return [entry.question for entry in self._open.values()]

    async def answer(self, question_id: str, value: Any, *, by: str | Actor) -> None:
        """Answer a question with a JSON value. Raises `InvalidAnswer` when it is not open, or when
        the value does not fit; it stays open then.
        """
        response = QuestionResponse("answer", value, actor=_actor(by))
        await self.settle(self._find(question_id), response)

    async def decline(self, question_id: str, *, by: str | Actor, reason: str = "") -> None:
        """Say that the person does not want to answer."""
        response = QuestionResponse("decline", reason=reason, actor=_actor(by))
        await self.settle(self._find(question_id), response)

    async def cancel(self, question_id: str, *, by: str | Actor, reason: str = "") -> None:
        """Leave the question without an answer."""
        response = QuestionResponse("cancel", reason=reason, actor=_actor(by))
        await self.settle(self._find(question_id), response)

    async def open(self, entry: OpenQuestion) -> None:
        """Put a question where it can be answered, and write it down."""
        question = entry.question
        if len(self._open) >= MAX_OPEN:
            raise UsageError(
                f"session {question.session_id} has {MAX_OPEN} open questions; no more are taken"
            )
        # Before it is announced: whoever hears of it may answer at once.
        self._open[question.question_id] = entry
        await self._session.record(
            QuestionAsked(
                session_id=question.session_id,
                at=question.created_at,
                call_id=question.call_id,
                question=question,
            )
        )

    async def settle(self, entry: OpenQuestion, response: QuestionResponse) -> None:
        """Close a question with a response, once: raises `InvalidAnswer` for one that does not fit,
        and for every response after the first.
        """
        question = entry.question
        value = self._checked(entry, response)
        if self._open.pop(question.question_id, None) is None:
            raise _not_open(question.question_id)
        try:
            await self._session.record(self._event(entry, response))
        except Exception as error:
            # What could not be written down does not reach the handler.
            entry.fail(error)
            raise
        except BaseException:
            # Whoever stops waiting does not undo it: the record is on its way.
            entry.succeed(response, value)
            raise
        entry.succeed(response, value)

    def withdraw(self, entry: OpenQuestion, why: QuestionEnd, reason: str = "") -> bool:
        """Close a question that nobody answered; False when it is closed already."""
        question = entry.question
        if self._open.pop(question.question_id, None) is None:
            return False
        self._session.note(self._closed(question, why, reason, None))
        entry.succeed(QuestionResponse("cancel", reason=reason), None)
        return True

    def withdraw_all(self, reason: str, *, call_id: str | None = None) -> None:
        """Close the questions of a call, or of all calls, that can take no answer any more."""
        for entry in list(self._open.values()):
            if call_id is None or entry.question.call_id == call_id:
                self.withdraw(entry, "withdrawn", reason)

    def _find(self, question_id: str) -> OpenQuestion:
        entry = self._open.get(question_id)
        if entry is None:
            raise _not_open(question_id)
        return entry

    def _checked(self, entry: OpenQuestion, response: QuestionResponse) -> Any:
        """The typed value of an answer; None for any other response."""
        if response.action != "answer":
            return None
        question_id = entry.question.question_id
        try:
            raw = to_json(response.value)
        except ValueError:
            raise InvalidAnswer(f"the answer to {question_id} is not JSON; give another") from None
        if len(raw) > MAX_ANSWER_BYTES:
            raise InvalidAnswer(
                f"the answer to {question_id} has {len(raw)} bytes; at most {MAX_ANSWER_BYTES} are "
                "taken"
            )
        return entry.read(raw)

    def _event(self, entry: OpenQuestion, response: QuestionResponse) -> Event:
        question, actor = entry.question, response.actor or Actor("rule", "responder")
        match response.action:
            case "answer":
                return QuestionAnswered(
                    session_id=question.session_id,
                    at=self._session.clock(),
                    call_id=question.call_id,
                    question_id=question.question_id,
                    actor=actor,
                    value=None if question.is_secret else entry.show(response.value),
                    is_secret=question.is_secret,
                )
            case "decline":
                return self._closed(question, "declined", entry.show(response.reason), actor)
            case "cancel":
                return self._closed(question, "cancelled", entry.show(response.reason), actor)
            case "nobody":
                return self._closed(question, "nobody", entry.show(response.reason), None)

    def _closed(
        self, question: Question, why: QuestionEnd, reason: str, actor: Actor | None
    ) -> QuestionClosed:
        return QuestionClosed(
            session_id=question.session_id,
            at=self._session.clock(),
            call_id=question.call_id,
            question_id=question.question_id,
            why=why,
            reason=reason,
            actor=actor,
        )


_CLOCKS_APART: Final = 3_600.0
"""How far a clock may have been set back while a call ran, for its questions to be found."""


def new_question_id() -> str:
    """An id that no question has, and that nobody guesses."""
    return f"qst_{os.urandom(8).hex()}"


def withdraw_lost(session: Session, calls: Collection[OpenCall]) -> None:
    """Close the questions that calls of a process which is gone have asked."""
    call_ids = {call.call_id for call in calls}
    begun = min((call.created_at for call in calls), default=0.0) - _CLOCKS_APART
    closed: set[str] = set()
    lost: list[QuestionAsked] = []
    kinds = (QuestionAsked.kind, QuestionAnswered.kind, QuestionClosed.kind)
    for event in session.events(kinds=kinds, newest_first=True):
        if event.at < begun:
            break
        if isinstance(event, QuestionAnswered | QuestionClosed):
            closed.add(event.question_id)
        elif isinstance(event, QuestionAsked) and event.call_id in call_ids:
            lost.append(event)
    for event in reversed([each for each in lost if each.question.question_id not in closed]):
        session.note(
            QuestionClosed(
                session_id=session.session_id,
                at=session.clock(),
                call_id=event.call_id,
                question_id=event.question.question_id,
                why="withdrawn",
                reason="the process that ran the call is gone",
            )
        )


def _actor(by: str | Actor) -> Actor:
    return by if isinstance(by, Actor) else Actor("person", by)


def _not_open(question_id: str) -> InvalidAnswer:
    return InvalidAnswer(
        f"question {question_id!r} is not open: it was answered, it expired, or its call is over"
    )

"""Operations on the questions of running calls, over all open sessions of this process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, assert_never

from toolcrib.errors import InvalidAnswer, Refused
from toolcrib.runtime.approval_messages import (
    AnsweredQuestion,
    AnswerQuestion,
    CallerFacts,
    ListQuestions,
    OpenQuestions,
    QuestionFacts,
)
from toolcrib.runtime.ownership import may_see

if TYPE_CHECKING:
    from toolcrib.approval.question import Question
    from toolcrib.runtime.live_session import LiveSession
    from toolcrib.runtime.principal import Principal


def open_questions(
    sessions: Iterable[LiveSession], params: ListQuestions, who: Principal
) -> OpenQuestions:
    """The open questions that a principal may see."""
    return OpenQuestions(
        questions=[
            question_facts(question)
            for live, question in _visible(sessions, who)
            if params.session_id in (None, live.session.session_id)
        ]
    )


async def answer(
    sessions: Iterable[LiveSession], params: AnswerQuestion, who: Principal
) -> AnsweredQuestion:
    """Answer a question of the principal's own call or session. Raises `Refused`: not_found also
    for a question of somebody else, invalid for a value that does not fit.
    """
    live, question = _find(sessions, params.question_id, who)
    if not _may_answer(live, question, who):
        raise Refused("forbidden", f"the question is not for {who.name!r} to answer")
    await _settle(live, params, who)
    return AnsweredQuestion(
        question_id=question.question_id,
        session_id=question.session_id,
        call_id=question.call_id,
        action=params.action,
    )


def _find(
    sessions: Iterable[LiveSession], question_id: str, who: Principal
) -> tuple[LiveSession, Question]:
    for live, question in _visible(sessions, who):
        if question.question_id == question_id:
            return live, question
    raise Refused(
        "not_found",
        f"there is no open question {question_id[:128]!r}: it was answered, it expired, or its "
        "call is over",
    )


async def _settle(live: LiveSession, params: AnswerQuestion, who: Principal) -> None:
    questions = live.session.questions
    unused = "reason" if params.action == "answer" else "value"
    if getattr(params, unused) is not None:
        raise Refused("invalid", f"{params.action} takes no {unused}")
    reason = params.reason or ""
    try:
        match params.action:
            case "answer":
                await questions.answer(params.question_id, params.value, by=who.name)
            case "decline":
                await questions.decline(params.question_id, by=who.name, reason=reason)
            case "cancel":
                await questions.cancel(params.question_id, by=who.name, reason=reason)
            case _:
                assert_never(params.action)
    except InvalidAnswer as error:
        faults = [{"pointer": fault.pointer, "message": fault.message} for fault in error.faults]
        raise Refused("invalid", str(error), {"faults": faults}) from None


def _visible(
    sessions: Iterable[LiveSession], who: Principal
) -> Iterator[tuple[LiveSession, Question]]:
    for live in sessions:
        for question in live.session.questions.pending():
            is_own = question.caller.principal == who.name
            if is_own or may_see(who, live.session.owner):
                yield live, question


def _may_answer(live: LiveSession, question: Question, who: Principal) -> bool:
    """Whether the question is for this principal: the caller, the session's owner, or an admin."""
    names = (question.caller.principal, live.session.owner)
    return who.name in names or "admin" in who.roles


def question_facts(question: Question) -> QuestionFacts:
    """The description of a question that a client gets."""
    caller = question.caller
    return QuestionFacts(
        question_id=question.question_id,
        session_id=question.session_id,
        call_id=question.call_id,
        tool=question.tool.name,
        text=question.text,
        schema=question.schema,
        created_at=question.created_at,
        deadline=question.deadline,
        is_secret=question.is_secret,
        parent_call_id=question.parent_call_id,
        turn=question.turn,
        caller=CallerFacts(
            principal=caller.principal,
            groups=sorted(caller.groups),
            transport=caller.transport,
            is_model=caller.is_model,
        ),
    )

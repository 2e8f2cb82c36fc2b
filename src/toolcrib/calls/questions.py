"""`ToolContext.ask`: a question of a running call to a person, and the typed answer."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, assert_never, cast

from pydantic_core import to_json

from toolcrib.approval.caller import NOBODY
from toolcrib.approval.question import Question, QuestionResponse, Responder
from toolcrib.calls.person_wait import hard_deadline, person_of, waiting_for_person
from toolcrib.calls.redaction import encodable, loggable, scrub
from toolcrib.errors import (
    InvalidAnswer,
    InvalidTool,
    NobodyToAsk,
    QuestionCancelled,
    QuestionDeclined,
    QuestionExpired,
    UsageError,
)
from toolcrib.session.questions import (
    RESPONDER_HERE,
    OpenQuestion,
    new_question_id,
)
from toolcrib.tools.faults import explain
from toolcrib.tools.redaction import redactor_of

if TYPE_CHECKING:
    from toolcrib.calls.call import Call

logger = logging.getLogger(__name__)

MAX_QUESTION_CHARS: Final = 10_000
MAX_SCHEMA_BYTES: Final = 32 * 1024
MAX_QUESTIONS_PER_CALL: Final = 100
MAX_TRIES: Final = 3
"""How often a responder is asked again after an answer that does not fit."""


@dataclass(frozen=True, slots=True)
class AnswerType:
    """The type of an answer: its JSON Schema, and the parser of its JSON."""

    schema: dict[str, Any]
    parse: Callable[[bytes], Any]

    def read(self, raw: bytes) -> Any:
        """The typed value. Raises `InvalidAnswer`."""
        try:
            return self.parse(raw)
        except ValueError as error:
            faults = explain(error, self.schema)
        said = "; ".join(f"{fault.pointer or '/'}: {fault.message}" for fault in faults)
        misfit = InvalidAnswer(f"the answer does not fit the question: {said}")
        misfit.faults = faults
        raise misfit


async def ask_person(
    call: Call,
    responder: Responder | None,
    text: str,
    answer: Any,
    *,
    choices: Sequence[str] | None,
    is_secret: bool,
    seconds: float,
) -> Any:
    """Ask the person behind a call, and return the typed answer. Raises `QuestionUnanswered`, and
    `UsageError` for what cannot be asked.
    """
    answer_type = _type_of_answer(answer, choices)
    question = _question(call, text, answer_type.schema, is_secret, seconds)
    entry = OpenQuestion(question, answer_type.read, _shown(call, answer_type.schema))
    questions = call.session.questions
    with waiting_for_person(call):
        await questions.open(entry)
        try:
            response, value = await _response(call, entry, _responder(call, responder), seconds)
        finally:
            # Also when the call is cancelled: nobody waits for the answer any more.
            questions.withdraw(entry, "withdrawn", "the call was cancelled")
    if response.action == "answer":
        person_of(call).secrets += _secrets(question, response.value)
        return value
    raise _unanswered(call, response)


def _type_of_answer(answer: Any, choices: Sequence[str] | None) -> AnswerType:
    if choices is not None:
        if isinstance(choices, str) or not choices or len(set(choices)) < len(choices):
            raise UsageError("choices are a list of different texts, and not empty")
        answer = Literal[tuple(choices)]
    if isinstance(answer, Mapping):
        return _of_schema(cast("Mapping[str, Any]", answer))
    try:
        return _of_type(answer)
    except TypeError:
        return _of_type.__wrapped__(answer)


@lru_cache(maxsize=256)
def _of_type(annotation: Any) -> AnswerType:
    from pydantic.errors import PydanticUserError
    from pydantic_core import SchemaError

    from toolcrib.tools.params import strict_type

    try:
        strict = strict_type("ask", annotation)
    except (PydanticUserError, SchemaError, NameError, InvalidTool) as error:
        reason = str(error).splitlines()[0]
        raise UsageError(f"{annotation!r} cannot be the type of an answer: {reason}") from None
    return AnswerType(strict.schema, strict.parse)


def _of_schema(schema: Mapping[str, Any]) -> AnswerType:
    from toolcrib.tools.json_schema import cost_of, input_parser

    plain = dict(schema)
    # A schema may come from a mounted server, so that checking an answer is bounded.
    return AnswerType(plain, input_parser("ask", plain, cost_of("ask", plain)))


def _question(
    call: Call, text: str, schema: dict[str, Any], is_secret: bool, seconds: float
) -> Question:
    if not isinstance(text, str) or not text.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UsageError("a question is a text that is not empty")
    if len(text) > MAX_QUESTION_CHARS or len(to_json(schema)) > MAX_SCHEMA_BYTES:
        raise UsageError(
            f"a question has at most {MAX_QUESTION_CHARS} characters, and the schema of its answer "
            f"at most {MAX_SCHEMA_BYTES} bytes"
        )
    if not 0 < seconds < math.inf:
        raise UsageError(f"seconds must be a finite number above 0, not {seconds!r}")
    if call.is_over:
        raise UsageError(f"call {call.call_id} is over; it can ask nothing more")
    person = person_of(call)
    person.questions += 1
    if person.questions > MAX_QUESTIONS_PER_CALL:
        raise UsageError(
            f"call {call.call_id} has asked {MAX_QUESTIONS_PER_CALL} questions, the most that one "
            "call may"
        )
    session = call.session
    now = session.clock()
    return Question(
        question_id=new_question_id(),
        session_id=session.session_id,
        call_id=call.call_id,
        tool=call.tool.ref,
        text=encodable(scrub(call, text)),
        created_at=now,
        schema=scrub(call, schema),
        deadline=now + _seconds_left(call, seconds),
        is_secret=is_secret,
        parent_call_id=call.parent_call_id,
        turn=call.turn,
        caller=call.caller or NOBODY,
    )


def _seconds_left(call: Call, seconds: float) -> float:
    hard = hard_deadline(call)
    if hard is None:
        return seconds
    return max(0.0, min(seconds, hard - asyncio.get_running_loop().time()))


def _shown(call: Call, schema: dict[str, Any]) -> Callable[[Any], Any]:
    """What may be recorded of an answer: neither its own secrets nor those of the call."""
    redactor = redactor_of(schema)

    def show(value: Any) -> Any:
        return scrub(call, value if redactor is None else redactor.redact(value))

    return show


def _secrets(question: Question, value: Any) -> list[Any]:
    """What of an answer must not be recorded, wherever the call repeats it."""
    if question.is_secret:
        return [value]
    redactor = redactor_of(question.schema)
    return [] if redactor is None else redactor.secrets(value)


def _responder(call: Call, of_executor: Responder | None) -> Responder | None:
    """Whom to ask: the person at the connection that the call came over, before others."""
    return RESPONDER_HERE.get() or of_executor or call.session.questions.responder


async def _response(
    call: Call, entry: OpenQuestion, responder: Responder | None, seconds: float
) -> tuple[QuestionResponse, Any]:
    questions = call.session.questions
    if responder is None and not questions.can_be_answered(entry.question):
        await questions.settle(entry, QuestionResponse("nobody", reason=_NOBODY))
        return entry.result.result()
    asker = None
    if responder is not None:
        asker = asyncio.ensure_future(_ask_responder(call, entry, responder))
        asker.add_done_callback(_retrieve)
    try:
        return await asyncio.wait_for(asyncio.shield(entry.result), _seconds_left(call, seconds))
    except TimeoutError:
        if not questions.withdraw(entry, "expired", "nobody answered in time"):
            # The answer came at the last moment, and is being written down.
            return await entry.result
        raise QuestionExpired(f"Nobody answered the question of `{call.name}` in time.") from None
    finally:
        if asker is not None:
            asker.cancel()


def _retrieve(asker: asyncio.Future[None]) -> None:
    """Look at an exception that the call gets as the result of its question."""
    if not asker.cancelled():
        asker.exception()


_NOBODY: Final = "nobody is here who could answer"


async def _ask_responder(call: Call, entry: OpenQuestion, responder: Responder) -> None:
    """Put the question to a responder until its answer fits, or the tries are used up."""
    questions, question = call.session.questions, entry.question
    for _ in range(MAX_TRIES):
        try:
            response = await responder.respond(question)
        except Exception as error:
            logger.warning(
                "the responder failed on %s", question.question_id, exc_info=loggable(call, error)
            )
            response = QuestionResponse("nobody", reason="the question could not be shown")
        if response is None:
            if not questions.can_be_answered(question):
                nobody = QuestionResponse("nobody", reason=_NOBODY)
                await _settle_quietly(call, entry, nobody)
            return
        try:
            await questions.settle(entry, response)
            return
        except InvalidAnswer as error:
            question = replace(question, fault=str(error))
        if entry.result.done():
            return
    reason = f"no answer fitted in {MAX_TRIES} tries"
    await _settle_quietly(call, entry, QuestionResponse("cancel", reason=reason))


async def _settle_quietly(call: Call, entry: OpenQuestion, response: QuestionResponse) -> None:
    try:
        await call.session.questions.settle(entry, response)
    except InvalidAnswer:
        # Somebody else was faster.
        return


def _unanswered(call: Call, response: QuestionResponse) -> Exception:
    why = f": {response.reason}" if response.reason else ""
    match response.action:
        case "decline":
            return QuestionDeclined(f"The question of `{call.name}` was declined{why}.")
        case "cancel":
            return QuestionCancelled(f"The question of `{call.name}` was left unanswered{why}.")
        case "nobody":
            return NobodyToAsk(f"`{call.name}` has a question that nobody can be asked{why}.")
        case "answer":
            raise AssertionError("an answer is not unanswered")
        case _:
            assert_never(response.action)

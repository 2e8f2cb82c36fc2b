"""`ctx.ask`: a handler asks a person in the middle of a call. Time is virtual where it counts."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel

from tests.calls.runs import found, invoked, kinds, run
from toolcrib import Caller, Executor, Limits, Secret, Session, ToolContext, tool
from toolcrib.approval import Actor, CallbackResponder, Question, QuestionResponse
from toolcrib.errors import (
    InvalidAnswer,
    NobodyToAsk,
    QuestionCancelled,
    QuestionDeclined,
    QuestionExpired,
    UsageError,
)
from toolcrib.ledger.question_events import QuestionAnswered, QuestionAsked, QuestionClosed
from toolcrib.session.questions import MAX_ANSWER_BYTES, answered_by
from toolcrib.testing import run_in_virtual_time


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Account:
    name: str
    number: int


class Address(BaseModel):
    city: str


def asking(answer: Any = str, **options: Any) -> Any:
    """A tool that asks once and returns what it got, for a test to compare."""

    async def ask(ctx: ToolContext) -> Any:
        """Ask."""
        value = await ctx.ask("Which one?", answer, **options)
        GOT.append(value)
        return "done"

    return tool(ask)


GOT: list[Any] = []


@pytest.fixture(autouse=True)
def nothing_yet() -> None:
    GOT.clear()


def saying(answer: Any) -> CallbackResponder:
    async def respond(_: Question) -> object:
        return answer

    return CallbackResponder(respond)


class Silent:
    """A responder that never answers, and knows what it was asked."""

    def __init__(self) -> None:
        self.questions: list[Question] = []

    async def respond(self, question: Question) -> QuestionResponse | None:
        self.questions.append(question)
        await asyncio.Event().wait()
        return None


class TestTypes:
    @pytest.mark.parametrize(
        ("answer", "sent", "value"),
        [
            (str, "main", "main"),
            (bool, True, True),
            (int, 7, 7),
            (float, 2.5, 2.5),
            (Literal["a", "b"], "b", "b"),
            (Colour, "blue", Colour.BLUE),
            (Account, {"name": "main", "number": 3}, Account("main", 3)),
            (Address, {"city": "Bern"}, Address(city="Bern")),
            (list[int], [1, 2], [1, 2]),
            ({"type": "object", "required": ["x"]}, {"x": 1}, {"x": 1}),
        ],
        ids=str,
    )
    async def test_the_answer_comes_in_its_type(self, answer: Any, sent: Any, value: Any) -> None:
        """A handler gets the validated, typed value, whatever type it asked for."""
        ended = await run(asking(answer), responder=saying(sent))

        assert ended.outcome.ok, ended.outcome.text
        assert [value] == GOT
        assert type(GOT[0]) is type(value)

    async def test_choices_are_offered_as_they_are_now(self) -> None:
        """Choices that are known only while the tool runs are an enum for whoever shows them."""
        seen: list[Question] = []

        def first(question: Question) -> str:
            seen.append(question)
            return question.schema["enum"][0]

        ended = await run(asking(choices=["x", "y"]), responder=CallbackResponder(first))

        assert ended.outcome.ok
        assert GOT == ["x"]
        assert seen[0].schema == {"enum": ["x", "y"], "type": "string"}

    @pytest.mark.parametrize("answer", [object(), Callable[[], int]], ids=["object", "callable"])
    async def test_a_type_that_json_lacks_is_refused_at_once(self, answer: Any) -> None:
        """Nobody is asked what no answer could fit."""
        ended = await run(asking(answer), responder=Silent())

        assert ended.failure == "tool_error"
        assert "cannot be the type of an answer" in ended.outcome.text
        assert found(ended.session, QuestionAsked) == []

    @pytest.mark.parametrize(
        ("text", "options"),
        [
            ("", {}),
            ("x" * 10_001, {}),
            ("Which?", {"choices": []}),
            ("Which?", {"choices": ["a", "a"]}),
            ("Which?", {"seconds": 0}),
            ("Which?", {"seconds": float("inf")}),
        ],
    )
    async def test_what_cannot_be_asked_is_refused(self, text: str, options: Any) -> None:
        """Empty and endless questions are mistakes of the tool."""

        @tool
        async def ask(ctx: ToolContext) -> str:
            """Ask."""
            return await ctx.ask(text, **options)

        ended = await run(ask, responder=saying("x"))

        assert ended.failure == "tool_error"
        assert isinstance(ended.outcome.error, UsageError)


class TestRecords:
    async def test_question_and_answer_are_recorded_within_the_call(self) -> None:
        """The ledger says what was asked, by which call, and who answered what."""
        response = QuestionResponse("answer", "main", actor=Actor("person", "ann"))
        ended = await run(asking(), responder=saying(response))

        assert kinds(ended.session)[1:] == [
            "call.started",
            "question.asked",
            "question.answered",
            "tool.invoked",
        ]
        (asked,), (answered,) = (
            found(ended.session, QuestionAsked),
            found(ended.session, QuestionAnswered),
        )
        assert asked.question.text == "Which one?"
        assert asked.question.schema == {"type": "string"}
        assert asked.call_id == answered.call_id == ended.outcome.call_id
        assert (answered.value, answered.actor) == ("main", Actor("person", "ann"))

    async def test_a_secret_answer_is_nowhere(self) -> None:
        """A secret answer is not recorded, and is hidden where the handler repeats it."""

        @tool
        async def ask(ctx: ToolContext) -> str:
            """Ask."""
            ctx.output(f"trying {await ctx.ask('Password?', secret=True)}")
            return "the password hunter2 is right"

        ended = await run(ask, responder=saying("hunter2"))

        assert ended.outcome.ok
        assert "hunter2" not in ended.outcome.text
        assert "hunter2" not in str([record.payload for record in ended.session.records()])
        (answered,) = found(ended.session, QuestionAnswered)
        assert answered.is_secret
        assert answered.value is None

    async def test_secret_fields_of_an_answer_are_hidden(self) -> None:
        """A field that its type marks as secret is hidden, and the others are shown."""

        @dataclass
        class Login:
            user: str
            password: Annotated[str, Secret()]

        @tool
        async def ask(ctx: ToolContext) -> str:
            """Ask."""
            login = await ctx.ask("Login?", Login)
            return f"{login.user}:{login.password}"

        ended = await run(ask, responder=saying({"user": "ann", "password": "hunter2"}))

        (answered,) = found(ended.session, QuestionAnswered)
        assert answered.value["user"] == "ann"
        assert "hunter2" not in str([record.payload for record in ended.session.records()])

    async def test_secrets_of_the_arguments_are_hidden_in_the_question(self) -> None:
        """What is shown to a person and recorded holds no secret argument."""

        @tool
        async def ask(token: Annotated[str, Secret()], ctx: ToolContext) -> str:
            """Ask."""
            return await ctx.ask(f"Use {token}?", choices=[token, "other"])

        ended = await run(ask, {"token": "tok-12345"}, responder=saying("other"))

        (asked,) = found(ended.session, QuestionAsked)
        assert "tok-12345" not in str(asked)
        assert ended.outcome.text == "other"

    async def test_the_transcript_reads_like_a_conversation(self) -> None:
        """Who reads a session sees what was asked and what came of it."""
        answered = await run(asking(), responder=saying("main"))
        declined = await run(asking(), responder=saying(QuestionResponse("decline", reason="no")))

        assert [(entry.what, entry.tool) for entry in answered.session.transcript()] == [
            ("asked", "ask"),
            ("answered", "ask"),
            ("completed", "ask"),
        ]
        assert declined.session.transcript()[1].text == "declined: no"


class TestNoAnswer:
    @pytest.mark.parametrize(
        ("response", "kind", "error", "why"),
        [
            (QuestionResponse("decline", reason="no"), "denied", QuestionDeclined, "declined"),
            (QuestionResponse("cancel"), "cancelled", QuestionCancelled, "cancelled"),
            (QuestionResponse("nobody"), "unavailable", NobodyToAsk, "nobody"),
            (None, "unavailable", NobodyToAsk, "nobody"),
        ],
        ids=["declined", "cancelled", "nobody", "none"],
    )
    async def test_each_end_has_its_kind(
        self, response: Any, kind: str, error: type[Exception], why: str
    ) -> None:
        """A handler that does not catch it fails with the kind that fits, and the record says."""
        ended = await run(asking(), responder=saying(response))

        assert ended.failure == kind
        assert isinstance(ended.outcome.error, error)
        assert [closed.why for closed in found(ended.session, QuestionClosed)] == [why]

    async def test_nobody_to_ask_ends_at_once(self) -> None:
        """In a program without a responder nothing waits."""
        ended = await run(asking())

        assert ended.failure == "unavailable"
        assert "nobody" in ended.outcome.text

    async def test_a_responder_that_fails_is_nobody(self) -> None:
        """A broken responder opens nothing and hangs nothing."""

        def broken(_: Question) -> object:
            raise RuntimeError("no screen")

        ended = await run(asking(), responder=CallbackResponder(broken))

        assert ended.failure == "unavailable"
        assert "no screen" not in ended.outcome.text

    async def test_a_handler_may_catch_it(self) -> None:
        """What a declined question means is the tool's to say."""

        @tool
        async def ask(ctx: ToolContext) -> str:
            """Ask."""
            try:
                return await ctx.ask("Which?")
            except QuestionDeclined:
                return "the first one, then"

        ended = await run(ask, responder=saying(QuestionResponse("decline")))

        assert ended.outcome.text == "the first one, then"

    def test_a_question_expires(self) -> None:
        """Nothing hangs for ever: a question has a time limit of its own."""
        silent = Silent()
        ended = run_in_virtual_time(run(asking(seconds=30), responder=silent))

        assert ended.failure == "expired"
        assert isinstance(ended.outcome.error, QuestionExpired)
        assert [closed.why for closed in found(ended.session, QuestionClosed)] == ["expired"]

    def test_the_default_time_is_a_limit_of_the_executor(self) -> None:
        """A host says how long questions may stay open."""

        async def scene() -> float:
            started_at = asyncio.get_running_loop().time()
            await run(asking(), responder=Silent(), limits=Limits(question_seconds=9))
            return asyncio.get_running_loop().time() - started_at

        assert 9 <= run_in_virtual_time(scene()) < 9.5

    async def test_answers_that_do_not_fit_are_told_and_asked_again(self) -> None:
        """A responder hears what was wrong; after three misfits the question is left."""
        faults: list[str | None] = []

        def misfit(question: Question) -> object:
            faults.append(question.fault)
            return "seven"

        ended = await run(asking(int), responder=CallbackResponder(misfit))

        assert ended.failure == "cancelled"
        assert len(faults) == 3
        assert faults[0] is None
        assert faults[1] is not None
        assert "integer" in faults[1]


class TestOpen:
    """Questions that people answer through the session."""

    async def asked(self, session: Session, declared: Any, **options: Any) -> Any:
        session.questions.is_attended = True
        executor = Executor(session, [declared], **options)
        is_asked = asyncio.Event()
        session.bus.subscribe(QuestionAsked, lambda _: is_asked.set())
        task = asyncio.ensure_future(executor.call("ask", call_id="c1"))
        await is_asked.wait()
        return task, session.questions.pending()[0]

    async def test_somebody_answers_while_it_is_open(self) -> None:
        """An attended session waits for whoever looks at what is pending."""
        session = Session()
        task, question = await self.asked(session, asking(int))
        await session.questions.answer(question.question_id, 5, by="ann")
        outcome = await task

        assert outcome.ok
        assert GOT == [5]
        assert session.questions.pending() == []
        (answered,) = found(session, QuestionAnswered)
        assert answered.actor == Actor("person", "ann")

    @pytest.mark.parametrize("value", ["five", None, True, "x" * (MAX_ANSWER_BYTES + 1)])
    async def test_an_invalid_answer_leaves_it_open(self, value: Any) -> None:
        """The fault is said, nothing is lost, and the next answer counts."""
        session = Session()
        task, question = await self.asked(session, asking(int))
        with pytest.raises(InvalidAnswer):
            await session.questions.answer(question.question_id, value, by="ann")

        assert session.questions.pending() == [question]
        await session.questions.answer(question.question_id, 5, by="ann")
        assert (await task).ok

    async def test_an_answer_counts_once(self) -> None:
        """The first answer is final; a later one is refused."""
        session = Session()
        task, question = await self.asked(session, asking())
        await session.questions.answer(question.question_id, "a", by="ann")
        with pytest.raises(InvalidAnswer, match="not open"):
            await session.questions.answer(question.question_id, "b", by="bob")

        assert (await task).ok
        assert GOT == ["a"]

    async def test_the_first_of_responder_and_people_counts(self) -> None:
        """An answer through the session takes the question away from the responder."""
        session, silent = Session(), Silent()
        task, question = await self.asked(session, asking(), responder=silent)
        await session.questions.answer(question.question_id, "a", by="ann")

        assert (await task).ok

    async def test_cancelling_the_call_withdraws_it(self) -> None:
        """A question does not outlive its call."""
        session = Session()
        task, _ = await self.asked(session, asking())
        assert Executor(session).cancel("c1")
        outcome = await task

        assert outcome.failure is not None
        assert outcome.failure.kind == "cancelled"
        assert session.questions.pending() == []
        assert [closed.why for closed in found(session, QuestionClosed)] == ["withdrawn"]
        assert kinds(session)[-2:] == ["question.closed", "tool.invoked"]

    async def test_closing_the_session_withdraws_it(self) -> None:
        """Nobody can answer in a session that is closed."""
        session = Session()
        task, _ = await self.asked(session, asking())
        await session.close()

        assert session.questions.pending() == []
        with pytest.raises(Exception):  # noqa: B017, PT011 - the store is gone, or the call fails
            (await task).unwrap()

    async def test_a_question_left_behind_is_withdrawn_with_its_call(self) -> None:
        """A task that outlives its handler gets no answer any more."""
        asked: list[asyncio.Task[str]] = []

        @tool
        async def ask(ctx: ToolContext) -> str:
            """Ask, and do not wait."""
            asked.append(asyncio.ensure_future(ctx.ask("Which?")))
            await asyncio.sleep(0)
            return "done"

        session = Session()
        session.questions.is_attended = True
        await Executor(session, [ask]).call("ask")
        with pytest.raises(QuestionCancelled):
            await asked[0]

        assert [closed.why for closed in found(session, QuestionClosed)] == ["withdrawn"]

    async def test_the_number_of_questions_of_a_call_is_bounded(self) -> None:
        """A tool in a loop cannot ask for ever."""

        @tool
        async def ask(ctx: ToolContext) -> str:
            """Ask again and again."""
            while True:
                await ctx.ask("Again?")

        ended = await run(ask, responder=saying("yes"))

        assert ended.failure == "tool_error"
        assert len(found(ended.session, QuestionAnswered)) == 100


class TestWhom:
    async def test_the_person_at_the_connection_comes_first(self) -> None:
        """A question goes to whoever is nearest to the call: connection, executor, session."""
        session = Session(responder=saying("session"))
        with answered_by(saying("connection")):
            await run(asking(), session=session, responder=saying("executor"))
        await run(asking(), session=session, responder=saying("executor"))
        await run(asking(), session=session)

        assert GOT == ["connection", "executor", "session"]

    async def test_a_question_says_whose_call_asks(self) -> None:
        """Whoever shows it knows the caller, the tool and the call around it."""
        seen: list[Question] = []

        @tool(uses=("ask",))
        async def outer(ctx: ToolContext) -> str:
            """Call the tool that asks."""
            return (await ctx.call_tool("ask")).text

        session = Session()
        executor = Executor(
            session,
            [outer, asking()],
            responder=CallbackResponder(lambda question: seen.append(question) or "x"),
        )
        outcome = await executor.call("outer", call_id="c1", caller=Caller("ann", "http"))

        assert outcome.text == "done"
        assert seen[0].caller == Caller("ann", "http")
        assert seen[0].parent_call_id == "c1"
        assert seen[0].tool.name == "ask"


def slow_answer(seconds: float) -> CallbackResponder:
    async def respond(_: Question) -> str:
        await asyncio.sleep(seconds)
        return "main"

    return CallbackResponder(respond)


class TestTime:
    """The tool's time limit stands still while a question is open; a caller's deadline does not."""

    def test_waiting_for_a_person_does_not_count(self) -> None:
        """A tool of five seconds may ask somebody who takes a minute, and go on."""

        @tool(timeout=5)
        async def ask(ctx: ToolContext) -> str:
            """Work, ask, work."""
            await asyncio.sleep(3)
            answer = await ctx.ask("Which?")
            await asyncio.sleep(1.5)
            return answer

        ended = run_in_virtual_time(run(ask, responder=slow_answer(60)))

        assert ended.outcome.text == "main"

    def test_the_limit_goes_on_after_the_answer(self) -> None:
        """Only the wait is free: what the handler takes itself counts as before."""

        @tool(timeout=5)
        async def ask(ctx: ToolContext) -> str:
            """Work, ask, work too long."""
            await asyncio.sleep(3)
            await ctx.ask("Which?")
            await asyncio.sleep(3)
            return "late"

        async def scene() -> tuple[Any, float]:
            started_at = asyncio.get_running_loop().time()
            ended = await run(ask, responder=slow_answer(60))
            return ended, asyncio.get_running_loop().time() - started_at

        ended, seconds = run_in_virtual_time(scene())

        assert ended.failure == "timeout"
        assert 65 <= seconds < 66

    def test_the_limits_of_outer_calls_stand_still_too(self) -> None:
        """A nested call that asks does not use up the time of the call around it."""

        @tool
        async def ask(ctx: ToolContext) -> str:
            """Ask."""
            return await ctx.ask("Which?")

        @tool(timeout=5, uses=("ask",))
        async def outer(ctx: ToolContext) -> str:
            """Call the tool that asks."""
            return (await ctx.call_tool("ask")).text

        async def scene() -> str:
            executor = Executor(Session(), [ask, outer], responder=slow_answer(60))
            return (await executor.call("outer")).text

        assert run_in_virtual_time(scene()) == "main"

    def test_two_questions_at_once_are_one_wait(self) -> None:
        """The limit moves by the time that passed, however many questions were open."""

        @tool(timeout=5)
        async def ask(ctx: ToolContext) -> str:
            """Ask twice at once, then take too long."""
            await asyncio.gather(ctx.ask("A?"), ctx.ask("B?"))
            await asyncio.sleep(6)
            return "late"

        ended = run_in_virtual_time(run(ask, responder=slow_answer(60)))

        assert ended.failure == "timeout"

    def test_the_callers_deadline_does_not_move(self) -> None:
        """Whoever set a deadline gets the end of the call by then, answered or not."""

        async def scene() -> tuple[Any, float]:
            loop = asyncio.get_running_loop()
            executor = Executor(Session(), [asking()], responder=Silent())
            outcome = await executor.call("ask", deadline=loop.time() + 10)
            return outcome, loop.time()

        started = run_in_virtual_time(scene())

        assert started[0].failure.kind in ("expired", "timeout")

    def test_the_record_says_how_long_it_waited(self) -> None:
        """Waiting for a person is not the duration of the tool."""

        @tool
        async def ask(ctx: ToolContext) -> str:
            """Ask."""
            return await ctx.ask("Which?")

        async def scene() -> Session:
            loop = asyncio.get_running_loop()
            session = Session(clock=lambda: 1_000.0 + loop.time())
            await run(ask, session=session, responder=slow_answer(60))
            return session

        record = invoked(run_in_virtual_time(scene()))[-1]

        assert record.waited_seconds == pytest.approx(60, abs=1)
        assert record.duration_seconds < 1

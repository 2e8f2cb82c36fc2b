"""Where a handler runs, and what becomes of what it raises."""

import asyncio
import contextvars
import gc
import threading
import traceback
import weakref
from dataclasses import dataclass
from typing import Any

import pytest

from tests.calls.runs import found, invoked, kinds, run
from tests.helpers.patience import PATIENCE
from toolcrib import (
    ApprovalRequired,
    Approve,
    CallbackApprover,
    CallFailed,
    Executor,
    ModelRetry,
    NativeTool,
    Session,
    Tool,
    ToolContext,
    tool,
)
from toolcrib.approval.decision import ApprovalRequest
from toolcrib.calls.call import Call
from toolcrib.ledger.events import CallStarted


@dataclass(frozen=True)
class Found:
    text: str


CITY: contextvars.ContextVar[str] = contextvars.ContextVar("CITY", default="nowhere")


class TestPlaces:
    async def test_a_sync_handler_runs_off_the_loop(self) -> None:
        """R6, R18: a blocking function cannot stall the event loop."""
        loop_goes_on = threading.Event()

        @tool
        def block() -> str:
            """Wait for the loop."""
            assert loop_goes_on.wait(PATIENCE)
            return threading.current_thread().name

        asyncio.get_running_loop().call_soon(loop_goes_on.set)
        ended = await run(block)

        assert ended.outcome.value == "toolcrib-worker"

    async def test_an_async_handler_runs_on_the_loop(self) -> None:
        """An async handler shares the caller's loop, so it can use its connections."""

        @tool
        async def where() -> bool:
            """Where am I?"""
            return asyncio.get_running_loop() is here

        here = asyncio.get_running_loop()

        assert (await run(where)).outcome.value is True

    @pytest.mark.parametrize("limit", [None, 60.0])
    async def test_a_sync_handler_keeps_the_context_variables(self, limit: float | None) -> None:
        """What the caller set in a context variable is there in the worker thread."""

        @tool(timeout=limit)
        def where() -> str:
            """Where am I?"""
            return CITY.get()

        token = CITY.set("Oslo")
        try:
            assert (await run(where)).outcome.value == "Oslo"
        finally:
            CITY.reset(token)

    async def test_an_async_handler_keeps_the_context_variables(self) -> None:
        """What the caller set in a context variable is there in an async handler, too."""

        @tool(timeout=60)
        async def where() -> str:
            """Where am I?"""
            return CITY.get()

        token = CITY.set("Oslo")
        try:
            assert (await run(where)).outcome.value == "Oslo"
        finally:
            CITY.reset(token)

    async def test_worker_threads_are_used_again(self) -> None:
        """Sync calls one after the other share threads; they do not need one each."""

        @tool
        def who() -> int:
            """Which thread?"""
            return threading.get_ident()

        executor = Executor(Session(), [who])
        threads = {(await executor.call("who")).value for _ in range(20)}

        # A thread may be asked for again before it has put itself back.
        assert len(threads) < 10

    async def test_a_tool_without_a_handler_needs_a_runner(self) -> None:
        """A client's tool is `unavailable` while nothing is connected that could run it."""
        lamp = Tool[None, str](name="lamp", description="Switch the lamp.")

        ended = await run(lamp)

        assert ended.failure == "unavailable"
        assert kinds(ended.session) == ["session.opened", "tool.invoked"]

    async def test_a_runner_runs_the_calls_of_its_place(self) -> None:
        """A call goes through the same path wherever it runs: started, run, recorded."""

        class Client:
            async def run(self, call: Call) -> Any:
                return f"client ran {call.name}"

        lamp = Tool[None, str](name="lamp", description="Switch the lamp.")

        ended = await run(lamp, runners={"client": Client()})

        assert ended.outcome.value == "client ran lamp"
        assert kinds(ended.session) == ["session.opened", "call.started", "tool.invoked"]

    async def test_a_provider_tool_is_not_run_here(self) -> None:
        """N8, N19: no local code runs for a tool of the provider, whatever runners there are."""

        class Never:
            async def run(self, call: Call) -> Any:
                raise AssertionError

        search = NativeTool[None, Found](name="web_search", description="Search.")

        ended = await run(search, runners={"provider": Never()})

        assert ended.failure == "unavailable"


class TestStart:
    @pytest.mark.parametrize("is_heard", [False, True])
    async def test_started_is_in_the_ledger_when_the_handler_runs(self, is_heard: bool) -> None:
        """A crash in the handler must leave a trace, so "started" is written first."""
        seen: list[str] = []
        session = Session()
        if is_heard:
            session.bus.subscribe(CallStarted, lambda _: None)

        @tool
        async def look(ctx: ToolContext) -> str:
            """Look at the ledger."""
            (started,) = found(session, CallStarted)
            assert started.call_id == ctx.call_id
            assert started.idempotency_key == ctx.idempotency_key
            assert started.arguments_digest
            seen.extend(kinds(session))
            return "ok"

        ended = await run(look, session=session)

        assert ended.outcome.ok
        assert seen == ["session.opened", "call.started"]

    async def test_start_and_finish_name_the_same_call(self) -> None:
        """R46, R50: both records carry the tool's version and the digest of the arguments."""

        @tool(version="1.2.0")
        async def add(a: int, b: int) -> int:
            """Add."""
            return a + b

        ended = await run(add, {"a": 1, "b": 2})

        (started,) = found(ended.session, CallStarted)
        assert started.tool == ended.record.tool
        assert started.tool.version == "1.2.0"
        assert started.arguments_digest == ended.record.arguments_digest


class TestErrors:
    @pytest.mark.parametrize("is_sync", [False, True])
    async def test_an_exception_is_an_outcome(self, is_sync: bool) -> None:
        """R19: what a handler raises is a failure with type and message, and no traceback."""

        def fail() -> str:
            """Fail."""
            raise LookupError("no such book")

        async def fail_async() -> str:
            """Fail."""
            return fail()

        ended = await run(tool(name="fail")(fail if is_sync else fail_async))

        assert ended.failure == "tool_error"
        assert ended.outcome.text == "LookupError: no such book"
        assert ended.record.failure == ended.outcome.failure
        assert ended.outcome.failure is not None
        assert ended.outcome.failure.error_type == "LookupError"

    async def test_an_exception_without_words_is_named(self) -> None:
        """R19: the model is never told nothing."""

        @tool
        async def fail() -> str:
            """Fail."""
            raise ZeroDivisionError

        assert (await run(fail)).outcome.text == "ZeroDivisionError"

    async def test_unwrap_raises_the_tools_own_exception(self) -> None:
        """T24: the developer gets the original exception, with its traceback."""

        @tool
        async def fail() -> str:
            """Fail."""
            raise LookupError("no such book")

        outcome = (await run(fail)).outcome

        with pytest.raises(LookupError, match="no such book") as raised:
            outcome.unwrap()
        assert "in fail" in "".join(traceback.format_tb(raised.value.__traceback__))

    async def test_unwrap_raises_call_failed_when_the_tool_raised_nothing(self) -> None:
        """A failure without an exception of the tool is `CallFailed`, with the failure."""
        outcome = (await run(tool(len_of), "[]")).outcome

        with pytest.raises(CallFailed) as raised:
            outcome.unwrap()
        assert raised.value.failure is outcome.failure

    async def test_a_handlers_stop_iteration_is_an_error_like_others(self) -> None:
        """A future refuses StopIteration; the call must still come to its end."""

        @tool
        def fail() -> str:
            """Fail."""
            raise StopIteration

        ended = await run(fail)

        assert ended.failure == "tool_error"
        assert "StopIteration" in ended.outcome.text

    async def test_a_handler_that_asks_again_after_a_yes_fails(self) -> None:
        """A yes is given once; a tool that is never content does not run for ever."""
        runs: list[str] = []

        @tool
        async def greedy() -> str:
            """Ask, whatever the answer."""
            runs.append("ran")
            raise ApprovalRequired

        async def yes(_: ApprovalRequest) -> Approve:
            return Approve()

        ended = await run(greedy, approver=CallbackApprover(yes))

        assert runs == ["ran", "ran"]
        assert ended.outcome.text == (
            "RuntimeError: greedy asked for approval again after it was given"
        )

    async def test_model_retry_tells_the_model_what_to_mend(self) -> None:
        """T28: a request to try again is a failure that the model reads, not a crash."""

        @tool
        async def pick(city: str) -> str:
            """Pick."""
            raise ModelRetry(f"There is no {city}; ask for a capital.")

        ended = await run(pick, {"city": "Xyz"})

        assert ended.failure == "tool_error"
        assert ended.outcome.text == "There is no Xyz; ask for a capital."
        assert ended.record.failure is not None
        assert ended.record.failure.error_type == "ModelRetry"
        with pytest.raises(ModelRetry):
            ended.outcome.unwrap()


class Load:
    """Something that a handler holds."""


async def test_a_session_does_not_keep_what_a_failed_handler_held() -> None:
    """A ledger in memory keeps the facts of a call, not the frames that its traceback holds."""
    held: list[weakref.ref[Load]] = []

    @tool
    async def fail() -> str:
        """Fail with something in hand."""
        load = Load()
        held.append(weakref.ref(load))
        raise LookupError

    session = Session()
    await Executor(session, [fail]).call("fail")
    gc.collect()

    assert held[0]() is None
    assert len(invoked(session)) == 1


class TestSignals:
    @pytest.mark.parametrize("signal", [KeyboardInterrupt, SystemExit])
    @pytest.mark.parametrize("is_sync", [False, True])
    def test_an_interrupt_goes_on_up_and_is_recorded(
        self, signal: type[BaseException], is_sync: bool
    ) -> None:
        """R19: an interrupt is not swallowed into a result; the attempt is still on record."""
        session = Session()

        def stop() -> str:
            """Stop."""
            raise signal

        async def stop_async() -> str:
            """Stop."""
            return stop()

        with pytest.raises(signal):
            asyncio.run(_call(session, tool(name="stop")(stop if is_sync else stop_async)))

        (ended,) = invoked(session)
        assert ended.failure is not None
        assert ended.failure.kind == "cancelled"


async def _call(session: Session, declared: Any) -> None:
    await run(declared, session=session)


def len_of(text: str) -> int:
    """How long?"""
    return len(text)

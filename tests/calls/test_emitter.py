"""What a running call says to whoever watches: progress, output and events of its own."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.calls.runs import Run, found, kinds, run
from toolcrib import ApprovalRequired, Executor, Session, ToolContext, tool
from toolcrib.calls.emitter import MAX_EVENT_BYTES, MAX_EVENTS_PER_CALL, PROGRESS_INTERVAL_SECONDS
from toolcrib.errors import InvalidEvent, UsageError
from toolcrib.ledger.events import Event, ToolEmitted, ToolOutput, ToolProgress
from toolcrib.testing import FakeClock, Recorder, run_in_virtual_time

Speech = Callable[[ToolContext], object]


async def say(what: Speech, session: Session | None = None) -> Run:
    """Run `what(ctx)` as a tool named `speak`."""

    @tool
    async def speak(ctx: ToolContext) -> str:
        """Speak."""
        what(ctx)
        return "done"

    return await run(speak, session=session)


class TestProgress:
    async def test_progress_is_an_event(self) -> None:
        """R51: progress carries session, call and tool, and is in the ledger."""
        ended = await say(lambda ctx: ctx.progress(1, 3, "one of three"))

        (event,) = found(ended.session, ToolProgress)
        assert (event.current, event.total, event.message) == (1, 3, "one of three")
        assert event.call_id == ended.outcome.call_id
        assert (event.session_id, event.tool) == (ended.session.session_id, "speak")

    async def test_rapid_progress_is_coalesced(self) -> None:
        """R51: within the interval only the first and the latest are kept."""
        session = Session(clock=FakeClock())

        def count(ctx: ToolContext) -> None:
            for number in range(1000):
                ctx.progress(number, 999)

        await say(count, session)

        assert [event.current for event in found(session, ToolProgress)] == [0, 999]

    async def test_slow_progress_is_kept(self) -> None:
        """R51: progress that comes slowly is told as it comes."""
        clock = FakeClock()
        session = Session(clock=clock)

        def count(ctx: ToolContext) -> None:
            for number in range(4):
                ctx.progress(number)
                clock.advance(2 * PROGRESS_INTERVAL_SECONDS)

        await say(count, session)

        assert [event.current for event in found(session, ToolProgress)] == [0, 1, 2, 3]

    async def test_a_later_progress_replaces_what_was_not_sent(self) -> None:
        """R51: once the interval is over, the newest counts and the one before it is dropped."""
        clock = FakeClock()
        session = Session(clock=clock)

        def count(ctx: ToolContext) -> None:
            ctx.progress(1)
            ctx.progress(2)
            clock.advance(2 * PROGRESS_INTERVAL_SECONDS)
            ctx.progress(3)

        await say(count, session)

        assert [event.current for event in found(session, ToolProgress)] == [1, 3]

    async def test_the_last_progress_comes_before_the_end(self) -> None:
        """R51: nothing follows the end of a call, so what was held back is sent before it."""
        session = Session(clock=FakeClock())

        await say(lambda ctx: (ctx.progress(1), ctx.progress(2)), session)

        assert kinds(session)[-3:] == ["tool.progress", "tool.progress", "tool.invoked"]


class TestOutput:
    async def test_output_is_for_watchers_and_not_for_the_model(self) -> None:
        """R51: output never enters what the model sees."""
        ended = await say(lambda ctx: ctx.output("compiling ..."))

        assert [event.chunk for event in found(ended.session, ToolOutput)] == ["compiling ..."]
        assert ended.outcome.text == "done"

    async def test_undecodable_output_is_spelt_out(self) -> None:
        """R21: bytes that are no text, as a subprocess may print them, can still be recorded."""
        ended = await say(lambda ctx: ctx.output("caf\udce9"))

        assert [event.chunk for event in found(ended.session, ToolOutput)] == ["caf\\udce9"]


class TestEmit:
    async def test_a_tool_emits_events_of_its_own(self) -> None:
        """R51: a tool's own events carry its name in their type."""
        ended = await say(lambda ctx: ctx.emit("tool.speak.word", {"word": "hi"}))

        (event,) = found(ended.session, ToolEmitted)
        assert (event.type, event.data) == ("tool.speak.word", {"word": "hi"})

    @pytest.mark.parametrize(
        "name", ["tool.other.word", "tool.speak", "tool.speak.", "speak.word", "", 5]
    )
    async def test_other_types_are_refused(self, name: Any) -> None:
        """R51: a tool cannot speak in another one's name, nor in ours."""
        ended = await say(lambda ctx: ctx.emit(name, None))

        assert isinstance(ended.outcome.error, InvalidEvent)
        assert found(ended.session, ToolEmitted) == []

    async def test_the_data_is_a_copy(self) -> None:
        """What a tool changes after it emitted it does not change the record."""
        data = {"words": ["hi"]}
        session = Session()
        heard = Recorder(session.bus)

        def emit(ctx: ToolContext) -> None:
            ctx.emit("tool.speak.word", data)
            data["words"].append("ho")

        await say(emit, session)

        (recorded,) = found(session, ToolEmitted)
        (live,) = heard.of(ToolEmitted)
        assert recorded.data == live.data == {"words": ["hi"]}

    @pytest.mark.parametrize("data", [object(), {"word": "\udce9"}, {1, object()}])
    async def test_data_that_is_not_json_is_refused(self, data: object) -> None:
        """R51: what could not be sent is refused where it is emitted."""
        ended = await say(lambda ctx: ctx.emit("tool.speak.word", data))

        assert isinstance(ended.outcome.error, InvalidEvent)
        assert "not JSON" in ended.outcome.text


def speak_wrongly(ctx: ToolContext, what: str) -> None:
    wrong: Any = object()
    match what:
        case "current":
            ctx.progress(wrong)
        case "total":
            ctx.progress(1, wrong)
        case "message":
            ctx.progress(1, 2, wrong)
        case "infinity":
            ctx.progress(float("inf"))
        case "huge":
            ctx.progress(10**400)
        case _:
            ctx.output(wrong)


@pytest.mark.parametrize("what", ["current", "total", "message", "infinity", "huge", "chunk"])
async def test_what_could_not_be_read_back_is_refused(what: str) -> None:
    """A tool that says nonsense fails alone; the ledger stays readable for everybody."""
    ended = await say(lambda ctx: speak_wrongly(ctx, what))

    assert isinstance(ended.outcome.error, InvalidEvent)
    assert len(ended.session.transcript()) == 1


class TestCaps:
    async def test_an_event_that_is_too_large_is_refused(self) -> None:
        """R51: large data belongs into the result."""
        text = "x" * MAX_EVENT_BYTES
        speeches: list[Speech] = [
            lambda ctx: ctx.output(text),
            lambda ctx: ctx.progress(1, 2, text),
            lambda ctx: ctx.emit("tool.speak.word", text),
        ]

        for speech in speeches:
            ended = await say(speech)
            assert isinstance(ended.outcome.error, InvalidEvent)
            assert kinds(ended.session) == ["session.opened", "call.started", "tool.invoked"]

    async def test_a_call_has_a_number_of_events(self) -> None:
        """R51: one call cannot flood the ledger; progress does not count, it is coalesced."""

        def flood(ctx: ToolContext) -> None:
            for number in range(MAX_EVENTS_PER_CALL + 1):
                ctx.progress(number)
                ctx.output("x")

        ended = await say(flood, Session(clock=FakeClock()))

        assert isinstance(ended.outcome.error, InvalidEvent)
        assert len(found(ended.session, ToolOutput)) == MAX_EVENTS_PER_CALL


class TestOrder:
    async def test_events_keep_their_order(self) -> None:
        """R51: what was said first is heard first, progress included."""
        session = Session(clock=FakeClock())
        heard = Recorder(session.bus)

        def speak(ctx: ToolContext) -> None:
            ctx.progress(1)
            ctx.progress(2)
            ctx.output("a")
            ctx.progress(3)
            ctx.emit("tool.speak.word", "b")
            ctx.progress(4)

        await say(speak, session)

        said = [_words(event) for event in heard.events]
        assert said == ["call.started", 1, 2, "a", 3, "b", 4, "tool.invoked"]
        assert [record.event for record in session.records()][-len(said) + 1 : -1] == (
            heard.events[1:-1]
        )

    async def test_threads_of_one_call_do_not_mix_up_its_events(self) -> None:
        """R51: a handler may speak from its worker thread, and from threads of its own."""

        @tool
        def speak(ctx: ToolContext) -> str:
            """Speak from several threads."""

            def count(name: int) -> None:
                for number in range(50):
                    ctx.output(f"{name}:{number}")

            threads = [threading.Thread(target=count, args=(name,)) for name in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            return "done"

        session = Session()
        heard = Recorder(session.bus)
        await run(speak, session=session)

        chunks = [event.chunk for event in found(session, ToolOutput)]
        assert chunks == [event.chunk for event in heard.of(ToolOutput)]
        for name in range(4):
            mine = [chunk for chunk in chunks if chunk.startswith(f"{name}:")]
            assert mine == [f"{name}:{number}" for number in range(50)]
        session.verify()


def _words(event: Event) -> Any:
    match event:
        case ToolProgress():
            return event.current
        case ToolOutput():
            return event.chunk
        case ToolEmitted():
            return event.data
        case _:
            return event.kind


class TestAfterTheEnd:
    @pytest.mark.parametrize("has_spoken", [False, True])
    async def test_a_call_that_is_over_says_nothing_more(self, has_spoken: bool) -> None:
        """R51: events are refused after completion, also when they would be the first."""
        kept: list[ToolContext] = []

        def keep(ctx: ToolContext) -> None:
            kept.append(ctx)
            if has_spoken:
                ctx.output("still here")

        ended = await say(keep)
        before = kinds(ended.session)

        for speak in (
            lambda: kept[0].progress(1),
            lambda: kept[0].output("late"),
            lambda: kept[0].emit("tool.speak.late"),
        ):
            with pytest.raises(InvalidEvent, match="is over"):
                speak()
        assert kinds(ended.session) == before

    def test_a_handler_that_was_given_up_says_nothing_more(self) -> None:
        """R51: a handler that outlived its limit is not heard any more."""
        let_go = asyncio.Event()
        caught: list[str] = []

        @tool(timeout=5)
        async def deaf(ctx: ToolContext) -> str:
            """Never stop."""
            while not let_go.is_set():
                try:
                    await let_go.wait()
                except asyncio.CancelledError:
                    continue
            try:
                ctx.output("late")
            except InvalidEvent as error:
                caught.append(str(error))
            return "done"

        async def scene() -> Session:
            session = Session()
            executor = Executor(session, [deaf])
            await executor.call("deaf")
            let_go.set()
            await asyncio.sleep(1)
            return session

        session = run_in_virtual_time(scene())

        assert len(caught) == 1
        assert kinds(session)[-1] == "tool.invoked"

    async def test_a_call_that_waits_says_nothing_more(self) -> None:
        """R51: a handler that asked for approval is over; when the call goes on it runs anew."""
        kept: list[ToolContext] = []

        def ask(ctx: ToolContext) -> None:
            kept.append(ctx)
            ctx.progress(1)
            ctx.progress(2)
            raise ApprovalRequired

        ended = await say(ask, Session(clock=FakeClock()))

        assert ended.outcome.status == "waiting"
        assert [event.current for event in found(ended.session, ToolProgress)] == [1, 2]
        with pytest.raises(InvalidEvent, match="is over"):
            kept[0].output("late")

    def test_a_context_made_by_hand_says_what_it_lacks(self) -> None:
        """A context without a call explains why it cannot emit."""
        ctx = ToolContext(session_id="s", cwd="/")

        with pytest.raises(UsageError, match="not bound to a call"):
            ctx.output("hello")

"""State derived from events: folded in order, past and future, whatever thread they come from."""

import sys
import threading
from pathlib import Path

import pytest

from tests.helpers.patience import PATIENCE
from tests.session.samples import add_up, executor
from toolcrib import CallRequest, Executor, Session, SqliteStore, ToolContext, ToolInvoked, tool
from toolcrib.errors import UsageError
from toolcrib.ledger.events import CallStarted, Event, ToolOutput


def count(state: int, _: Event) -> int:
    return state + 1


def names(state: tuple[str, ...], event: ToolInvoked) -> tuple[str, ...]:
    return (*state, event.name)


def broken(state: int, _: Event) -> int:
    raise LookupError("no such state")


class TestFolding:
    async def test_a_reducer_folds_the_events_it_asks_for(self) -> None:
        """N23: each slice sees the events of its type, in order, and no others."""
        session = Session()
        session.add_reducer("names", ToolInvoked, names, ())
        session.add_reducer("all", Event, count, 0)

        await add_up(session, 2)
        await executor(session).call("gone")

        assert session.state("names") == ("add", "add", "gone")
        assert session.state("all") == len(list(session.records()))

    async def test_a_late_reducer_sees_the_past(self) -> None:
        """A reducer gives the same state whenever it is added."""
        session = Session()
        session.add_reducer("early", ToolInvoked, names, ())
        await add_up(session, 3)

        session.add_reducer("late", ToolInvoked, names, ())
        await add_up(session)

        assert session.state("late") == session.state("early") == ("add",) * 4

    async def test_a_reopened_session_folds_its_ledger(self, sqlite_path: Path) -> None:
        """State is a view of the ledger, so it is the same in the next process."""
        store = SqliteStore(sqlite_path)
        async with await Session.open(store, "s") as session:
            await add_up(session, 3)

        async with await Session.open(store, "s") as session:
            session.add_reducer("names", ToolInvoked, names, ())
            assert session.state("names") == ("add",) * 3
        store.close()

    async def test_threads_lose_no_event(self) -> None:
        """R51: sync handlers emit from their own threads; every event is counted."""
        session = Session()
        session.add_reducer("count", ToolOutput, count, 0)
        together = threading.Barrier(4)

        @tool
        def speak(ctx: ToolContext) -> str:
            """Speak a lot."""
            together.wait(PATIENCE)
            for _ in range(500):
                ctx.output("x")
            return "done"

        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        try:
            await Executor(session, [speak]).call_many([CallRequest("speak")] * 4)
        finally:
            sys.setswitchinterval(interval)

        assert session.state("count") == 2000


class TestFailing:
    async def test_a_reducer_that_fails_does_not_break_the_run(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Like a subscriber, a reducer only watches: the call goes on, the error is logged and
        counted, and the other slices still see the event.
        """
        session = Session()
        session.add_reducer("broken", ToolInvoked, broken, 7)
        session.add_reducer("started", CallStarted, broken, 0)
        session.add_reducer("count", ToolInvoked, count, 0)

        outcome = await executor(session).call("add", {"a": 1, "b": 2})

        assert outcome.value == 3
        assert session.state("broken") == 7
        assert session.state("count") == 1
        assert session.reducers.failures == 2
        assert "the reducer of 'broken' failed on tool.invoked" in caplog.text

    async def test_a_reducer_that_fails_on_the_past_is_refused(self) -> None:
        """When it is added, the program can still do something about it."""
        session = Session()
        await add_up(session)

        with pytest.raises(LookupError):
            session.add_reducer("broken", ToolInvoked, broken, 0)

        session.add_reducer("broken", ToolInvoked, count, 0)
        assert session.state("broken") == 1


class TestKeys:
    def test_a_key_has_one_reducer(self) -> None:
        """A second reducer does not silently take the first one's place."""
        session = Session()
        session.add_reducer("count", Event, count, 0)

        with pytest.raises(UsageError, match="'count' already"):
            session.add_reducer("count", Event, count, 0)

    def test_an_unknown_key_is_named(self) -> None:
        """Asking for state that nobody keeps says what there is."""
        session = Session()
        with pytest.raises(UsageError, match="there are: none"):
            session.state("count")
        session.add_reducer("names", ToolInvoked, names, ())

        with pytest.raises(UsageError, match="there are: names"):
            session.state("count")

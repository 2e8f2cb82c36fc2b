"""A session: who it is, who writes it, and what is left when it is closed."""

import asyncio
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.patience import PATIENCE
from tests.session.samples import add_up, executor
from toolcrib import Executor, MemoryStore, Session, SqliteStore, ToolContext, ToolInvoked, tool
from toolcrib.errors import LeaseHeld, LeaseLost, UsageError
from toolcrib.ledger.events import PayloadsDeleted, SessionOpened, ToolOutput
from toolcrib.store.store import CallOpened, Commit, Lease, OpenCall
from toolcrib.testing import FakeClock, Recorder
from toolcrib.tools.identity import ToolRef

REF = ToolRef("work", "python", "1.0.0", "d", "local")


class TestId:
    def test_a_session_has_an_id_of_its_own(self) -> None:
        """Without a given id, every session has another one."""
        first, second = Session(), Session()

        assert first.session_id.startswith("ses_")
        assert first.session_id != second.session_id

    @pytest.mark.parametrize("session_id", ["a", "A.b:c-d_9", "x" * 128])
    def test_an_id_can_be_given(self, session_id: str) -> None:
        """Letters, digits and a few marks, up to 128."""
        assert Session(session_id).session_id == session_id

    @pytest.mark.parametrize(
        "session_id", ["x" * 129, "a b", "a/b", "a\n", "é", "a'; --", "..\\a", "\ud800"]
    )
    def test_other_ids_are_refused(self, session_id: str) -> None:
        """An id ends up in paths, heads and wires; one that could be mistaken is refused, before
        anything is opened.
        """
        store = MemoryStore()

        with pytest.raises(UsageError, match="not a session id"):
            Session(session_id, store=store)

        assert store.sessions().items == ()

    async def test_call_ids_are_unique_over_writers(self) -> None:
        """A second process of the same session never makes an id that was used before."""
        store = MemoryStore()
        ids: list[str] = []
        for _ in range(2):
            async with Session("s", store=store) as session:
                ids += [(await executor(session).call("add")).call_id for _ in range(2)]

        assert len(set(ids)) == 4


class TestContext:
    async def test_the_handler_sees_the_session(self) -> None:
        """R28: working directory, environment, metadata and deps of the session are in the
        context, with the call's own ids.
        """
        seen: list[ToolContext] = []

        @tool
        async def look(ctx: ToolContext) -> str:
            """Look around."""
            seen.append(ctx)
            return "ok"

        deps = object()
        session = Session(
            "s", cwd="/tmp", environment={"LANG": "C"}, metadata={"team": "a"}, deps=deps
        )
        await Executor(session, [look]).call("look", call_id="c1")

        (ctx,) = seen
        assert (ctx.session_id, ctx.cwd, ctx.call_id, ctx.tool_name) == ("s", "/tmp", "c1", "look")
        assert (ctx.environment, ctx.metadata) == ({"LANG": "C"}, {"team": "a"})
        assert ctx.deps is deps
        assert ctx.session is session
        assert ctx.bus is session.bus
        assert ctx.idempotency_key == "s:c1"
        assert ctx.tool_call_id == "c1"

    async def test_what_one_call_changes_is_not_seen_by_the_next(self) -> None:
        """R2, T21: each call has a context of its own."""
        seen: list[dict[str, Any]] = []

        @tool
        async def meddle(ctx: ToolContext) -> str:
            """Change the context."""
            seen.append({**ctx.environment, **ctx.metadata})
            ctx.environment["LANG"] = "X"
            ctx.metadata["team"] = "x"
            return "ok"

        session = Session(environment={"LANG": "C"}, metadata={"team": "a"})
        calls = Executor(session, [meddle])
        await calls.call("meddle")
        await calls.call("meddle")

        assert seen == [{"LANG": "C", "team": "a"}] * 2
        assert session.environment == {"LANG": "C"}


STORES = pytest.mark.parametrize("kind", ["memory", "sqlite"])


def make_store(kind: str, path: Path) -> MemoryStore | SqliteStore:
    return MemoryStore() if kind == "memory" else SqliteStore(path)


@STORES
class TestClosing:
    async def test_one_writer_at_a_time(self, kind: str, sqlite_path: Path) -> None:
        """Only one process writes a session; the next may when the first has closed it."""
        store = make_store(kind, sqlite_path)
        first = await Session.open(store, "s")

        with pytest.raises(LeaseHeld):
            await Session.open(store, "s")
        await first.close()
        second = await Session.open(store, "s")

        assert [record.event for record in second.records() if record.kind == "session.opened"]
        await second.close()
        store.close()

    async def test_nothing_runs_in_a_closed_session(self, kind: str, sqlite_path: Path) -> None:
        """A call in a session that was closed raises before the handler runs: nobody could read
        about it afterwards.
        """
        store = make_store(kind, sqlite_path)
        session = await Session.open(store, "s")
        ran: list[str] = []

        @tool
        async def work() -> str:
            """Work."""
            ran.append("work")
            return "done"

        calls = Executor(session, [work])
        await calls.call("work")
        await session.close()

        with pytest.raises(LeaseLost):
            await calls.call("work")

        assert ran == ["work"]
        assert len([r for r in session.records() if r.kind == "tool.invoked"]) == 1
        store.close()

    async def test_a_closed_session_can_be_read(self, kind: str, sqlite_path: Path) -> None:
        """What happened stays readable, and the chain holds."""
        store = make_store(kind, sqlite_path)
        session = await Session.open(store, "s")
        await add_up(session)
        await session.close()

        assert [entry.tool for entry in session.transcript()] == ["add"]
        assert session.verify(session.head()) == session.head()
        store.close()

    async def test_closing_twice_is_closing_once(self, kind: str, sqlite_path: Path) -> None:
        """A second close does not disturb whoever writes the session by then."""
        store = make_store(kind, sqlite_path)
        async with await Session.open(store, "s") as first:
            await first.close()
            second = await Session.open(store, "s")

        await add_up(second)

        assert [entry.what for entry in second.transcript()] == ["completed"]
        await second.close()
        store.close()

    async def test_the_next_writer_goes_on_where_the_last_ended(
        self, kind: str, sqlite_path: Path
    ) -> None:
        """One ledger over all writers: gap-free, with a higher fence each time."""
        store = make_store(kind, sqlite_path)
        for _ in range(3):
            async with await Session.open(store, "s") as session:
                await add_up(session)

        records = list(store.records("s"))
        opened = [record.event for record in records if record.kind == "session.opened"]
        fences = [event.fence for event in opened if isinstance(event, SessionOpened)]
        assert [record.seq for record in records] == list(range(1, len(records) + 1))
        assert fences == sorted(set(fences))
        assert len(fences) == 3
        store.close()

    async def test_a_call_that_outlives_its_session_is_told(
        self, kind: str, sqlite_path: Path
    ) -> None:
        """A call that is running when its session is closed cannot be recorded any more, and
        says so instead of pretending.
        """
        store = make_store(kind, sqlite_path)
        session = await Session.open(store, "s")
        begun, go = asyncio.Event(), asyncio.Event()

        @tool
        async def work() -> str:
            """Work."""
            begun.set()
            await go.wait()
            return "done"

        running = asyncio.create_task(Executor(session, [work]).call("work"))
        await begun.wait()
        await session.close()
        go.set()

        with pytest.raises(LeaseLost):
            await running
        store.close()


class WatchedStore(SqliteStore):
    """A store whose writer is busy until somebody asks for a commit now."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.is_asked = threading.Event()
        self.lease = self.acquire("other")

    def commit(self, lease: Lease, commit: Commit) -> None:
        self.is_asked.set()
        super().commit(lease, commit)

    def drain(self) -> Commit:
        self.is_asked.wait(PATIENCE)
        return Commit((), ())

    def settled(self, error: BaseException | None) -> None:
        assert error is None

    def close(self) -> None:
        self.is_asked.set()
        super().close()


def noted(session: Session) -> ToolOutput:
    event = ToolOutput(session_id="s", at=1.0, call_id="c1", tool="t", chunk="piece")
    session.note(event)
    return event


class TestReading:
    @pytest.mark.parametrize("reader", ["records", "reducer", "head"])
    async def test_what_was_only_noted_is_read(self, reader: str, sqlite_path: Path) -> None:
        """R51: nobody waits for progress or output to be durable, but whoever reads the ledger
        right after it finds it.
        """
        store = WatchedStore(sqlite_path)
        session = await Session.open(store, "s")
        store.schedule(store)
        event = noted(session)

        match reader:
            case "records":
                assert [record.event for record in session.records()][-1] == event
            case "reducer":
                session.add_reducer("pieces", ToolOutput, lambda all, one: all + one.chunk, "")
                assert session.state("pieces") == "piece"
            case _:
                head = session.head()
                assert head is not None
                assert head.seq == 2
        store.close()

    async def test_what_a_dead_process_left_is_known_at_once(self, sqlite_path: Path) -> None:
        """A session that is opened without waiting finds what is in doubt, too."""
        store = WatchedStore(sqlite_path)
        lease = store.acquire("s")
        left = OpenCall("c1", REF, b"{}", "d", "started", 1.0)
        store.commit(lease, Commit((), (CallOpened(left),)))
        store.release(lease)
        store.is_asked.clear()
        session = Session("s", store=store)

        assert [call.call_id for call in session.in_doubt()] == ["c1"]
        store.close()

    async def test_reading_writes_nothing_when_nothing_was_noted(self, sqlite_path: Path) -> None:
        """Readers that look again and again cost no writes."""
        with SqliteStore(sqlite_path) as store:
            session = await Session.open(store, "s")
            list(session.records())
            before = store.transactions

            list(session.records())

            assert store.transactions == before

    async def test_what_another_process_writes_can_be_read(self, sqlite_path: Path) -> None:
        """A session whose lease is lost takes nothing more, and reading it goes on."""
        with SqliteStore(sqlite_path) as store:
            session = await Session.open(store, "s")
            store.release(session.lease)
            noted(session)

            assert [record.kind for record in session.records()] == ["session.opened"]


class TestAnnouncing:
    async def test_who_stops_waiting_does_not_silence_the_record(self, sqlite_path: Path) -> None:
        """R38, R46: a call whose awaiter is cancelled while its record is being written is in the
        ledger, so subscribers hear of it, too.
        """
        store = SqliteStore(sqlite_path)
        session = await Session.open(store, "s")
        heard = Recorder(session.bus)
        lock = sqlite3.connect(sqlite_path, isolation_level=None)
        finished = asyncio.Event()

        @tool
        async def work() -> str:
            """Finish while nobody can write."""
            lock.execute("BEGIN IMMEDIATE")
            finished.set()
            return "done"

        task = asyncio.create_task(Executor(session, [work]).call("work"))
        await finished.wait()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        lock.execute("ROLLBACK")
        lock.close()
        await session.close()

        (live,) = heard.of(ToolInvoked)
        assert live.success
        assert [r.event for r in store.records("s") if r.kind == "tool.invoked"] == [live]
        store.close()

    async def test_deleting_payloads_is_on_record(self) -> None:
        """Who deleted the contents, and when, is the one thing that stays."""
        clock = FakeClock()
        session = Session(clock=clock)
        await add_up(session)
        head = session.head()

        await session.delete_payloads("ann")

        *before, last = session.records()
        assert all(record.payload is None for record in before)
        assert isinstance(last.event, PayloadsDeleted)
        assert last.event.actor.name == "ann"
        session.verify(head)
        assert [entry.what for entry in session.transcript()] == ["deleted"]

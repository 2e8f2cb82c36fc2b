"""The live ledger: gap-free and readable, whatever is written and by which thread."""

import math
import threading
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any

import pydantic.dataclasses
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import PydanticSerializationError, to_json

from tests.helpers.patience import PATIENCE
from tests.session.event_strategies import JSON
from tests.session.samples import add_up
from toolcrib import Actor, Session, SqliteStore
from toolcrib.ledger.encoding import encode_facts, encode_value, rendered
from toolcrib.ledger.events import PayloadsDeleted, ToolEmitted, ToolOutput, TurnStarted
from toolcrib.ledger.record import seal
from toolcrib.testing import FakeClock


def emitted(data: Any, tool: str = "t") -> ToolEmitted:
    return ToolEmitted(session_id="s", at=1.0, call_id="c1", tool=tool, type="tool.t.x", data=data)


@dataclass
class Plain:
    number: Any
    _hidden: Any = field(default=math.nan, repr=False)


@dataclass(slots=True)
class Slotted:
    inner: Any


@dataclass
class Child(Plain):
    more: int = 1


@dataclass
class Words(str):
    more: int = 1


@pydantic.dataclasses.dataclass
class Aliased:
    day: int = pydantic.Field(serialization_alias="jour")


VALUES = [
    Plain("not a number"),
    Slotted([Plain(1), {"x": Slotted(date(2024, 2, 29))}]),
    Child(2),
    Words(3),
    Aliased(4),
    {"x": Plain(5)},
    math.inf,
]


class TestReading:
    @pytest.mark.parametrize("kind", ["memory", "sqlite"])
    async def test_reading_goes_on_from_a_place(self, kind: str, sqlite_path: Path) -> None:
        """A reader who knows some records asks for those after them."""
        store = SqliteStore(sqlite_path) if kind == "sqlite" else None
        async with Session("s", store=store) as session:
            await add_up(session, 3)

        records = list(session.records())

        assert [record.seq for record in records] == list(range(1, 8))
        for after in range(8):
            assert list(session.records(after)) == records[after:]
        assert list(session.records(99)) == []
        if store is not None:
            store.close()

    async def test_reading_changes_nothing(self) -> None:
        """Records are sealed when they are first read; reading again gives the same."""
        session = Session()
        await add_up(session)
        first = list(session.records())
        await add_up(session)

        assert list(session.records())[: len(first)] == first
        session.verify()

    async def test_the_head_is_the_last_record(self) -> None:
        """The head names the end of the ledger."""
        session = Session("s")
        await add_up(session)

        head = session.head()
        *_, last = session.records()

        assert head is not None
        assert (head.session_id, head.seq, head.hash) == ("s", last.seq, last.hash)

    def test_what_cannot_be_encoded_leaves_no_gap(self) -> None:
        """R46: an entry that fails to be sealed keeps its place, and whoever reads is told."""
        session = Session("s")
        fails = [True]

        def encode(_: object) -> bytes:
            if fails:
                raise ValueError("not now")
            return b'{"turn":1}'

        session.ledger.append((TurnStarted.kind, 1.0, None, encode, None))
        session.note(TurnStarted(session_id="s", at=2.0, turn=2))
        with pytest.raises(ValueError, match="not now"):
            session.head()
        fails.clear()

        assert [record.event for record in session.records()][1:] == [
            TurnStarted(session_id="s", at=1.0, turn=1),
            TurnStarted(session_id="s", at=2.0, turn=2),
        ]
        session.verify()

    def test_whole_seconds_read_back_alike(self) -> None:
        """A clock of whole seconds makes a chain that verifies."""
        session = Session(clock=lambda: 1_000_000)

        assert session.verify() is not None


class TestThreads:
    @pytest.mark.parametrize("kind", ["memory", "sqlite"])
    async def test_threads_leave_no_gap(self, kind: str, sqlite_path: Path) -> None:
        """R51: events noted by many threads, while others read, make one gap-free chain in which
        each thread's own order is kept.
        """
        store = SqliteStore(sqlite_path) if kind == "sqlite" else None
        session = Session("s", store=store)
        together = threading.Barrier(5)

        def note(name: int) -> None:
            together.wait(PATIENCE)
            for number in range(50):
                session.note(
                    ToolOutput(
                        session_id="s", at=1.0, call_id=f"c{name}", tool="t", chunk=str(number)
                    )
                )

        def read() -> None:
            together.wait(PATIENCE)
            for _ in range(20):
                session.verify()

        threads = [threading.Thread(target=note, args=(name,)) for name in range(4)]
        threads.append(threading.Thread(target=read))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        await session.close()

        said: dict[str, list[str]] = {}
        for record in session.records():
            if isinstance(event := record.event, ToolOutput):
                said.setdefault(event.call_id, []).append(event.chunk)
        assert said == {f"c{name}": [str(number) for number in range(50)] for name in range(4)}
        session.verify()
        if store is not None:
            store.close()


class TestEncoding:
    @given(JSON)
    def test_what_was_written_is_read(self, data: Any) -> None:
        """R46: JSON survives the trip into a record and back."""
        assert seal(emitted(data), 1, "").event == emitted(data)

    @pytest.mark.parametrize("text", ["caf\udce9", "\ud800", "a\udfffb"])
    def test_text_that_cannot_be_encoded_is_spelt_out(self, text: str) -> None:
        """R21: one name made of nonsense does not make the whole ledger unreadable, wherever in a
        fact it stands.
        """
        spelt = text.encode(errors="backslashreplace").decode()
        actor = Actor("person", text)
        deleted = PayloadsDeleted(session_id="s", at=1.0, actor=actor)

        event = seal(emitted({text: [text, (text, {"x": text})]}, tool=text), 1, "").event

        assert event == emitted({spelt: [spelt, [spelt, {"x": spelt}]]}, tool=spelt)
        assert seal(deleted, 1, "").event == replace(deleted, actor=Actor("person", spelt))

    @pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
    def test_a_value_is_encoded_by_what_it_holds(self, value: Any) -> None:
        """R21: the prepared encoder of a dataclass writes what the general one writes."""
        assert encode_value(value) == to_json(value, inf_nan_mode="strings")

    def test_a_value_that_is_not_json_is_refused(self) -> None:
        """R21: what a field holds is looked at, whatever its type promised."""
        with pytest.raises(PydanticSerializationError, match="unknown type"):
            encode_value(Plain(number=threading.Lock()))

    def test_numbers_that_json_has_not_are_written_as_text(self) -> None:
        """R21: NaN and infinity are text in a record, by one rule."""
        assert encode_facts({"x": float("nan")}) == b'{"x":"NaN"}'
        assert encode_facts({"x": float("inf"), "y": "\ud800"}) == (
            b'{"x":"Infinity","y":"\\\\ud800"}'
        )

    @given(st.integers(min_value=1, max_value=200))
    def test_deep_data_is_read_back(self, depth: int) -> None:
        """R21: what the parser of arguments takes, the ledger gives back."""
        data: Any = 1
        for _ in range(depth):
            data = [data]

        assert seal(emitted(data), 1, "").event == emitted(data)

    @pytest.mark.parametrize(
        ("value", "text"), [("plain", "plain"), (None, "null"), ([1], "[1]"), ("", "")]
    )
    def test_a_value_is_rendered_as_the_model_saw_it(self, value: Any, text: str) -> None:
        """R22: a message that is left out of a record is the value, rendered again."""
        assert rendered(value) == text


async def test_records_in_memory_and_in_a_file_are_the_same(sqlite_path: Path) -> None:
    """R46: the twin without a disk writes what the real store writes."""
    clock = FakeClock()
    store = SqliteStore(sqlite_path)
    async with await Session.open(store, "s", clock=clock) as durable:
        await add_up(durable, 2)
    memory = Session("s", clock=clock)
    await add_up(memory, 2)

    def facts(session: Session) -> list[Any]:
        return [(r.seq, r.kind, r.at, r.call_id, r.event) for r in session.records()]

    assert facts(durable) == facts(memory)
    store.close()

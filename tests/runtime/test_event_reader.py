"""Following a session: nothing lost, nothing twice, whoever is slow."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from tests.helpers.patience import PATIENCE
from tests.runtime.host_runtime import call, host_tool, kinds, new_session, refusal, serving
from toolcrib import Session
from toolcrib.ledger.events import ToolOutput
from toolcrib.ledger.prompt_events import HostedToolProgress, PartialImage, TextDelta
from toolcrib.ledger.record import Record
from toolcrib.runtime.event_reader import GAP, Envelope, EventReader
from toolcrib.runtime.session_events import typed_event
from toolcrib.store.store import Store


async def take(reader: AsyncIterator[Envelope], count: int) -> list[Envelope]:
    async with asyncio.timeout(PATIENCE):
        return [await anext(reader) for _ in range(count)]


def note(session: Session, chunk: str) -> None:
    session.note(
        ToolOutput(
            session_id=session.session_id, at=session.clock(), call_id="c", tool="t", chunk=chunk
        )
    )


def show(session: Session, text: str) -> None:
    session.announce(
        TextDelta(session_id=session.session_id, at=session.clock(), turn=1, step=1, text=text)
    )


async def test_events_come_after_a_place(store: Store) -> None:
    """`events.list` gives what is after N, so many at a time, and says where to go on."""
    async with serving(host_tool("add"), store=store) as runtime:
        session_id = await new_session(runtime)
        await call(runtime, session_id, "add", a=1, b=2)
        asked = {"session_id": session_id, "after": 2, "limit": 1}
        some = await runtime.ask("events.list", asked)
        rest = await runtime.ask("events.list", {"session_id": session_id, "after": some.last_seq})
        none = await runtime.ask("events.list", {"session_id": session_id, "after": rest.last_seq})
        wrong = await refusal(runtime, "events.list", {**asked, "after": -1})

    assert [(each["seq"], each["kind"]) for each in some.events] == [(3, "call.started")]
    assert [(each["seq"], each["kind"]) for each in rest.events] == [(4, "tool.invoked")]
    assert rest.events[0]["data"]["message"] == "3"
    assert (none.events, none.last_seq) == ([], 4)
    assert wrong.kind == "invalid"


async def test_closed_sessions_can_be_read(store: Store) -> None:
    """Events are in the store, whether the session is open or not."""
    async with serving(store=store) as runtime:
        session_id = await new_session(runtime)
        await runtime.ask("session.close", {"session_id": session_id})

        assert await kinds(runtime, session_id) == ["session.opened", "session.settings_saved"]


async def test_no_event_is_lost_or_doubled_under_load(store: Store) -> None:
    """Three readers that begin at different times, under parallel calls, get every event once."""
    async with serving(host_tool("add"), store=store) as runtime:
        session_id = await new_session(runtime)
        total = 1 + 2 * 300

        async def read(after: int) -> list[int]:
            reader = runtime.service.follow(session_id, after)
            got = await take(aiter(reader), total - after)
            reader.close()
            return [each.seq for each in got]

        async def work(number: int) -> None:
            for _ in range(30):
                await call(runtime, session_id, "add", a=number, b=1)

        early = asyncio.create_task(read(0))
        workers = [asyncio.create_task(work(number)) for number in range(10)]
        await workers[0]
        late = asyncio.create_task(read(100))
        await asyncio.gather(*workers)
        after_all = await read(total - 5)

    assert await early == list(range(1, total + 1))
    assert await late == list(range(101, total + 1))
    assert after_all == list(range(total - 4, total + 1))


async def test_a_slow_reader_is_cut_and_resumes(store: Store) -> None:
    """A reader that falls behind gets a gap with its place and the end; from there it goes on."""
    async with await Session.open(store, "s") as session:
        slow = EventReader(session, 0, backlog=5)
        reading = aiter(slow)
        await take(reading, 1)
        note(session, "0")
        await take(reading, 1)
        for number in range(1, 10):
            note(session, str(number))
        rest = [each async for each in reading]
        again = EventReader(session, rest[-1].seq, backlog=5)
        resumed = await take(aiter(again), 9)
        again.close()

    assert [(each.kind, each.seq, each.is_kept) for each in rest] == [(GAP, 2, False)]
    assert [each.data["chunk"] for each in resumed] == [str(each) for each in range(1, 10)]


async def test_whoever_is_far_behind_still_catches_up() -> None:
    """The backlog bounds live readers; one that was away longer gets all it missed."""
    async with Session("s") as session:
        for number in range(1_000):
            note(session, str(number))
        reader = EventReader(session, 1, backlog=3)
        got = await take(aiter(reader), 1_000)
        reader.close()

    assert [each.seq for each in got] == list(range(2, 1_002))


async def test_what_is_only_shown_keeps_its_place() -> None:
    """Deltas come between the kept events they came between, with the place before them."""
    async with Session("s") as session:
        reader = EventReader(session, 0, backlog=100)
        reading = aiter(reader)
        await take(reading, 1)
        show(session, "a")
        show(session, "b")
        note(session, "kept")
        show(session, "c")
        got = await take(reading, 4)
        reader.close()

    assert [(each.kind, each.seq) for each in got] == [
        ("model.text_delta", 1),
        ("model.text_delta", 1),
        ("tool.output", 2),
        ("model.text_delta", 2),
    ]
    assert [each.is_kept for each in got] == [False, False, True, False]


async def test_a_slow_reader_does_not_hold_up_others() -> None:
    """One reader is cut; the other gets everything."""
    async with Session("s") as session:
        slow, quick = EventReader(session, 0, backlog=3), EventReader(session, 0, backlog=3)
        slowly, quickly = aiter(slow), aiter(quick)
        await take(slowly, 1)
        await take(quickly, 1)
        got: list[Envelope] = []
        for number in range(10):
            note(session, str(number))
            got += await take(quickly, 1)
            if number == 0:
                await take(slowly, 1)
        rest = [each async for each in slowly]
        quick.close()

    assert [each.data["chunk"] for each in got] == [str(each) for each in range(10)]
    assert rest[-1].kind == GAP


async def test_readers_end_with_their_session(store: Store) -> None:
    """Closing a session ends its readers, after what was still to be told."""
    async with serving(host_tool("add"), store=store) as runtime:
        session_id = await new_session(runtime)
        reader = runtime.service.follow(session_id)

        async def read() -> list[str]:
            return [each.kind async for each in reader]

        reading = asyncio.create_task(read())
        await call(runtime, session_id, "add", a=1, b=2)
        await runtime.ask("session.close", {"session_id": session_id})
        async with asyncio.timeout(PATIENCE):
            told = await reading

    assert told == ["session.opened", "session.settings_saved", "call.started", "tool.invoked"]


async def test_only_open_sessions_are_followed() -> None:
    """What is not open here cannot be followed; its events can be listed."""
    from toolcrib.errors import Refused

    async with serving() as runtime:
        with pytest.raises(Refused) as refused:
            runtime.service.follow("nobody")

    assert refused.value.kind == "not_found"


async def test_a_closed_reader_leaves_nothing_behind() -> None:
    """The session stops telling a reader that was closed."""
    async with Session("s") as session:
        reader = EventReader(session, 0, backlog=3)
        reader.close()

        assert not session.bus.subscribers
        assert [each.kind async for each in reader] == ["session.opened"]


@pytest.mark.parametrize("is_live", [False, True], ids=["history", "live"])
async def test_a_slow_reader_holds_few_large_events(
    is_live: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Finding 24: what a client has not read yet stays in the ledger. A reader holds a page of it
    by bytes, and all events come in order whatever their size.
    """
    session = Session()
    reader = EventReader(session, 0, backlog=1_000)
    events = aiter(reader)
    if is_live:
        note(session, "first")
        assert [event.seq for event in await take(events, 1)] == [1]
    taken = 0
    records = session.records

    def counted(*args: Any, **options: Any) -> Iterator[Record]:
        nonlocal taken
        for record in records(*args, **options):
            taken += 1
            yield record

    monkeypatch.setattr(session, "records", counted)
    for _ in range(40):
        note(session, "x" * 300_000)
    first = await take(events, 1)
    assert taken <= 5
    rest = await take(events, 39)
    numbers = [event.seq for event in (*first, *rest)]
    assert numbers == list(range(numbers[0], numbers[0] + 40))
    reader.close()
    await session.close()


async def test_a_page_of_large_events_is_short(store: Store) -> None:
    """What one answer holds is bounded in bytes; the rest comes with the next request."""
    sessions: list[Session] = []
    options: dict[str, Any] = {"max_payload_bytes": 100_000, "on_session": sessions.append}
    async with serving(store=store, **options) as runtime:
        session_id = await new_session(runtime)
        for _ in range(10):
            note(sessions[0], "x" * 40_000)
        seen, pages = 0, list[int]()
        while True:
            asked = {"session_id": session_id, "after": seen}
            page = await runtime.ask("events.list", asked)
            if not page.events:
                break
            seen = page.last_seq
            pages.append(len(page.events))
        last = (await runtime.ask("session.get", {"session_id": session_id})).last_seq

    assert seen == last
    assert max(pages[1:]) <= 3


def draw(session: Session, call_id: str, number: int) -> HostedToolProgress:
    event = HostedToolProgress(
        session_id=session.session_id,
        at=session.clock(),
        turn=1,
        step=1,
        call_id=call_id,
        tool="image_generation",
        capability="image_generation",
        status="generating",
        image=PartialImage(number, "image/png", "iVBORw0="),
    )
    session.announce(event)
    return event


async def test_progress_of_provider_run_calls_arrives_as_it_was(store: Store) -> None:
    """A client reads the event that was announced, with the id of its call and its picture."""
    async with await Session.open(store, "s") as session:
        reader = EventReader(session, 0, backlog=5)
        reading = aiter(reader)
        await take(reading, 1)
        event = draw(session, "ig_1", 0)
        (envelope,) = await take(reading, 1)
        reader.close()

    assert typed_event(envelope) == event
    assert event.image is not None
    assert event.image.data.startswith(b"\x89PNG")


async def test_a_reader_that_is_behind_gets_the_last_picture_of_each_call(store: Store) -> None:
    """Pictures are large: what nobody has read is bounded, and none is ever in the ledger."""
    async with await Session.open(store, "s") as session:
        reader = EventReader(session, 0, backlog=50)
        reading = aiter(reader)
        await take(reading, 1)
        for number in range(3):
            draw(session, "ig_1", number)
        draw(session, "ig_2", 0)
        unread = await take(reading, 4)
        draw(session, "ig_1", 3)
        (last,) = await take(reading, 1)
        reader.close()
        kept = b"".join(record.payload or b"" for record in session.records())

    images = [each.data["image"] and each.data["image"]["index"] for each in [*unread, last]]
    assert images == [None, None, 2, 0, 3]
    assert b"iVBORw0=" not in kept

"""Events over HTTP: in order, each once, resumable, and answers at their end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from tests.transports.http.served_runtime import READERS, STREAM, Sent, Served, events_of, served

CALL = "/v1/sessions/s/tools/{}/call"


async def _call(crib: Served, text: str, name: str = "echo") -> dict[str, Any]:
    answer = await crib.client.post(CALL.format(name), json={"arguments": {"text": text}})
    return answer.json()


async def _last_seq(crib: Served) -> int:
    return (await crib.client.get("/v1/sessions/s")).json()["last_seq"]


async def _until(
    crib: Served, seq: int, *, after: int = 0, headers: dict[str, str] | None = None
) -> list[Sent]:
    """Follow the session until the event of a place has come."""
    found: list[Sent] = []
    async with crib.client.stream(
        "GET",
        "/v1/sessions/s/events",
        params={"after": after},
        headers={**STREAM, **(headers or {})},
    ) as response:
        assert response.status_code == 200
        async for sent in events_of(response):
            if sent.event:
                found.append(sent)
            if sent.id == str(seq):
                return found
    return found


async def test_a_stream_has_what_happened_and_what_happens() -> None:
    """R38: kept events come with their place as id, without a hole, in the one envelope."""
    async with served() as crib:
        await crib.session()
        await _call(crib, "before")
        seen: list[Sent] = []
        async with crib.client.stream("GET", "/v1/sessions/s/events", headers=STREAM) as response:
            events = events_of(response)
            assert (await anext(events)).comment == "open"
            await _call(crib, "during")
            last = await _last_seq(crib)
            async for sent in events:
                seen.append(sent)
                if sent.id == str(last):
                    break
        listed = (await crib.client.get("/v1/sessions/s/events")).json()["events"]

    assert [sent.id for sent in seen] == [str(place) for place in range(1, last + 1)]
    assert [sent.data for sent in seen] == listed
    assert all(sent.event == sent.data["kind"] for sent in seen)


async def test_a_stream_goes_on_where_it_broke() -> None:
    """Last-Event-ID, or `after` where a client cannot set it, resumes without loss or repetition;
    the header is newer than the address.
    """
    async with served() as crib:
        await crib.session()
        await _call(crib, "a")
        last = await _last_seq(crib)
        first = await _until(crib, 2)
        by_header = await _until(crib, last, headers={"Last-Event-ID": "2"})
        by_query = await _until(crib, last, after=2)
        by_both = await _until(crib, last, after=1, headers={"Last-Event-ID": "2"})
        wrong = await crib.client.get(
            "/v1/sessions/s/events", headers={**STREAM, "Last-Event-ID": "x"}
        )

    assert [sent.id for sent in first] == ["1", "2"]
    assert [sent.id for sent in by_header] == [str(place) for place in range(3, last + 1)]
    assert by_header == by_query == by_both
    assert wrong.status_code == 422


async def test_a_quiet_stream_shows_that_it_stands() -> None:
    """Heartbeats come while nothing happens."""
    async with served(heartbeat=0.02) as crib:
        await crib.session()
        async with crib.client.stream("GET", "/v1/sessions/s/events", headers=STREAM) as response:
            events = events_of(response)
            comments = [(await anext(events)).comment for _ in range(4)]

    assert "alive" in comments


async def test_a_client_too_far_behind_is_told_of_the_gap() -> None:
    """Who does not read is cut: the stream says after which place events are left out, and ends;
    the ledger has them.
    """
    async with served(event_backlog=5) as crib:
        await crib.session()
        async with crib.client.stream("GET", "/v1/sessions/s/events", headers=STREAM) as response:
            events = events_of(response)
            await anext(events)
            await anext(events)
            for _ in range(40):
                await _call(crib, "x" * 400_000)
            *kept, gap = [each async for each in events if each.event]
        last = await _last_seq(crib)
        after = {"after": gap.data["seq"], "limit": 1}
        missed = (await crib.client.get("/v1/sessions/s/events", params=after)).json()["events"]

    assert (gap.event, gap.id) == ("events.gap", None)
    assert gap.data["seq"] == int(kept[-1].id or 0) < last
    assert [each["seq"] for each in missed] == [gap.data["seq"] + 1]


async def test_a_call_streams_its_events_and_then_its_answer() -> None:
    """By Accept, a call shows what happens and ends with the result that JSON would have."""
    async with served() as crib:
        await crib.session()
        before = await _last_seq(crib)
        body = {"arguments": {"text": "a"}, "call_id": "c1"}
        async with crib.client.stream(
            "POST", CALL.format("echo"), json=body, headers=STREAM
        ) as response:
            sent = [each async for each in events_of(response) if each.event]
        last = await _last_seq(crib)

    *events, result = sent
    assert result.event == "result"
    assert (result.data["status"], result.data["value"]) == ("completed", {"echo": "a"})
    assert [each.id for each in events] == [str(place) for place in range(before + 1, last + 1)]


async def test_a_streamed_call_that_is_refused_has_the_status_of_the_refusal() -> None:
    """What is refused before anything happens is no stream."""
    async with served() as crib:
        await crib.session()
        nowhere = await crib.client.post(
            "/v1/sessions/nowhere/tools/echo/call", json={}, headers=STREAM
        )
        invalid = await crib.client.post(CALL.format("echo"), json={"x": 1}, headers=STREAM)
        prompt = await crib.client.post("/v1/sessions/s/prompt", json={"text": "x"}, headers=STREAM)
        reader = await crib.client.post(
            CALL.format("echo"),
            json={"arguments": {"text": "a"}},
            headers={**STREAM, **crib.as_(READERS)},
        )

    found = [each.status_code for each in (nowhere, invalid, prompt, reader)]
    assert found == [404, 422, 503, 403]
    assert crib.gates.calls == []


async def test_a_streamed_call_that_is_stopped_ends_with_an_error() -> None:
    """A stream that has begun tells of a refusal as its last event."""
    async with served() as crib:
        await crib.session()
        async with crib.client.stream(
            "POST", CALL.format("held_back"), json={"arguments": {"text": "x"}}, headers=STREAM
        ) as response:
            events = events_of(response)
            assert (await anext(events)).event
            await crib.gates.entered.wait()
            await crib.client.post("/v1/sessions/s/close", json={})
            *_, last = [sent async for sent in events]

    assert last.event == "error"
    assert last.data["error"]["kind"] == "closing"


async def test_a_closing_server_ends_a_streamed_call_with_its_answer() -> None:
    """Shutdown drains: the answer comes although events are followed no longer."""
    async with served(drain_seconds=10.0, heartbeat=0.02) as crib:
        await crib.session()
        async with crib.client.stream(
            "POST", CALL.format("held_back"), json={"arguments": {"text": "x"}}, headers=STREAM
        ) as response:
            events = events_of(response)
            is_connected = asyncio.Event()
            following = asyncio.ensure_future(_follow_until(crib, "none", is_connected))
            await is_connected.wait()
            await crib.gates.entered.wait()
            crib.server.stop()
            await following
            while (await anext(events)).comment != "alive":
                pass
            crib.gates.open.set()
            *_, last = [sent async for sent in events]

    assert (last.event, last.data["value"]) == ("result", "x")


async def _close_session(crib: Served) -> None:
    await crib.client.post("/v1/sessions/s/close", json={})


async def _stop(crib: Served) -> None:
    crib.server.stop()


async def _last_of(crib: Served, end: Callable[[Served], Coroutine[Any, Any, None]]) -> str:
    """The last event of a stream that `end` ends."""
    async with crib.client.stream("GET", "/v1/sessions/s/events", headers=STREAM) as response:
        events = events_of(response)
        last = (await anext(events)).event
        ending = asyncio.ensure_future(end(crib))
        async for sent in events:
            last = sent.event or last
        await ending
    return last


async def test_a_stream_says_whether_its_session_is_over() -> None:
    """A client knows from `events.ended` that there is nothing to reconnect for; a server that
    closes does not say so, for the session goes on with the next one.
    """
    async with served() as crib:
        await crib.session("s")
        closed = await _last_of(crib, _close_session)
    async with served() as crib:
        await crib.session("s")
        stopped = await _last_of(crib, _stop)

    assert closed == "events.ended"
    assert stopped != "events.ended"


async def test_leaving_a_stream_does_not_cancel_the_call() -> None:
    """Disconnecting is not cancelling: the call ends, and its key gives the answer."""
    async with served() as crib:
        await crib.session()
        body = {"arguments": {"text": "late"}}
        key = {"Idempotency-Key": "k"}
        async with crib.client.stream(
            "POST", CALL.format("held_back"), json=body, headers={**STREAM, **key}
        ) as response:
            assert (await anext(events_of(response))).event
            await crib.gates.entered.wait()
        crib.gates.open.set()
        again = await crib.client.post(CALL.format("held_back"), json=body, headers=key)

    assert again.json()["value"] == "late"


async def test_every_event_reaches_every_follower() -> None:
    """No event is lost or told twice while many calls happen and several clients follow."""
    async with served() as crib:
        await crib.session()
        followers = [asyncio.ensure_future(_follow_until(crib, "final")) for _ in range(5)]
        await asyncio.gather(*(_call(crib, str(number)) for number in range(100)))
        await crib.client.post(
            CALL.format("echo"), json={"arguments": {"text": "z"}, "call_id": "final"}
        )
        seen = await asyncio.gather(*followers)

    assert len(seen[0]) > 200
    assert all(places == list(range(1, len(places) + 1)) for places in seen)


async def _follow_until(
    crib: Served, call_id: str, is_connected: asyncio.Event | None = None
) -> list[int]:
    places: list[int] = []
    async with crib.client.stream("GET", "/v1/sessions/s/events", headers=STREAM) as response:
        if is_connected is not None:
            is_connected.set()
        async for sent in events_of(response):
            if sent.id:
                places.append(int(sent.id))
                if sent.data["data"].get("call_id") == call_id:
                    break
    return places


async def _states(
    crib: Served, count: int, meanwhile: Callable[[], Coroutine[Any, Any, Any]]
) -> Any:
    """The first states of the inbox; `meanwhile` happens after the first."""
    states: list[Any] = []
    async with crib.client.stream("GET", "/v1/approvals/events", headers=STREAM) as response:
        assert response.status_code == 200
        async for sent in events_of(response):
            if sent.event:
                assert (sent.event, sent.id) == ("inbox.changed", None)
                states.append(sent.data)
                if len(states) == 1:
                    await meanwhile()
                if len(states) == count:
                    return states
    return states


async def test_the_inbox_is_a_stream_over_all_sessions() -> None:
    """The state at once and after each change; a client that connects again begins with the whole,
    whatever it saw before. Without the `Accept` of a stream, the numbers are JSON.
    """
    async with served() as crib:
        await crib.session()
        before, after = await _states(crib, 2, lambda: _call(crib, "x", "careful"))
        [again] = await _states(crib, 1, lambda: asyncio.sleep(0))
        plain = (await crib.client.get("/v1/approvals/events")).json()

    assert (before["waiting"], after["waiting"], len(after["added"])) == (0, 1, 1)
    assert again == plain == {**after, "added": []}

"""Following a session from any replica: in order, no gap, no double, wherever it is open."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from tests.helpers.child_process import PYTHON_PATH, child_process
from tests.helpers.patience import PATIENCE
from tests.runtime.test_partial_reply import PIECES, HaltingBackend
from tests.transports.http.served_runtime import OWNERS
from tests.transports.replicas import replica_process
from tests.transports.replicas.followed_session import (
    Follower,
    call,
    is_whole,
    last_seq,
    replicas,
    taken_over,
    until,
)
from toolcrib.embedded import EmbeddedProvider
from toolcrib.ledger.record import Record
from toolcrib.serving import replica_streams
from toolcrib.store.shared_store import is_shared


@pytest.mark.parametrize("uses_hints", [True, False])
async def test_a_client_of_one_replica_follows_a_session_of_another(
    postgres_url: str, uses_hints: bool
) -> None:
    """What was recorded before and what happens then come in order, each once, until somebody
    closes the session; with hints or without.
    """
    async with replicas(postgres_url) as pair:
        a = await pair.start(uses_hints=uses_hints)
        b = await pair.start(uses_hints=uses_hints)
        await a.session()
        await call(a, "before")
        follower = Follower(b)
        await follower.until_seq(await last_seq(a))
        for text in ("one", "two", "three"):
            await call(a, text)
        await follower.until_seq(await last_seq(a))
        await a.client.post("/v1/sessions/s/close", json={})
        await follower.ended()
        listed = (await b.client.get("/v1/sessions/s/events")).json()["events"]

    assert is_whole(follower.kept)
    kept = [each.data for each in follower.sent if each.id is not None]
    assert kept == listed[: len(kept)]
    assert follower.sent[-1].event == "events.ended"


async def test_text_comes_while_it_is_written(postgres_url: str) -> None:
    """The pieces of an answer that another replica's model writes reach a client at once, and who
    comes in the middle gets what is written so far.
    """
    backend = HaltingBackend()
    adapter = EmbeddedProvider(backend).adapter()
    async with replicas(postgres_url) as pair:
        a = await pair.start(adapter=adapter)
        b = await pair.start(takes_turns=False)
        await a.session()
        follower = Follower(b)
        await follower.until_seq(await last_seq(a))
        prompt = asyncio.create_task(
            a.runtime.ask("prompt.send", {"session_id": "s", "text": "go"})
        )
        await follower.until(
            lambda: "".join(follower.texts("model.text_delta")) == PIECES[0] + PIECES[1]
        )
        late = Follower(b)
        await late.until(lambda: bool(late.texts("model.partial_reply")))
        backend.may_go_on.set()
        result = await prompt
        for each in (follower, late):
            await each.until_seq(await last_seq(a))
            assert is_whole(each.kept)
            await each.leave()
    await adapter.aclose()

    assert "".join(follower.texts("model.text_delta")) == result.text == "".join(PIECES)
    assert late.texts("model.partial_reply") + late.texts("model.text_delta") == [
        PIECES[0] + PIECES[1],
        PIECES[2],
    ]


@pytest.mark.parametrize("uses_hints", [True, False])
async def test_a_reader_goes_on_when_its_session_moves(postgres_url: str, uses_hints: bool) -> None:
    """A session that is let go by one replica and opened by the other is followed on at both: the
    reader that was local goes on as one of the store, and the other way round.
    """
    async with replicas(postgres_url) as pair:
        a = await pair.start(uses_hints=uses_hints)
        b = await pair.start(uses_hints=uses_hints)
        await a.session()
        followers = [Follower(a), Follower(b)]
        here, there = a, b
        for turn in range(4):
            await call(here, f"turn {turn}")
            sessions = here.runtime.service.shared_events
            assert sessions is not None
            live = sessions.sessions.find("s")
            assert live is not None
            await asyncio.gather(*[each.until_seq(await last_seq(here)) for each in followers])
            # Nobody who reads keeps it open.
            await sessions.sessions.let_go(live)
            assert sessions.sessions.find("s") is None
            here, there = there, here
            resumed = await here.client.post("/v1/sessions/s/resume", json={})
            assert resumed.is_success, resumed.text
        for each in followers:
            await each.until_seq(await last_seq(here))
            assert is_whole(each.kept)
        await here.client.delete("/v1/sessions/s")
        for each in followers:
            await each.ended()
            assert each.sent[-1].event == "events.ended"
            assert is_whole(each.kept)


@pytest.mark.crash
@pytest.mark.parametrize("uses_hints", [True, False])
async def test_a_reader_goes_on_after_the_death_of_the_replica(
    postgres_url: str, uses_hints: bool
) -> None:
    """A replica that is killed takes nothing recorded with it: a client of another one reads on
    once a third has taken the session over.
    """
    async with replicas(postgres_url) as pair:
        lease_seconds = replica_process.LEASE_SECONDS
        b = await pair.start(uses_hints=uses_hints, lease_seconds=lease_seconds)
        c = await pair.start(uses_hints=uses_hints, lease_seconds=lease_seconds)
        command = [sys.executable, "-m", replica_process.__name__, postgres_url, pair.key]
        with child_process(command, env={"PYTHONPATH": PYTHON_PATH}) as process:
            url = (await asyncio.to_thread(process.stdout.next_line, "http")).strip()
            async with httpx2.AsyncClient(
                base_url=url, headers={"Authorization": f"Bearer {OWNERS}"}, timeout=PATIENCE
            ) as client:
                await client.post("/v1/sessions", json={"session_id": "s"})
                follower = Follower(b)
                for text in ("one", "two"):
                    path = "/v1/sessions/s/tools/echo/call"
                    answer = await client.post(path, json={"arguments": {"text": text}})
                    assert answer.is_success
                before = (await client.get("/v1/sessions/s")).json()["last_seq"]
                await follower.until_seq(before)
            process.process.kill()
        await taken_over(c)
        await call(c, "three")
        last = await last_seq(c)
        await follower.until_seq(last)
        assert last > before
        assert is_whole(follower.kept)
        await follower.leave()


async def test_many_followers_of_idle_sessions_share_their_queries(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Followers of sessions that nobody has open cost one query in a while together, and none per
    follower.
    """
    async with replicas(postgres_url) as pair:
        a, b = await pair.start(), await pair.start()
        names = [f"s{number}" for number in range(30)]
        for name in names:
            await a.session(name)
            await a.client.post(f"/v1/sessions/{name}/close", json={})
        shared, store = b.runtime.service.shared_events, b.runtime.store
        assert shared is not None
        assert is_shared(store)
        reads, records = list[str](), store.records

        def counted(session_id: str, **options: Any) -> Iterator[Record]:
            reads.append(session_id)
            return records(session_id, **options)

        monkeypatch.setattr(store, "records", counted)
        followers = [Follower(b, name) for name in names for _ in range(3)]
        await until(lambda: len(reads) >= len(followers))
        first_looks = shared.watch.looks
        await until(lambda: shared.watch.looks >= first_looks + 3)
        assert sorted(reads) == sorted(name for name in names for _ in range(3))
        # And each of them still hears of its session.
        await b.client.post("/v1/sessions/s7/resume", json={})
        answer = await b.client.post(
            "/v1/sessions/s7/tools/echo/call", json={"arguments": {"text": "x"}}
        )
        assert answer.is_success
        for each in followers[21:24]:
            await each.until_seq(await last_seq(b, "s7"))
        for each in followers:
            await each.leave()


async def test_a_slow_client_gets_everything(postgres_url: str) -> None:
    """A client that did not read while much happened at another replica gets all that is recorded,
    in order, each once, and no gap.
    """
    async with replicas(postgres_url) as pair:
        a, b = await pair.start(event_backlog=5), await pair.start()
        await a.session()
        shared = b.runtime.service.shared_events
        assert shared is not None
        reader = shared.follow("s", 0)
        events = aiter(reader)
        numbers = [(await anext(events)).seq]
        last = await last_seq(a)
        while numbers[-1] < last:
            numbers.append((await anext(events)).seq)
        await call(a, "the stream stands")
        numbers.append((await anext(events)).seq)
        for _ in range(30):
            await call(a, "x" * 400_000)
        last = await last_seq(a)
        async with asyncio.timeout(PATIENCE):
            while numbers[-1] < last:
                envelope = await anext(events)
                assert envelope.kind != "events.gap"
                if envelope.is_kept:
                    numbers.append(envelope.seq)
        reader.close()
        assert [each async for each in events if each.is_kept] == []

    assert is_whole(numbers)


async def test_only_a_replica_may_ask_for_events(
    postgres_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The endpoint of replicas takes no token, no other replica's request and no request twice.
    What nobody signed counts as a failed login; a request that went astray does not.
    """
    async with replicas(postgres_url) as pair:
        a, b = await pair.start(), await pair.start()
        await a.session()
        path = f"{replica_streams.EVENTS_PATH}?session_id=s&after=0"
        store = b.runtime.store
        assert is_shared(store)
        credential = replica_streams.credential_of(store)
        assert credential is not None
        target = a.runtime.store
        assert is_shared(target)
        signed = credential.sign(
            replica_streams.ReplicaRequest("GET", path), target.replica_id
        ).authorization
        elsewhere = credential.sign(
            replica_streams.ReplicaRequest("GET", path), store.replica_id
        ).authorization
        statuses = dict[str, int]()
        for name, header in {
            "owner": f"Bearer {OWNERS}",
            "nobody": "",
            "misdirected": elsewhere,
            "forged": signed[:-4] + "0000",
        }.items():
            async with a.client.stream("GET", path, headers={"Authorization": header}) as answer:
                statuses[name] = answer.status_code
        for name in ("replica", "again"):
            async with a.client.stream("GET", path, headers={"Authorization": signed}) as answer:
                statuses[name] = answer.status_code

    assert statuses == {
        "owner": 401,
        "nobody": 401,
        "misdirected": 421,
        "forged": 401,
        "replica": 200,
        "again": 401,
    }
    assert caplog.text.count("failed login over http") == list(statuses.values()).count(401)

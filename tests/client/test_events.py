"""Events through the client: typed, in order, each once, across restarts of the server."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.cli.command import serving, write_modules
from tests.client.lossy_server import lossy
from tests.client.thread_server import served_in_thread
from tests.helpers.patience import PATIENCE
from tests.runtime.host_runtime import host_tool, registry_of
from tests.transports.http.served_runtime import OWNERS, READERS, TOKENS, served
from toolcrib import RuntimeConfig, SqliteStore, create_runtime
from toolcrib.client import AsyncClient, Client, Refused, SessionEvents, UnknownEvent
from toolcrib.ledger.events import Event, SessionOpened, ToolInvoked
from toolcrib.runtime.blocking_operations import BlockingEvents
from toolcrib.transports.http.server import HttpServer


async def next_result(events: SessionEvents) -> Any:
    """The value of the next call that ends."""
    async with asyncio.timeout(PATIENCE):
        async for event in events:
            if isinstance(event, ToolInvoked):
                return event.value
    raise AssertionError("the events ended")


async def test_events_are_typed_and_live() -> None:
    """Recorded events come first, then those that happen, as dataclasses."""
    async with served() as crib, AsyncClient(crib.server.url, OWNERS) as client:
        await client.open_session("s")
        async with client.events("s") as events:
            assert isinstance(await anext(events), SessionOpened)
            await client.call_tool("s", "echo", {"text": "hi"})
            assert await next_result(events) == {"echo": "hi"}
            assert events.seq == (await client.get_session("s")).last_seq


async def test_another_iteration_goes_on_after_a_number() -> None:
    """What was seen before `after` does not come again."""
    async with served() as crib, AsyncClient(crib.server.url, OWNERS) as client:
        await client.open_session("s")
        for text in "ab":
            await client.call_tool("s", "echo", {"text": text})
        first = client.events("s")
        assert await next_result(first) == {"echo": "a"}
        await first.aclose()
        async with client.events("s", after=first.seq) as rest:
            assert await next_result(rest) == {"echo": "b"}


async def test_the_iteration_ends_with_the_session() -> None:
    """A closed session ends the iteration, which does not connect again."""
    async with served() as crib, AsyncClient(crib.server.url, OWNERS) as client:
        await client.open_session("s")
        async with client.events("s") as events:
            await client.close_session("s")
            async with asyncio.timeout(PATIENCE):
                kinds = [event.kind async for event in events]
        state = (await client.get_session("s")).state
    assert (kinds[0], state) == ("session.opened", "closed")


async def test_a_session_of_nobody_is_refused() -> None:
    """Events of a session that is not there raise `Refused`, as on a runtime in the process."""
    async with served() as crib, AsyncClient(crib.server.url, OWNERS) as client:
        with pytest.raises(Refused) as refused:
            await anext(client.events("nobody"))
    assert refused.value.kind == "not_found"


async def test_a_gap_is_bridged_without_a_double() -> None:
    """A client that read too slowly goes on after the last event it has."""
    config: dict[str, Any] = {"event_backlog": 2}
    async with served(**config) as crib, AsyncClient(crib.server.url, OWNERS) as client:
        await client.open_session("s")
        async with client.events("s") as events:
            values: list[Any] = []
            for _ in range(3):
                # Each round may leave the reader of the server further behind than it may be.
                calls = [client.call_tool("s", "echo", {"text": "x"}) for _ in range(20)]
                await asyncio.gather(*calls)
                values.append(await next_result(events))
            while len(values) < 60:
                values.append(await next_result(events))
            last_seq = (await client.get_session("s")).last_seq
            while events.seq < last_seq:
                assert not isinstance(await anext(events), ToolInvoked)


@asynccontextmanager
async def running(path: Path, port: int = 0) -> AsyncGenerator[HttpServer]:
    """A server of a store that outlives it."""
    with SqliteStore(path) as store:
        config = RuntimeConfig(
            store=store, host_tool_registry=registry_of(host_tool("add")), drain_seconds=0.1
        )
        async with (
            create_runtime(config) as runtime,
            HttpServer(runtime, port=port, tokens=TOKENS) as server,
        ):
            yield server


async def until_open(client: AsyncClient) -> None:
    """Wait until whoever follows the session has opened it again."""
    async with asyncio.timeout(PATIENCE):
        while (await client.get_session("s")).state != "open":
            pass


async def test_a_restart_of_the_server_is_survived(tmp_path: Path) -> None:
    """The iteration goes on with the next server at the address, without a gap or a double; a
    session that was open before is opened again.
    """
    path = tmp_path / "store.sqlite3"
    async with running(path) as first:
        url, client = first.url, AsyncClient(first.url, OWNERS)
        await client.open_session("s")
        events = client.events("s")
        await client.call_tool("s", "add", {"a": 1, "b": 0})
        seen = [await next_result(events)]
    following = asyncio.ensure_future(next_result(events))
    async with running(path, urlsplit(url).port or 0):
        await until_open(client)
        await client.call_tool("s", "add", {"a": 2, "b": 0})
        seen.append(await following)
        records = (await client.list_events("s")).events
        await events.aclose()
        await client.aclose()
    assert seen == [1, 2]
    assert [each["data"]["value"] for each in records if each["kind"] == "tool.invoked"] == [1, 2]


async def test_a_killed_server_is_survived(tmp_path: Path) -> None:
    """After `kill -9` the events go on where they were, with the process that takes its place."""
    write_modules(tmp_path)
    options = ("--host-tools-module", "cli_tools", "--store", "store.sqlite3")
    async with serving(*options, cwd=tmp_path) as first:
        url, token = first.url, tmp_path / "token"
        client = AsyncClient(url, token_file=token)
        await client.open_session("s")
        await client.call_tool("s", "add", {"a": 1, "b": 0})
        events = client.events("s")
        assert await next_result(events) == 1
        following = asyncio.ensure_future(next_result(events))
        first.process.kill()
        await first.process.wait()
    async with serving("--port", str(urlsplit(url).port), *options, cwd=tmp_path):
        await until_open(client)
        await client.call_tool("s", "add", {"a": 2, "b": 0})
        assert await following == 2
        await events.aclose()
        await client.aclose()


async def test_a_server_that_stays_away_is_given_up() -> None:
    """After the time that the program chose, the iteration ends with `unavailable`."""
    async with served() as crib:
        client = AsyncClient(crib.server.url, OWNERS, reconnect_seconds=0.0)
        await client.open_session("s")
        events = client.events("s")
        await anext(events)
    with pytest.raises(Refused) as refused:
        await next_result(events)
    await client.aclose()
    assert refused.value.kind == "unavailable"


async def test_who_may_not_open_a_session_again_is_told(tmp_path: Path) -> None:
    """An auditor follows, and does not reopen what a restarted server has not open."""
    path = tmp_path / "store.sqlite3"
    async with running(path) as first, AsyncClient(first.url, OWNERS) as owner:
        await owner.open_session("s")
        client = AsyncClient(first.url, READERS)
        events = client.events("s")
        await anext(events)
        port = urlsplit(first.url).port or 0
    async with running(path, port), AsyncClient(first.url, OWNERS) as owner:
        with pytest.raises(Refused) as refused:
            await next_result(events)
        state = (await owner.get_session("s")).state
    await client.aclose()
    assert (refused.value.kind, state) == ("forbidden", "closed")


async def test_an_event_of_a_newer_server_is_no_crash() -> None:
    """A kind that this version does not know comes as an `UnknownEvent`, with what it holds."""
    envelope = (
        b'{"session_id": "s", "seq": 1, "kind": "tool.invented", "at": 1.0, '
        b'"data": {"colour": "red"}, "is_kept": true, "flavour": "new"}'
    )
    stream = b"event: tool.invented\ndata: %s\n\n" % envelope
    async with (
        lossy(0, body=stream) as server,
        AsyncClient(server.url, "t" * 32) as client,
        client.events("s") as events,
    ):
        event = await anext(events)
    assert isinstance(event, UnknownEvent)
    assert (event.kind_name, event.data) == ("tool.invented", {"colour": "red"})


def until_result(events: BlockingEvents) -> ToolInvoked:
    event: Event = next(events)
    while not isinstance(event, ToolInvoked):
        event = next(events)
    return event


def test_the_blocking_client_iterates_over_events() -> None:
    """A `for` loop waits for each event, in any thread, and ends with the session."""
    with served_in_thread() as url, Client(url, OWNERS) as client:
        client.open_session("s")
        with client.events("s") as events:
            calling = threading.Thread(target=client.call_tool, args=("s", "echo", {"text": "hi"}))
            calling.start()
            assert until_result(events).value == {"echo": "hi"}
            calling.join()
            client.close_session("s")
            assert [event.kind for event in events if isinstance(event, ToolInvoked)] == []
            assert events.seq > 0


def test_the_blocking_client_survives_a_restart(tmp_path: Path) -> None:
    """The loop of a program without an event loop goes on with the next server, too."""
    path = tmp_path / "store.sqlite3"
    loop = asyncio.new_event_loop()
    first = running(path)
    server = loop.run_until_complete(first.__aenter__())
    turning = threading.Thread(target=loop.run_forever)
    turning.start()

    async def restart() -> Any:
        await first.__aexit__(None, None, None)
        second = running(path, urlsplit(server.url).port or 0)
        await second.__aenter__()
        return second

    with Client(server.url, OWNERS) as client:
        client.open_session("s")
        client.call_tool("s", "add", {"a": 1, "b": 0})
        events = client.events("s")
        assert until_result(events).value == 1
        second = asyncio.run_coroutine_threadsafe(restart(), loop).result(PATIENCE)
        client.open_session("s")
        client.call_tool("s", "add", {"a": 2, "b": 0})
        assert until_result(events).value == 2
        events.close()
    asyncio.run_coroutine_threadsafe(second.__aexit__(None, None, None), loop).result(PATIENCE)
    loop.call_soon_threadsafe(loop.stop)
    turning.join()
    loop.close()

"""A mounted server: both eras, both ways to reach it, and what becomes of its calls."""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import pytest_asyncio

from tests.mcp_client.mounted_servers import (
    QUICK,
    Era,
    Mount,
    free_port,
    mounted,
    raw,
    stdio,
    terms,
    web_peer,
)
from tests.mcp_client.peer import PIXEL
from toolcrib.ledger.events import ToolProgress
from toolcrib.mcp_client import HttpServerConfig, StdioServerConfig
from toolcrib.mcp_client.server import MountedServer
from toolcrib.testing import Recorder

pytestmark = pytest.mark.wire

ERAS: tuple[Era, ...] = ("newer", "older")


@pytest_asyncio.fixture(
    scope="module",
    loop_scope="module",
    params=[f"{way} {era}" for way in ("stdio", "http") for era in ERAS],
)
async def shared(request: pytest.FixtureRequest) -> AsyncGenerator[Mount]:
    """The peer, mounted over each transport in each era, once for all tests."""
    way, era = request.param.split()
    async with AsyncExitStack() as stack:
        if way == "stdio":
            config = stdio("peer", era)
        else:
            config = (await stack.enter_async_context(web_peer(era))).config()
        yield await stack.enter_async_context(mounted(config))


@pytest_asyncio.fixture(loop_scope="module")
async def peer(shared: Mount) -> Mount:
    """A session of its own for each test."""
    return Mount(shared.server, shared.changed)


@pytest.mark.asyncio(loop_scope="module")
class TestEverywhere:
    async def test_tools_have_their_source_and_prefix(self, peer: Mount) -> None:
        """A server's tools are there under its prefix, and say whose they are."""
        add = peer.executor.tools["peer_add"]

        assert peer.server.fault is None
        assert add.ref.source == "mcp:peer"
        assert add.tool.description == "Add two numbers."
        assert set(add.declaration.parameters["properties"]) == {"a", "b"}

    async def test_a_call_gives_its_structured_value(self, peer: Mount) -> None:
        """What a server answers as data is the value; what it says to models is the text."""
        done = await peer.call("peer_add", a=2, b=40)

        assert (done.value, done.text) == ({"result": 42}, "42")

    async def test_text_is_the_value_when_there_is_nothing_else(self, peer: Mount) -> None:
        """An answer in plain text is that text."""
        assert (await peer.call("peer_greet", name="Ada")).value == "Hello, Ada!"

    async def test_arguments_are_checked_before_anything_is_sent(self, peer: Mount) -> None:
        """R45: a call that does not fit the schema never leaves this process."""
        failed = await peer.call("peer_add", a="two", b=40)

        assert failed.failure is not None
        assert failed.failure.kind == "invalid_arguments"
        assert failed.failure.faults[0].pointer == "/a"

    async def test_an_error_result_is_a_typed_failure(self, peer: Mount) -> None:
        """A tool that says that it failed has failed, with its own words."""
        failed = await peer.call("peer_fail")

        assert failed.failure is not None
        assert failed.failure.kind == "tool_error"
        assert "the shelf is empty" in failed.text

    async def test_progress_comes_through_and_cancel_goes_through(self, peer: Mount) -> None:
        """R51: what a server says of its progress is told; what is cancelled here stops there."""
        seen = asyncio.Event()
        heard = Recorder(peer.session.bus)
        peer.session.bus.subscribe(ToolProgress, lambda _: seen.set())
        running = asyncio.ensure_future(peer.executor.call("peer_wait_long", {}, call_id="long"))
        await seen.wait()

        assert peer.executor.cancel("long")
        failed = await running
        assert failed.failure is not None
        assert failed.failure.kind == "cancelled"
        assert not failed.failure.still_running
        [told] = heard.of(ToolProgress)
        assert (told.current, told.total, told.message) == (1, 3, "begun")
        assert (await peer.call("peer_saw_cancel")).value == {"result": True}

    async def test_pictures_are_in_the_value_and_named_in_the_text(self, peer: Mount) -> None:
        """A model that reads text learns that there is a picture; a program gets it."""
        done = await peer.call("peer_picture")

        assert done.text == f"Look:\n[image, image/png, {len(PIXEL)} bytes]"
        picture = done.value["content"][1]
        assert base64.b64decode(picture["data"]) == PIXEL

    async def test_a_question_without_anybody_is_cancelled_and_nothing_hangs(
        self, peer: Mount
    ) -> None:
        """A server that would ask the person, through us, hears at once that nobody is there."""
        done = await peer.call("peer_ask")

        assert "cancel" in done.text or done.failure is not None

    async def test_changed_tools_are_listed_anew(self, peer: Mount) -> None:
        """A server that says that its tools changed is looked at again, at once."""
        old = peer.server.tools.digests["shifty"]
        await peer.call("peer_shift", description="Winds the clock.")
        await peer.until(lambda server: server.tools.digests.get("shifty") != old)

        assert peer.server.tools.served["peer_shifty"].description == "Winds the clock."

    async def test_what_was_approved_is_not_run_once_it_is_something_else(
        self, peer: Mount
    ) -> None:
        """A tool that changed after it was offered is not called under its old promise."""
        old = peer.server.tools.digests["shifty"]
        await peer.call("peer_shift", description="Deletes the clock.")
        await peer.until(lambda server: server.tools.digests.get("shifty") != old)

        failed = await peer.call("peer_shifty")
        assert failed.failure is not None
        assert failed.failure.kind == "unavailable"
        assert "has changed `peer_shifty`" in failed.text


class TestAway:
    async def test_a_server_killed_in_a_call_fails_the_call_and_comes_back(self) -> None:
        """The call ends, the tools are unavailable meanwhile, and there is a new connection."""
        async with mounted(stdio()) as peer:
            failed = await peer.call("peer_die")
            assert failed.failure is not None
            assert failed.failure.kind == "unavailable"
            assert "disconnected before it answered" in failed.text
            await peer.until(lambda server: server.fault is not None)
            await peer.until(lambda server: server.fault is None)

            assert (await peer.call("peer_add", a=1, b=1)).value == {"result": 2}

    async def test_the_log_says_when_a_server_is_away_and_when_it_is_back(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Once each, and nothing at the first connection."""
        async with mounted(stdio()) as peer:
            assert caplog.messages == []
            await peer.call("peer_die")
            await peer.until(lambda server: server.fault is not None)
            await peer.until(lambda server: server.fault is None)

        away, back = [text for text in caplog.messages if "the MCP server 'peer'" in text]
        assert "is not connected" in away
        assert back == "the MCP server 'peer' is back"

    @pytest.mark.parametrize("era", ERAS)
    async def test_a_web_server_that_stops_is_missed_and_found_again(self, era: Era) -> None:
        """A call to a server that is gone says so; when the server is back, so are its tools."""
        async with web_peer(era) as web, mounted(web.config()) as peer:
            await web.stop()
            failed = await peer.call("peer_add", a=1, b=1)
            assert failed.failure is not None
            assert failed.failure.kind == "unavailable"
            await peer.until(lambda server: server.fault is not None)

            await web.start()
            await peer.until(lambda server: server.fault is None)
            assert (await peer.call("peer_add", a=1, b=1)).value == {"result": 2}

    @pytest.mark.parametrize("era", ERAS)
    async def test_a_web_server_killed_in_a_call_fails_the_call(self, era: Era) -> None:
        """Nobody waits for an answer that cannot come."""
        async with web_peer(era) as web, mounted(web.config()) as peer:
            begun = asyncio.Event()
            peer.session.bus.subscribe(ToolProgress, lambda _: begun.set())
            running = asyncio.ensure_future(peer.call("peer_wait_long"))
            await begun.wait()
            await web.stop()
            failed = await running

        assert failed.failure is not None
        assert failed.failure.kind == "unavailable"

    async def test_a_web_server_hears_that_its_session_is_over(self) -> None:
        """Leaving is told to a server of the era that keeps sessions."""
        async with web_peer("older") as web:
            async with mounted(web.config()) as peer:
                assert peer.server.fault is None
            await web.until_asked("DELETE /mcp")

    async def test_a_web_server_that_forgot_the_session_is_connected_to_anew(self) -> None:
        """A server that was restarted does not know our session; it is made again."""
        async with web_peer("older") as web, mounted(web.config()) as peer:
            await web.stop()
            await web.start()
            failed = await peer.call("peer_add", a=1, b=1)
            assert failed.failure is not None
            assert failed.failure.kind == "unavailable"
            await peer.until(lambda server: server.fault is not None)
            await peer.until(lambda server: server.fault is None)

            assert (await peer.call("peer_add", a=1, b=1)).value == {"result": 2}

    async def test_a_program_that_is_not_there_is_told_of(self) -> None:
        """A server that cannot be started has a reason, and keeps nobody waiting."""
        config = StdioServerConfig(name="no", terms=terms(), command="no-such-program-anywhere")
        async with mounted(config) as peer:
            assert peer.server.fault is not None
            assert "no such program" in peer.server.fault

    async def test_an_address_that_does_not_answer_is_told_of(self) -> None:
        """So has one whose address nobody listens at."""
        url = f"http://127.0.0.1:{free_port()}/mcp"
        async with mounted(HttpServerConfig(name="no", terms=terms(), url=url)) as peer:
            assert peer.server.fault == "its address does not answer (ConnectError)"

    async def test_an_address_that_refuses_us_is_told_of(self) -> None:
        """Who gave the wrong token learns that it is the token."""

        async def refuse(asked: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
            headers = (await asked.readuntil(b"\r\n\r\n")).lower()
            await asked.readexactly(int(headers.partition(b"content-length:")[2].split()[0]))
            to.write(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            await to.drain()
            to.close()

        async with await asyncio.start_server(refuse, "127.0.0.1", 0) as listening:
            port = listening.sockets[0].getsockname()[1]
            config = HttpServerConfig(name="no", terms=terms(), url=f"http://127.0.0.1:{port}/mcp")
            async with mounted(config) as peer:
                assert peer.server.fault == "it answered with HTTP 401"

    async def test_who_fails_to_follow_costs_nobody_the_connection(self) -> None:
        """What is told of a change is not ours to answer for."""

        def fail(_: MountedServer) -> None:
            raise RuntimeError

        server = MountedServer(raw("fine"), "mcp:raw", fail, environ={}, timing=QUICK)
        server.start()
        await server.first_attempt()
        try:
            assert server.fault is None
        finally:
            await server.close()

    async def test_a_missing_variable_is_told_of_and_not_tried_again(self) -> None:
        """What only a new configuration can mend is not tried for ever."""
        async with mounted(stdio(env={"TOKEN": "${NO_SUCH_TOKEN}"})) as peer:
            assert peer.server.fault is not None
            assert "needs the environment variable NO_SUCH_TOKEN" in peer.server.fault


class TestTheProgram:
    async def test_its_environment_is_clean(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A program gets what its configuration gives it, and of ours only what it needs to run.
        What it tells of its own secrets is not passed on.
        """
        monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
        config = stdio(env={"MODE": "${PEER_MODE}", "TOKEN": "${PEER_TOKEN}"})
        variables = {"PEER_MODE": "fast", "PEER_TOKEN": "t-0123456789"}
        async with mounted(config, variables) as peer:
            done = await peer.call("peer_environment")
            environment = done.value

        assert environment["MODE"] == "fast"
        assert environment["TOKEN"] == "[secret]"
        assert "t-0123456789" not in done.text
        assert "OPENAI_API_KEY" not in environment
        assert environment["PATH"] == os.environ["PATH"]

    async def test_closing_ends_it(self) -> None:
        """R27: nothing that was started for a mount outlives it."""
        before = children()
        async with mounted(stdio()) as peer:
            assert (await peer.call("peer_add", a=1, b=1)).ok
            assert children() > before
        assert children() == before


def children() -> set[str]:
    """The processes that this one has started and that are still there."""
    listed = Path(f"/proc/self/task/{os.getpid()}/children").read_text("ascii")
    return set(listed.split())

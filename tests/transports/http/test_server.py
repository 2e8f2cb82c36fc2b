"""A server opens on loopback, and closes without losing an answer."""

from __future__ import annotations

import asyncio
import signal
import sys
import textwrap
from pathlib import Path

import httpx2
import pytest

from tests.helpers.child_process import child_process
from tests.transports.http.served_runtime import STREAM, TOKENS, events_of, served
from toolcrib.errors import UsageError
from toolcrib.runtime.runtime import create_runtime
from toolcrib.serving.tokens import owner_token
from toolcrib.transports.http.server import HttpServer

CALL = "/v1/sessions/s/tools/held_back/call"


async def test_a_server_makes_a_token_and_asks_for_it(tmp_path: Path) -> None:
    """By default it listens on loopback with a token that it wrote into a private file."""
    path = tmp_path / "token"
    async with (
        create_runtime() as runtime,
        HttpServer(runtime, port=0, token_file=path) as server,
        httpx2.AsyncClient(base_url=server.url) as client,
    ):
        stranger = await client.get("/v1/capabilities")
        told = {"Authorization": f"Bearer {owner_token(path)}"}
        owner = await client.get("/v1/capabilities", headers=told)

    assert server.url.startswith("http://127.0.0.1:")
    assert (stranger.status_code, owner.status_code) == (401, 200)


async def test_a_server_that_others_reach_needs_an_explicit_token(tmp_path: Path) -> None:
    """Nothing is opened or written before that is refused."""
    path = tmp_path / "token"
    with pytest.raises(UsageError, match="token must be set"):
        HttpServer(create_runtime(), host="0.0.0.0", port=0, token_file=path)

    assert not path.exists()
    assert HttpServer(create_runtime(), host="0.0.0.0", port=0, tokens=TOKENS)


async def test_a_port_that_is_taken_is_told() -> None:
    """The error says where it could not listen."""
    async with served() as crib:
        port = int(crib.server.url.rpartition(":")[2])
        with pytest.raises(UsageError, match=f"cannot listen on 127.0.0.1 port {port}"):
            async with HttpServer(crib.runtime, port=port, tokens=TOKENS):
                pass


async def test_stopping_answers_what_runs_and_ends_streams() -> None:
    """A call that runs when the server stops is answered; followers are let go."""
    async with served(drain_seconds=10.0) as crib:
        await crib.session()
        following = asyncio.ensure_future(_follow(crib.client))
        call = asyncio.ensure_future(crib.client.post(CALL, json={"arguments": {"text": "kept"}}))
        await crib.gates.entered.wait()
        crib.server.stop()
        events = await following
        crib.gates.open.set()
        answer = await call
        await crib.server.wait()
        with pytest.raises(httpx2.ConnectError):
            await crib.client.get("/v1/sessions")

    assert events
    assert answer.json()["value"] == "kept"


async def _follow(client: httpx2.AsyncClient) -> list[str]:
    async with client.stream("GET", "/v1/sessions/s/events", headers=STREAM) as response:
        return [sent.event async for sent in events_of(response)]


async def test_a_call_that_outlives_the_drain_is_stopped() -> None:
    """Closing does not wait forever: the session is closed, and its ledger says how it ended."""
    async with served(drain_seconds=0.0) as crib:
        await crib.session()
        call = asyncio.ensure_future(crib.client.post(CALL, json={"arguments": {"text": "x"}}))
        await crib.gates.entered.wait()
        closed = await crib.client.post("/v1/sessions/s/close", json={})
        answer = await call

    assert closed.status_code == 200
    assert (answer.status_code, answer.json()["error"]["kind"]) == (503, "closing")


def test_sigterm_drains_and_closes_the_runtime(tmp_path: Path) -> None:
    """The process ends by itself, after the runtime has closed."""
    code = """
        import asyncio, sys
        from pathlib import Path
        from toolcrib.runtime.runtime import create_runtime
        from toolcrib.transports.http import serve_http

        async def main() -> None:
            async with create_runtime() as runtime:
                ready = lambda url: print(url, flush=True)
                token_file = Path(sys.argv[1])
                await serve_http(runtime, port=0, token_file=token_file, on_ready=ready)
            print("closed", flush=True)

        asyncio.run(main())
    """
    command = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path / "token")]
    with child_process(command) as process:
        url = process.stdout.next_line()
        status = httpx2.get(url.strip() + "/v1/capabilities").status_code
        process.send_signal(signal.SIGTERM)
        ended = process.wait()

    assert status == 401
    assert (process.stdout.text, ended) == (url + "closed\n", 0)

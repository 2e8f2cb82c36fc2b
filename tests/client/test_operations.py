"""The operations of a server through the client: typed, and safe when a connection is lost."""

from __future__ import annotations

import json
import logging
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.client.lossy_server import lossy
from tests.client.thread_server import served_in_thread
from tests.transports.http.served_runtime import OWNERS, READERS, TOKENS, served
from tests.transports.shop import shop
from toolcrib.client import AsyncClient, Client, GrantTerms, Refused
from toolcrib.errors import UsageError
from toolcrib.ledger.events import ToolInvoked
from toolcrib.runtime.messages import PromptResult
from toolcrib.transports.http.server import HttpServer

TOKEN = "t" * 32
SESSION = json.dumps({"session_id": "s1", "state": "open", "last_seq": 1}).encode()
CALLED = json.dumps({"call_id": "c", "tool": "x", "status": "completed", "text": "1"}).encode()


async def no_wait(seconds: float) -> None:
    """In the place of a sleep."""


def client_of(url: str, token: str = TOKEN, **options: Any) -> AsyncClient:
    return AsyncClient(url, token, sleep=no_wait, **options)


async def test_operations_are_the_methods_of_a_runtime() -> None:
    """Criticism 2: a program speaks with a server in typed methods and attributes."""
    async with served() as crib, AsyncClient(crib.server.url, OWNERS) as client:
        session = await client.open_session("s")
        result = await client.call_tool("s", "echo", {"text": "hi"})
        tools = await client.list_tools("s")
        again = await client.open_session("s")
    assert (session.state, result.value) == ("open", {"echo": "hi"})
    assert {tool.name for tool in tools.tools} >= {"echo", "careful"}
    assert again.last_seq > session.last_seq


async def test_an_approval_is_listed_and_decided_with_a_grant() -> None:
    """The inbox and decisions are typed, with the terms of a grant."""
    async with served() as crib, AsyncClient(crib.server.url, OWNERS) as client:
        await client.open_session("s")
        waiting = await client.call_tool("s", "careful", {"text": "a"})
        [request] = (await client.list_approvals()).approvals
        terms = GrantTerms(scope="session", uses=3)
        decided = await client.decide(
            request.approval_id, "approve", digest=request.digest, grant=terms
        )
        done = await client.call_tool("s", "careful", call_id=waiting.call_id)
        [grant] = (await client.list_grants()).grants
    assert (waiting.status, decided.state, done.status) == ("waiting", "decided", "completed")
    assert (grant.scope, grant.uses_left) == ("session", 3)


async def test_a_refusal_is_raised_with_its_kind() -> None:
    """What the server refuses is `Refused`, with the kind and the message that it gave."""
    async with served() as crib:
        async with AsyncClient(crib.server.url, OWNERS) as client:
            with pytest.raises(Refused) as missing:
                await client.get_session("nobody")
        async with AsyncClient(crib.server.url, READERS) as client:
            with pytest.raises(Refused) as forbidden:
                await client.create_session()
        async with AsyncClient(crib.server.url, TOKEN) as client:
            with pytest.raises(Refused) as unknown:
                await client.list_sessions()
    kinds = [missing.value.kind, forbidden.value.kind, unknown.value.kind]
    assert kinds == ["not_found", "forbidden", "unauthorized"]


async def test_a_server_that_is_away_is_unavailable() -> None:
    """A connection that cannot be made is a refusal which says what to look at."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        async with client_of(url) as client:
            with pytest.raises(Refused, match="toolcrib serve --http") as refused:
                await client.list_sessions()
    assert refused.value.kind == "unavailable"
    assert TOKEN not in str(refused.value)


async def test_a_lost_request_that_reads_is_repeated() -> None:
    """Reading twice does no harm, so a lost connection is made good."""
    async with lossy(2, body=SESSION) as server, client_of(server.url) as client:
        assert (await client.get_session("s1")).session_id == "s1"
        assert len(server.requests) == 3


async def test_a_lost_call_is_repeated_under_its_key() -> None:
    """The client makes an idempotency key itself, so that the repetition does nothing twice."""
    async with lossy(1, body=CALLED) as server, client_of(server.url) as client:
        assert (await client.call_tool("s1", "x", {})).text == "1"
        first, second = server.keys()
    assert first == second


async def test_a_call_that_a_balancer_lost_is_repeated_under_its_key() -> None:
    """A replica that stops loses a request between the balancer and itself: that is made good, and
    what has no key is not done again.
    """
    async with lossy(0, bad_gateways=1, body=CALLED) as server, client_of(server.url) as client:
        assert (await client.call_tool("s1", "x", {})).text == "1"
        first, second = server.keys()
    assert first == second
    async with lossy(0, bad_gateways=1) as server, client_of(server.url) as client:
        with pytest.raises(Refused, match="HTTP status 502"):
            await client.close_session("s1")
        assert len(server.requests) == 1


async def test_a_lost_request_without_a_key_is_not_repeated() -> None:
    """What may have been done is not done again."""
    async with lossy(1) as server, client_of(server.url) as client:
        with pytest.raises(Refused) as refused:
            await client.close_session("s1")
        assert len(server.requests) == 1
    assert refused.value.kind == "unavailable"


async def test_a_call_that_was_lost_has_run_once() -> None:
    """A real server shares the result under the key: the tool ran once."""
    async with served() as crib, AsyncClient(crib.server.url, OWNERS) as client:
        await client.open_session("s")
        params = ("s", "echo", {"text": "once"})
        results = [await client.call_tool(*params, idempotency_key="k") for _ in range(2)]
        assert crib.gates.calls == ["once"]
    assert results[0].call_id == results[1].call_id


async def test_a_redirect_is_not_followed() -> None:
    """The token goes to the server that was named and to no other."""
    async with lossy(0, body=SESSION) as elsewhere:
        location = f"Location: {elsewhere.url}/v1/sessions/s1\r\n"
        async with (
            lossy(0, status="307 Moved", headers=location) as server,
            client_of(server.url) as client,
        ):
            with pytest.raises(Refused, match="307"):
                await client.get_session("s1")
        assert elsewhere.requests == []


async def test_a_proxy_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy would see the token; only one that the program names is used."""
    async with lossy(0, body=SESSION) as proxy, lossy(0, body=SESSION) as server:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("ALL_PROXY", proxy.url)
        async with client_of(server.url) as client:
            await client.get_session("s1")
        assert (len(proxy.requests), len(server.requests)) == (0, 1)
        async with client_of(server.url, proxy=proxy.url) as client:
            await client.get_session("s1")
        assert (len(proxy.requests), len(server.requests)) == (1, 1)


async def test_the_answer_of_another_version_is_told() -> None:
    """An answer that lacks what this version needs is a refusal that says so, and no crash."""
    async with lossy(0, body=b'{"session_id": "s1"}') as server, client_of(server.url) as client:
        with pytest.raises(Refused, match="not of this version") as refused:
            await client.get_session("s1")
    assert refused.value.kind == "internal"


async def test_what_is_no_toolcrib_server_is_told() -> None:
    """A page of something else is a refusal that names the address as the likely fault."""
    async with (
        lossy(0, body=b"<html>", status="502 Bad") as server,
        client_of(server.url) as client,
    ):
        with pytest.raises(Refused, match="not from a Toolcrib server"):
            await client.get_session("s1")


@pytest.mark.parametrize("url", ["ftp://x", "127.0.0.1:80", "http://u:p@host", "http://h/?q=1"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    """The address is checked before anything goes anywhere."""
    with pytest.raises(UsageError):
        AsyncClient(url, TOKEN)


def test_the_token_is_in_no_text(caplog: pytest.LogCaptureFixture) -> None:
    """Neither the client nor the warning about a plain connection shows the token."""
    with caplog.at_level(logging.WARNING, "toolcrib.client"):
        client = AsyncClient("http://crib.example:8420", TOKEN)
    assert "unencrypted" in caplog.text
    assert TOKEN not in caplog.text + repr(client)


def test_the_token_comes_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A token file is read as the command line reads it, and none at all is a usage error."""
    monkeypatch.delenv("TOOLCRIB_TOKEN", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with pytest.raises(UsageError, match="no token"):
        AsyncClient("http://crib.example")
    file = tmp_path / "token"
    file.write_text(TOKEN)
    file.chmod(0o600)
    assert AsyncClient("https://crib.example", token_file=file) is not None


async def test_a_client_that_is_closed_says_so() -> None:
    """Using it again is a mistake of the program, told as one."""
    client = client_of("http://127.0.0.1:1")
    await client.aclose()
    with pytest.raises(UsageError, match="closed"):
        await client.list_sessions()


def test_a_missing_library_is_told_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the extra there is no traceback of imports, but the line to run."""

    def find_nothing(name: str) -> None: ...

    monkeypatch.setattr("toolcrib.client.address.find_spec", find_nothing)
    with pytest.raises(UsageError, match=r"pip install .*client"):
        AsyncClient("http://127.0.0.1:1", TOKEN)


async def test_artifacts_are_read_over_http() -> None:
    """F7: a REST client fetches the whole of a long result, in pages."""
    async with served() as crib, AsyncClient(crib.server.url, OWNERS) as client:
        await client.open_session("s")
        cut = await client.call_tool("s", "echo", {"text": "long " * 20_000})
        assert cut.artifact_id is not None
        whole = await client.artifact("s", cut.artifact_id)
        page = await client.artifact("s", cut.artifact_id, offset=9, limit=4)
    assert len(whole.text) > 100_000 > len(cut.text)
    assert (page.text, page.next_offset) == (whole.text[9:13], 13)


async def test_a_chat_over_a_connection() -> None:
    """`chat` of a client streams the typed events of a prompt, and its result last."""
    async with (
        shop(has_model=True) as runtime,
        HttpServer(runtime, port=0, tokens=TOKENS) as server,
        AsyncClient(server.url, OWNERS) as client,
    ):
        chat = await client.chat("talk")
        steps = [step async for step in chat.send("Greet Ada")]
    assert any(isinstance(step, ToolInvoked) for step in steps)
    last = steps[-1]
    assert isinstance(last, PromptResult)
    assert (last.status, last.text) == ("completed", "Ada was greeted.")


async def test_new_requests_for_approval_are_watched() -> None:
    """Those that wait come first, then each new one, once."""
    async with served() as crib, AsyncClient(crib.server.url, OWNERS) as client:
        await client.open_session("s")
        await client.call_tool("s", "careful", {"text": "a"})
        watched = client.watch_approvals(poll_seconds=0.0)
        first = await anext(watched)
        await client.call_tool("s", "careful", {"text": "b"})
        second = await anext(watched)
        await watched.aclose()
    assert [each.arguments["text"] for each in (first, second)] == ["a", "b"]


def test_the_blocking_client_has_the_same_operations() -> None:
    """A program without an event loop calls the same methods and gets the same results."""
    with served_in_thread() as url, Client(url, OWNERS) as client:
        client.open_session("s")
        result = client.call_tool("s", "echo", {"text": "hi"})
        client.call_tool("s", "careful", {"text": "a"})
        watched = client.watch_approvals(poll_seconds=0.0)
        request = next(watched)
        watched.close()
        client.decide(request.approval_id, "deny", reason="no")
        assert client.list_approvals().approvals == []
        with pytest.raises(Refused) as missing:
            client.get_session("nobody")
    assert (result.value, missing.value.kind) == ({"echo": "hi"}, "not_found")


def test_importing_the_package_imports_no_http_library() -> None:
    """`import toolcrib` and the client's package cost next to nothing until they are used."""
    code = "import toolcrib, toolcrib.client, sys; print([m for m in sys.modules if 'httpx' in m])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

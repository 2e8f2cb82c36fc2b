"""An MCP client that initialised at one replica is answered by the other."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from pydantic_core import from_json, to_json

from tests.helpers.patience import PATIENCE
from tests.transports.http.served_runtime import CALLERS, OWNERS
from tests.transports.mcp.connected_client import Person, says, text_of
from tests.transports.replicas.two_servers import ServedReplica, TakingTurns, two_servers
from toolcrib.runtime.client_answers import ForwardedAnswer
from toolcrib.serving.replica_credential import ReplicaRequest
from toolcrib.transports.http.replica_link import CLIENT_ANSWERS_PATH, OPERATIONS_PATH

INITIALIZE: dict[str, Any] = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"roots": {}},
    "clientInfo": {"name": "sample", "version": "1"},
}


def headers(session_id: str | None = None, token: str = OWNERS) -> dict[str, str]:
    named = {} if session_id is None else {"Mcp-Session-Id": session_id}
    return {
        "Authorization": f"Bearer {token}",
        "Accept": "application/json, text/event-stream",
        "Mcp-Protocol-Version": "2025-06-18",
        **named,
    }


async def ask(
    at: ServedReplica,
    method: str,
    session_id: str | None = None,
    token: str = OWNERS,
    params: Any = None,
) -> httpx2.Response:
    message: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}}
    return await at.client.post("/mcp", json=message, headers=headers(session_id, token))


async def initialized(at: ServedReplica) -> str:
    answer = await ask(at, "initialize", params=INITIALIZE)
    assert answer.status_code == 200, answer.text
    return answer.headers["mcp-session-id"]


async def test_the_official_client_does_not_notice_the_balancer(postgres_url: str) -> None:
    """Every request goes to the other server than the one before: all are answered, in one session,
    and none with 404.
    """
    async with two_servers(postgres_url) as (a, b):
        turns = TakingTurns(a.url, b.url)
        async with httpx2.AsyncClient(
            transport=turns, headers={"Authorization": f"Bearer {OWNERS}"}, timeout=PATIENCE
        ) as http:
            transport = streamable_http_client(f"{a.url}/mcp", http_client=http)
            async with asyncio.timeout(PATIENCE), Client(transport, mode="legacy") as client:
                for _ in range(4):
                    await client.list_resources()
                listed = {tool.name for tool in (await client.list_tools()).tools}
        sessions = (await a.runtime.ask("session.list")).sessions

    assert "echo" in listed
    assert {at for _, at, _ in turns.statuses} == {0, 1}
    assert all(status < 300 for method, _, status in turns.statuses if method != "GET")
    assert len(sessions) == 1


async def test_a_client_is_known_with_its_principal_only(postgres_url: str) -> None:
    """The id of a client is worth nothing with another token, at either replica."""
    async with two_servers(postgres_url) as (a, b):
        session_id = await initialized(a)
        mine = [(await ask(at, "ping", session_id)).status_code for at in (b, a, b)]
        theirs = [(await ask(at, "ping", session_id, CALLERS)).status_code for at in (a, b)]
        after = (await ask(b, "ping", session_id)).status_code
        unknown = [(await ask(b, "ping", name)).status_code for name in ("0" * 32, "a/../b", "x%")]

    assert mine == [200, 200, 200]
    assert theirs == [404, 404]
    assert after == 200
    assert unknown == [404, 404, 404]


async def test_the_answers_name_the_clients_own_id(postgres_url: str) -> None:
    """Whatever a replica calls the client inside, the client hears its own id."""
    async with two_servers(postgres_url) as (a, b):
        session_id = await initialized(a)
        answer = await ask(b, "ping", session_id)

    assert answer.headers["mcp-session-id"] == session_id


async def test_an_ended_session_is_ended_everywhere(postgres_url: str) -> None:
    """DELETE at one replica: 404 at both, and the stream that is open at the other ends."""
    async with two_servers(postgres_url) as (a, b):
        session_id = await initialized(a)
        assert (await ask(b, "ping", session_id)).status_code == 200
        listening = a.client.stream("GET", "/mcp", headers=headers(session_id))
        async with asyncio.timeout(PATIENCE), listening as stream:
            assert stream.status_code == 200
            ended = await b.client.delete("/mcp", headers=headers(session_id))
            async for _ in stream.aiter_bytes():
                pass
        after = [(await ask(at, "ping", session_id)).status_code for at in (a, b)]

    assert ended.status_code == 200
    assert after == [404, 404]


async def test_a_client_outlives_the_replica_that_it_initialised_at(postgres_url: str) -> None:
    """What a replica that stops knew of its clients is known to the others."""
    async with two_servers(postgres_url) as (a, b):
        session_id = await initialized(a)
        first = await ask(a, "tools/list", session_id)
        await a.server.__aexit__(None, None, None)
        await a.runtime.close()
        second = await ask(b, "tools/list", session_id)

    assert first.status_code == second.status_code == 200
    assert "echo" in second.text


async def test_the_log_level_is_the_clients_everywhere(postgres_url: str) -> None:
    """`logging/setLevel` at one replica holds at the other."""
    async with two_servers(postgres_url) as (a, b):
        session_id = await initialized(a)
        assert (await ask(b, "ping", session_id)).status_code == 200
        level = await ask(a, "logging/setLevel", session_id, params={"level": "error"})
        value = b.store.value(f"mcp/{session_id}")

    assert level.status_code == 200
    assert value is not None
    assert b'"log_level": "error"' in value.body


async def test_an_idle_copy_is_made_again(postgres_url: str) -> None:
    """A replica that has forgotten a client, which went on elsewhere, knows it again."""
    async with two_servers(postgres_url) as (a, b):
        session_id = await initialized(a)
        assert (await ask(b, "ping", session_id)).status_code == 200
        # As when the copy was idle for too long here: the SDK has ended it.
        endpoint: Any = b.mcp.endpoint
        copy = endpoint._clients._copies[session_id]
        await endpoint._streams._server_instances[copy.session_id].terminate()
        again = await ask(b, "ping", session_id)

    assert again.status_code == 200


async def test_a_form_of_one_replica_is_answered_at_the_other(postgres_url: str) -> None:
    """The answer to a form comes to the replica that did not ask: it is brought to the one that
    did, and the call goes on in its request, at either replica.
    """
    person = Person(*(says("approve") for _ in range(4)))
    async with two_servers(postgres_url) as (a, b):
        turns = TakingTurns(a.url, b.url)
        async with httpx2.AsyncClient(
            transport=turns, headers={"Authorization": f"Bearer {OWNERS}"}, timeout=PATIENCE
        ) as http:
            transport = streamable_http_client(f"{a.url}/mcp", http_client=http)
            connected = Client(transport, mode="legacy", elicitation_callback=person)
            async with asyncio.timeout(PATIENCE), connected as client:
                called: list[Any] = []
                for n in range(4):
                    # Calls begin at both replicas, whichever got the request before.
                    called.append(await client.call_tool("careful", {"text": f"tree {n}"}))
                    if n % 2:
                        await client.list_resources()

    assert [text_of(result) for result in called] == [f'{{"echo":"tree {n}"}}' for n in range(4)]
    assert len(person.asked) == 4


async def asked(lines: AsyncIterator[str]) -> dict[str, Any]:
    """The next message on a stream."""
    async for line in lines:
        if line.startswith("data: {"):
            return json.loads(line.removeprefix("data: "))
    raise AssertionError("the stream has ended")


def approval_of(request: dict[str, Any]) -> dict[str, Any]:
    answer = {"action": "accept", "content": {"decision": "approve"}}
    return {"jsonrpc": "2.0", "id": request["id"], "result": answer}


async def test_only_the_client_that_was_asked_answers(
    postgres_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Another client that knows the id of the request answers nothing, nor does one with another
    token; no token opens the path between replicas, and no signature for another path.
    """
    initialize: dict[str, Any] = {**INITIALIZE, "capabilities": {"elicitation": {}}}
    async with two_servers(postgres_url) as (a, b), asyncio.timeout(PATIENCE):
        mine, theirs = [
            (await ask(a, "initialize", params=initialize)).headers["mcp-session-id"]
            for _ in range(2)
        ]
        params = {"name": "careful", "arguments": {"text": "a tree"}}
        call = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
        async with a.client.stream("POST", "/mcp", json=call, headers=headers(mine)) as stream:
            lines = stream.aiter_lines()
            request = await asked(lines)
            answer = approval_of(request)

            async def forwarded(**changes: str) -> Any:
                facts = {"client_id": mine, "request_id": request["id"], **principal, **changes}
                body = to_json(ForwardedAnswer(message=json.dumps(answer), **facts))
                credential = b.server.credential
                assert credential is not None
                statuses: list[int] = []
                path = CLIENT_ANSWERS_PATH
                wrong, right = (
                    credential.sign(ReplicaRequest("POST", at, body), a.store.replica_id)
                    for at in (OPERATIONS_PATH, path)
                )
                for refused in (f"Bearer {OWNERS}", wrong.authorization):
                    sent = {"authorization": refused, "content-type": "application/json"}
                    reply = await a.client.post(path, content=body, headers=sent)
                    statuses.append(reply.status_code)
                assert statuses == [401, 401]
                sent = {"authorization": right.authorization, "content-type": "application/json"}
                return from_json((await a.client.post(path, content=body, headers=sent)).content)

            value = b.store.value(f"mcp/{mine}")
            assert value is not None
            kept = from_json(value.body)
            principal = {"name": kept["name"], "standing": kept["standing"]}
            for changes in (
                {"client_id": theirs},
                {"standing": "caller"},
                {"name": "somebody"},
                {"request_id": f"{a.store.replica_id}-{'0' * 16}"},
            ):
                assert await forwarded(**changes) == {"is_taken": False}
            other = await b.client.post("/mcp", json=answer, headers=headers(theirs))
            stranger = await b.client.post("/mcp", json=answer, headers=headers(mine, CALLERS))
            calls_before = len((await b.runtime.ask("approvals.list")).approvals)
            right = await b.client.post("/mcp", json=answer, headers=headers(mine))
            result = await asked(lines)

    assert (other.status_code, stranger.status_code, right.status_code) == (202, 404, 202)
    assert calls_before == 1
    assert "nothing waits for it there" in caplog.text
    assert (result["id"], result["result"].get("isError", False)) == (7, False)


async def test_an_answer_to_a_replica_that_is_gone_is_accepted_and_dropped(
    postgres_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The client hears nothing of it, and the log does."""
    gone = {"id": f"{'0' * 16}-{'0' * 16}"}
    async with two_servers(postgres_url) as (a, b):
        session_id = await initialized(a)
        answer = await b.client.post("/mcp", json=approval_of(gone), headers=headers(session_id))
        after = await ask(b, "ping", session_id)

    assert (answer.status_code, after.status_code) == (202, 200)
    assert f"to replica {'0' * 16} is dropped" in caplog.text

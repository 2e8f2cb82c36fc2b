"""Client tools of a session that is open at another replica than its client is connected to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from pydantic_core import from_json, to_json
from websockets.asyncio.client import ClientConnection, connect

from tests.helpers.patience import PATIENCE
from tests.transports.http.served_runtime import OWNERS
from tests.transports.replicas.conftest import SESSION, Pair, ReplicaHost
from toolcrib.errors import ClientFailed, Refused
from toolcrib.runtime import attached_clients
from toolcrib.runtime.attached_clients import ForwardedCall
from toolcrib.runtime.principal import Principal
from toolcrib.serving.replica_credential import ReplicaRequest
from toolcrib.transports.http.replica_link import CLIENT_CALLS_PATH, OPERATIONS_PATH

ADA = Principal("ada", frozenset({"caller"}), frozenset(), "http")
RING: dict[str, Any] = {
    "name": "ring",
    "description": "Ring.",
    "parameters": {"type": "object", "properties": {"times": {"type": "integer"}}},
}


class Bell:
    """A client that rings, or waits until it is told to."""

    def __init__(self, *, waits: bool = False) -> None:
        self.asked: list[int] = []
        self.is_asked = asyncio.Event()
        self.was_stopped = asyncio.Event()
        self.go_on = asyncio.Event()
        if not waits:
            self.go_on.set()

    async def run(self, call_id: str, name: str, arguments: Mapping[str, Any]) -> Any:
        self.asked.append(arguments["times"])
        self.is_asked.set()
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.was_stopped.set()
            raise
        if arguments["times"] < 0:
            raise ClientFailed("the bell cannot ring backwards")
        return {"rung": arguments["times"]}


def ring(host: ReplicaHost, times: int = 3, **more: Any) -> asyncio.Future[Any]:
    call = {"name": "ring", "arguments": {"times": times}, **more}
    return asyncio.ensure_future(host.ask("tools.call", session_id=SESSION, **call))


async def declared(pair: Pair) -> None:
    """The session is open at the first replica, and its client tool is declared at the second."""
    await pair.two.ask("session.resume", session_id=SESSION, client_tools=[RING])
    holder = pair.two.store.holder(SESSION)
    assert holder is not None
    assert holder.replica_id == pair.one.store.replica_id


async def test_a_call_reaches_the_client_where_it_is_connected(pair: Pair) -> None:
    """Whichever replica is asked for the call, and what the client says comes back as it is."""
    await declared(pair)
    bell = Bell()
    detach = await pair.two.runtime.service.attach(SESSION, bell)

    for host in (pair.one, pair.two):
        assert (await ring(host))["value"] == {"rung": 3}
    failed = await ring(pair.one, -1)
    detach()
    late = await ring(pair.one)

    assert bell.asked == [3, 3, -1]
    assert "cannot ring backwards" in failed["failure"]["message"]
    assert (failed["failure"]["kind"], late["failure"]["kind"]) == ("tool_error", "unavailable")
    holder = pair.two.store.holder(SESSION)
    assert holder is not None
    assert holder.replica_id == pair.one.store.replica_id


@asynccontextmanager
async def socket(host: ReplicaHost) -> AsyncGenerator[ClientConnection]:
    uri = host.server.url.replace("http", "ws") + "/v1/ws"
    headers = {"Authorization": f"Bearer {OWNERS}"}
    async with connect(uri, additional_headers=headers, proxy=None) as connection:
        yield connection


async def told(connection: ClientConnection) -> Any:
    async with asyncio.timeout(PATIENCE):
        return json.loads(await connection.recv())


async def ask(connection: ClientConnection, method: str, params: dict[str, Any]) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    await connection.send(json.dumps(message))
    answer = await told(connection)
    assert "result" in answer, answer


@pytest.mark.parametrize("how", ["declares", "attaches"])
async def test_a_socket_runs_the_tools_of_a_session_that_is_open_elsewhere(
    pair: Pair, how: str
) -> None:
    """A client that declares its tools is attached, and so is one that comes back."""
    await declared(pair)
    async with socket(pair.two) as connection:
        if how == "declares":
            params = {"session_id": SESSION, "client_tools": [RING]}
            await ask(connection, "session.resume", params)
        else:
            await ask(connection, "client.attach", {"session_id": SESSION})
        calling = ring(pair.one, 4)
        asked = await told(connection)
        assert (asked["method"], asked["params"]["arguments"]) == ("client.call", {"times": 4})
        answer = {"jsonrpc": "2.0", "id": asked["id"], "result": "rung"}
        await connection.send(json.dumps(answer))
        assert (await calling)["value"] == "rung"
        calling = ring(pair.one, 5)
        await told(connection)
    assert (await calling)["failure"]["kind"] == "unavailable"


async def test_cancelling_a_call_stops_it_at_the_client(pair: Pair) -> None:
    """The replica of the client hears that nobody needs the result."""
    await declared(pair)
    bell = Bell(waits=True)
    await pair.two.runtime.service.attach(SESSION, bell)
    calling = ring(pair.one, call_id="c1")
    await asyncio.wait_for(bell.is_asked.wait(), PATIENCE)

    await pair.two.ask("tools.cancel", session_id=SESSION, call_id="c1")

    await asyncio.wait_for(bell.was_stopped.wait(), PATIENCE)
    assert (await calling)["failure"]["kind"] == "cancelled"


@pytest.mark.parametrize("is_here", [True, False])
async def test_the_client_that_came_last_runs_the_tools(
    pair: Pair, is_here: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It replaces an earlier one at another replica, whose running call fails."""
    monkeypatch.setattr(attached_clients, "LOOK_SECONDS", 0.05)
    await declared(pair)
    first, last = (pair.one, pair.two) if is_here else (pair.two, pair.one)
    old, new = Bell(waits=True), Bell()
    await first.runtime.service.attach(SESSION, old)
    calling = ring(pair.one)
    await asyncio.wait_for(old.is_asked.wait(), PATIENCE)

    await last.runtime.service.attach(SESSION, new)

    assert (await asyncio.wait_for(calling, PATIENCE))["failure"]["kind"] == "unavailable"
    await asyncio.wait_for(old.was_stopped.wait(), PATIENCE)
    assert (await ring(pair.one))["value"] == {"rung": 3}
    assert (old.asked, new.asked) == ([3], [3])


async def test_a_client_stays_attached_while_its_session_moves(pair: Pair) -> None:
    """The session is let go by one replica and opened by the other; nobody attaches again."""
    await declared(pair)
    bell = Bell()
    await pair.two.runtime.service.attach(SESSION, bell)
    sessions: Any = pair.one.runtime.service
    live = sessions._sessions.find(SESSION)
    await sessions._sessions.let_go(live)

    assert (await ring(pair.two))["value"] == {"rung": 3}

    holder = pair.one.store.holder(SESSION)
    assert holder is not None
    assert holder.replica_id == pair.two.store.replica_id


async def test_a_client_whose_replica_is_gone_is_not_connected(pair: Pair) -> None:
    """The call fails, and says so; it does not wait for a replica that cannot be reached."""
    await declared(pair)
    await pair.two.runtime.service.attach(SESSION, Bell())
    await pair.two.server.__aexit__(None, None, None)
    assert (await ring(pair.one))["failure"]["kind"] == "unavailable"


async def test_a_call_ends_with_the_replica_that_its_client_is_connected_to(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that does not answer any more, and has lost its lease, is not waited for."""
    monkeypatch.setattr(attached_clients, "LOOK_SECONDS", 0.05)
    await declared(pair)
    bell = Bell(waits=True)
    await pair.two.runtime.service.attach(SESSION, bell)
    calling = ring(pair.one)
    await asyncio.wait_for(bell.is_asked.wait(), PATIENCE)
    all_replicas = pair.one.store.replicas
    others = [each for each in all_replicas() if each.replica_id != pair.two.store.replica_id]
    monkeypatch.setattr(pair.one.store, "replicas", lambda: others)
    assert (await asyncio.wait_for(calling, PATIENCE))["failure"]["kind"] == "unavailable"


async def test_nobody_attaches_to_anothers_session_or_tools(pair: Pair) -> None:
    """The same rules as where the session is open."""
    await declared(pair)
    with pytest.raises(Refused) as refused:
        await pair.two.runtime.service.attach(SESSION, Bell(), ADA)
    assert refused.value.kind == "not_found"
    await pair.one.runtime.ask("session.create", {"session_id": "ada:1"}, ADA)
    brought = {"session_id": "ada:1", "client_tools": [RING]}
    await pair.two.runtime.ask("session.resume", brought)
    with pytest.raises(Refused, match="another principal") as refused:
        await pair.two.runtime.service.attach("ada:1", Bell(), ADA)
    assert refused.value.kind == "forbidden"


async def test_a_client_does_not_run_tools_that_another_principal_brings_later(pair: Pair) -> None:
    """Not even when it is connected to another replica."""
    await pair.one.runtime.ask("session.create", {"session_id": "ada:1"}, ADA)
    bell = Bell()
    await pair.two.runtime.service.attach("ada:1", bell)
    brought = {"session_id": "ada:1", "client_tools": [RING]}
    await pair.one.runtime.ask("session.resume", brought, ADA)
    call = {"session_id": "ada:1", "name": "ring", "arguments": {"times": 1}}
    result = await pair.one.runtime.ask("tools.call", call, ADA)
    assert (result.failure.kind, bell.asked) == ("unavailable", [])


async def test_only_a_replica_asks_a_client_and_only_over_its_own_connection(pair: Pair) -> None:
    """No token opens the path, no signature for another one, and no call goes to a client that was
    not attached for it.
    """
    await declared(pair)
    bell = Bell()
    await pair.one.runtime.service.attach(SESSION, bell)
    call = ForwardedCall(SESSION, "another", "c", "ring", {"times": 1})
    body, credential = to_json(call), pair.two.server.credential
    assert credential is not None
    target = pair.one.store.replica_id

    async def post(authorization: str) -> httpx2.Response:
        headers = {"authorization": authorization, "content-type": "application/json"}
        async with httpx2.AsyncClient(base_url=pair.one.server.url, timeout=PATIENCE) as client:
            return await client.post(CLIENT_CALLS_PATH, content=body, headers=headers)

    for_operations = credential.sign(ReplicaRequest("POST", OPERATIONS_PATH, body), target)
    for refused in (f"Bearer {OWNERS}", for_operations.authorization):
        assert (await post(refused)).status_code == 401
    signed = credential.sign(ReplicaRequest("POST", CLIENT_CALLS_PATH, body), target)
    answer = await post(signed.authorization)
    assert (answer.status_code, from_json(answer.content)) == (200, {"gone": True})
    assert bell.asked == []

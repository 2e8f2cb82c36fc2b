"""Functions of a program as tools of a session on a server, through the client."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.client.lossy_server import lossy
from tests.client.test_events import running
from tests.client.thread_server import served_in_thread
from tests.helpers.patience import PATIENCE
from tests.transports.http.served_runtime import OWNERS, READERS, served
from toolcrib import tool
from toolcrib.client import AsyncClient, Client, Refused


@tool
async def colour(name: str) -> dict[str, str]:
    """Look up a colour.

    Args:
        name: Of what.
    """
    return {"colour": f"red as {name}"}


@tool
def jam() -> str:
    """Fail."""
    raise ValueError("the printer is jammed")


@tool(requires_approval=True)
def pay(amount: int) -> int:
    """Pay.

    Args:
        amount: How much.
    """
    return amount


async def test_a_function_runs_as_a_tool_of_the_session() -> None:
    """F14: a client runs client tools with `@tool` functions, and answers with their results."""
    async with served() as crib, AsyncClient(crib.server.url, OWNERS) as client:
        await client.open_session("s")
        async with client.client_tools("s", [colour, jam]):
            facts = await client.get_tool("s", "colour")
            done = await client.call_tool("s", "colour", {"name": "wine"})
            failed = await client.call_tool("s", "jam")
            wrong = await client.call_tool("s", "colour", {"name": 5})
        gone = await client.call_tool("s", "colour", {"name": "wine"})
    assert (facts.source, done.value) == ("client", {"colour": "red as wine"})
    assert (failed.status, "jammed" in failed.text) == ("failed", True)
    assert wrong.failure is not None
    assert wrong.failure.kind == "invalid_arguments"
    assert gone.failure is not None
    assert gone.failure.kind == "unavailable"


async def test_approval_is_asked_for_by_the_server() -> None:
    """A tool that requires approval waits in the server's inbox, and then runs here, unasked."""
    async with served() as crib, AsyncClient(crib.server.url, OWNERS) as client:
        await client.open_session("s")
        async with client.client_tools("s", [pay]):
            waiting = await client.call_tool("s", "pay", {"amount": 5})
            await client.decide(waiting.approval_id or "", "approve")
            done = await client.call_tool("s", "pay", call_id=waiting.call_id)
    assert (waiting.status, done.value) == ("waiting", 5)


async def test_a_cancelled_call_is_cancelled_here() -> None:
    """Cancelling on the server stops the function in the client."""
    started, stopped = asyncio.Event(), asyncio.Event()

    @tool
    async def linger() -> None:
        """Wait for ever."""
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async with served() as crib, AsyncClient(crib.server.url, OWNERS) as client:
        await client.open_session("s")
        async with client.client_tools("s", [linger]):
            calling = asyncio.ensure_future(client.call_tool("s", "linger", call_id="c1"))
            async with asyncio.timeout(PATIENCE):
                await started.wait()
                await client.cancel_call("s", "c1")
                await stopped.wait()
            assert (await calling).status == "failed"


async def test_tools_are_declared_again_after_a_restart(tmp_path: Path) -> None:
    """A lost connection is made again, also with another process that serves the session."""
    path = tmp_path / "store.sqlite3"
    async with running(path) as first:
        url, client = first.url, AsyncClient(first.url, OWNERS)
        await client.open_session("s")
        connected = client.client_tools("s", [colour])
        await connected.__aenter__()
    async with running(path, urlsplit(url).port or 0):
        async with asyncio.timeout(PATIENCE):
            result = await called_when_there(client)
        await connected.__aexit__()
        await client.aclose()
    assert result.value == {"colour": "red as wine"}


async def called_when_there(client: AsyncClient) -> Any:
    """The result of a call, once the session is open and its client is attached."""
    while True:
        try:
            result = await client.call_tool("s", "colour", {"name": "wine"})
        except Refused:
            continue
        if result.status == "completed":
            return result


async def test_who_may_not_is_refused() -> None:
    """An auditor cannot bring tools, and hears why at once."""
    async with served() as crib, AsyncClient(crib.server.url, OWNERS) as owner:
        await owner.open_session("s")
        async with AsyncClient(crib.server.url, READERS) as client:
            with pytest.raises(Refused) as forbidden:
                await client.run_client_tools("s", [colour])
        async with AsyncClient(crib.server.url, "t" * 32) as client:
            with pytest.raises(Refused) as unknown:
                await client.run_client_tools("s", [colour])
    assert (forbidden.value.kind, unknown.value.kind) == ("forbidden", "unauthorized")


async def test_a_redirected_socket_is_not_followed() -> None:
    """The token goes to the server that was named, also over WebSocket."""
    async with lossy(0) as elsewhere:
        location = f"Location: {elsewhere.url.replace('http', 'ws')}/v1/ws\r\n"
        async with (
            lossy(0, status="302 Found", headers=location) as server,
            AsyncClient(server.url, "t" * 32) as client,
        ):
            with pytest.raises(Refused):
                await client.run_client_tools("s", [colour])
        assert elsewhere.requests == []


def test_the_blocking_client_runs_tools() -> None:
    """Within the block, functions run in the client's thread while the program goes on."""
    with served_in_thread() as url, Client(url, OWNERS) as client:
        client.open_session("s")
        with client.client_tools("s", [colour]):
            result = client.call_tool("s", "colour", {"name": "wine"})
    assert result.value == {"colour": "red as wine"}

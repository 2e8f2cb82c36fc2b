"""A task that one replica has handed out is answered by the other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from tests.helpers.patience import PATIENCE
from tests.transports.http.served_runtime import CALLERS, OWNERS
from tests.transports.mcp.connected_client import STATELESS
from tests.transports.mcp.task_client import TaskClient, TaskExtension, task_of
from tests.transports.replicas.two_servers import ServedReplica, two_servers


@asynccontextmanager
async def client_of(replica: ServedReplica, token: str = CALLERS) -> AsyncGenerator[TaskClient]:
    """A client with the extension, at one replica."""
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(headers=headers, timeout=PATIENCE) as http:
        transport = streamable_http_client(f"{replica.url}/mcp", http_client=http)
        async with Client(transport, mode=STATELESS, extensions=[TaskExtension()]) as client:
            yield TaskClient(client)


async def test_a_task_is_answered_and_decided_at_any_replica(postgres_url: str) -> None:
    """R45: the other replica shows what waits, and its result once it was approved there."""
    async with (
        two_servers(postgres_url) as (a, b),
        client_of(a) as first,
        client_of(b) as second,
        asyncio.timeout(PATIENCE),
    ):
        created = task_of(await first.client.call_tool("careful", {"text": "a tree"}))
        waiting = await second.get(created["taskId"])
        (filed,) = (await b.runtime.ask("approvals.list", {})).approvals
        await b.runtime.decide(filed.approval_id, "approve")
        at_b = await second.until(created["taskId"], "completed")
        at_a = await first.get(created["taskId"])

    assert waiting["status"] == "working"
    assert filed.approval_id in waiting["statusMessage"]
    assert at_b["result"]["structuredContent"] == {"echo": "a tree"}
    assert at_a["result"] == at_b["result"]


async def test_a_task_that_runs_is_seen_and_cancelled_at_any_replica(postgres_url: str) -> None:
    """The other replica has not the call, and forwards what is asked of it."""
    async with (
        two_servers(postgres_url) as (a, b),
        client_of(a) as first,
        client_of(b) as second,
        asyncio.timeout(PATIENCE),
    ):
        created = task_of(await first.client.call_tool("held_back", {"text": "never"}))
        running = await second.get(created["taskId"])
        await second.cancel(created["taskId"])
        ended = await second.until(created["taskId"], "cancelled", "completed")

    assert running["status"] == "working"
    assert ended["status"] == "cancelled"


async def test_a_task_of_another_principal_is_not_found_at_any_replica(postgres_url: str) -> None:
    """R51: not even by the owner of the server, who sees every session."""
    async with (
        two_servers(postgres_url) as (a, b),
        client_of(a) as first,
        client_of(b, OWNERS) as other,
    ):
        created = task_of(await first.client.call_tool("careful", {"text": "a tree"}))
        with pytest.raises(MCPError, match="Task not found"):
            await other.get(created["taskId"])

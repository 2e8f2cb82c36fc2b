"""Status notifications of tasks, on a stream that the client listens to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import (
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    SubscriptionFilter,
    SubscriptionsListenRequest,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
)

from tests.helpers.patience import PATIENCE
from tests.transports.mcp.connected_client import STATELESS, Bench, connected
from tests.transports.mcp.task_client import TaskClient, TaskExtension, task_of
from toolcrib.transports.mcp import McpOptions

SOON = McpOptions(task_after_seconds=0.01)


class Stream:
    """What came on a listening stream."""

    def __init__(self) -> None:
        self.messages: asyncio.Queue[tuple[str, dict[str, Any]]] = asyncio.Queue()

    async def next(self) -> tuple[str, dict[str, Any]]:
        async with asyncio.timeout(PATIENCE):
            return await self.messages.get()


@asynccontextmanager
async def listening(bench: Bench, *task_ids: str) -> AsyncGenerator[Stream]:
    """The notifications about these tasks, as they arrive."""
    stream, session = Stream(), bench.client.session
    dispatcher: Any = session._dispatcher  # pyright: ignore[reportPrivateUsage]
    hear = dispatcher._on_notify

    async def on_notify(context: Any, method: str, params: Any) -> None:
        stream.messages.put_nowait((method, dict(params or {})))

    dispatcher._on_notify = on_notify
    filters = SubscriptionFilter.model_validate(
        {"taskIds": list(task_ids), "toolsListChanged": True}
    )
    request = SubscriptionsListenRequest(
        params=SubscriptionsListenRequestParams(notifications=filters)
    )
    listens = asyncio.ensure_future(session.send_request(request, SubscriptionsListenResult))
    try:
        yield stream
    finally:
        listens.cancel()
        dispatcher._on_notify = hear


async def test_each_status_of_a_task_is_told() -> None:
    """The client hears of the decision and of the end, and asks nothing."""
    async with connected(STATELESS, options=SOON, extensions=[TaskExtension()]) as bench:
        created = task_of(await bench.call("careful", "a tree"))
        async with listening(bench, created["taskId"], "task_none") as stream:
            method, acknowledged = await stream.next()
            _, first = await stream.next()
            (filed,) = await bench.inbox()
            await bench.decide(filed.approval_id, "approve")
            last: dict[str, Any] = {}
            while last.get("status") != "completed":
                told, last = await stream.next()
                assert told == "notifications/tasks"

    assert method == "notifications/subscriptions/acknowledged"
    assert acknowledged["notifications"] == {
        "taskIds": [created["taskId"]],
        "toolsListChanged": True,
    }
    assert first["status"] == "working"
    assert first["ttlMs"] is None
    assert last["taskId"] == created["taskId"]
    assert last["result"]["structuredContent"] == {"written": "a tree"}
    assert "io.modelcontextprotocol/subscriptionId" in last["_meta"]


async def test_what_is_told_is_what_a_request_would_answer() -> None:
    """A notification is the whole task, so that no request has to follow it."""
    async with connected(STATELESS, options=SOON, extensions=[TaskExtension()]) as bench:
        created = task_of(await bench.call("careful", "a tree"))
        async with listening(bench, created["taskId"]) as stream:
            await stream.next()
            _, told = await stream.next()
        asked = await TaskClient(bench.client).get(created["taskId"])

    assert {key: value for key, value in told.items() if key != "_meta"} == {
        key: value for key, value in asked.items() if key not in ("_meta", "resultType")
    }


async def test_a_client_without_the_extension_is_refused() -> None:
    """The protocol asks for the error that names what the client lacks."""
    async with connected(STATELESS, options=SOON) as bench:
        filters = SubscriptionFilter.model_validate({"taskIds": ["task_x"]})
        request = SubscriptionsListenRequest(
            params=SubscriptionsListenRequestParams(notifications=filters)
        )
        with pytest.raises(MCPError) as refused:
            await bench.client.session.send_request(request, SubscriptionsListenResult)

    assert refused.value.error.code == MISSING_REQUIRED_CLIENT_CAPABILITY

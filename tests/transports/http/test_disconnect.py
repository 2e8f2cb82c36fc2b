"""Clients that leave while their request is being answered."""

from __future__ import annotations

import asyncio
import json
from urllib.parse import urlsplit

from tests.transports.http.served_runtime import OWNERS, Served, served


async def post_and_leave(it: Served, path: str, body: object) -> None:
    """Ask, wait until the tool runs, and close the connection."""
    at, data = urlsplit(it.server.url), json.dumps(body).encode()
    _, writer = await asyncio.open_connection(at.hostname, at.port)
    writer.write(
        f"POST {path} HTTP/1.1\r\nHost: {at.netloc}\r\nAuthorization: Bearer {OWNERS}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n".encode()
    )
    writer.write(data)
    await it.gates.entered.wait()
    writer.close()
    await writer.wait_closed()


async def test_a_call_goes_on_without_its_client() -> None:
    """Who hangs up before the answer has not cancelled the call: it ends, and is in the ledger."""
    async with served() as it:
        await it.session()
        call = {"arguments": {"text": "hello"}, "call_id": "c1"}
        await post_and_leave(it, "/v1/sessions/s/tools/held_back/call", call)
        running = await it.client.get("/v1/sessions/s/events")
        it.gates.open.set()
        async with it.client.stream(
            "GET", "/v1/sessions/s/events", headers={"Accept": "text/event-stream"}
        ) as events:
            async for line in events.aiter_lines():
                if line == "event: tool.invoked":
                    break
        ended = await it.client.get("/v1/sessions/s/events")

    assert [each["kind"] for each in running.json()["events"]][-1] == "call.started"
    last = ended.json()["events"][-1]
    assert (last["kind"], last["data"]["success"]) == ("tool.invoked", True)
    assert last["data"]["value"] == "hello"

"""Limits of a principal on the wire: 429 with `Retry-After`, and the same kind on a socket."""

from __future__ import annotations

from tests.transports.http.served_runtime import CALLERS, OWNERS, served
from tests.transports.http.test_websocket import speaking
from toolcrib.runtime.quotas import PrincipalLimits

SESSIONS = "/v1/sessions"


async def test_too_many_calls_are_429_with_the_time_to_wait() -> None:
    """The client learns when to come back; the owner's token has no limits."""
    limits = PrincipalLimits(calls_per_minute=2)
    async with served(principal_limits=limits) as crib:
        await crib.session("caller:s", CALLERS)
        call, body = f"{SESSIONS}/caller:s/tools/echo/call", {"arguments": {"text": "a"}}
        answers = [
            await crib.client.post(call, json=body, headers=crib.as_(CALLERS)) for _ in range(3)
        ]
        owners = await crib.client.post(call, json=body, headers=crib.as_(OWNERS))
        async with speaking(crib, CALLERS) as speaker:
            told = await speaker.ask("tools.call", session_id="caller:s", name="echo", **body)

    assert [each.status_code for each in answers] == [200, 200, 429]
    assert 1 <= int(answers[2].headers["retry-after"]) <= 30
    assert answers[2].json()["error"]["kind"] == "too_many_requests"
    assert owners.status_code == 200
    assert told["error"]["data"]["kind"] == "too_many_requests"


async def test_bytes_of_a_day_are_counted_on_routes_and_sockets() -> None:
    """A principal cannot send without end, whichever way it sends."""
    limits = PrincipalLimits(payload_bytes_per_day=2_000)
    async with served(principal_limits=limits) as crib:
        await crib.session("caller:s", CALLERS)
        call = f"{SESSIONS}/caller:s/tools/echo/call"
        large = {"arguments": {"text": "a" * 3_000}}
        refused = await crib.client.post(call, json=large, headers=crib.as_(CALLERS))
        owners = await crib.client.post(call, json=large, headers=crib.as_(OWNERS))
        async with speaking(crib, CALLERS) as speaker:
            told = await speaker.ask("tools.call", session_id="caller:s", name="echo", **large)
            small = await speaker.ask("ping")
        posted = await crib.client.post("/mcp", json=large, headers=crib.as_(CALLERS))

    assert (refused.status_code, owners.status_code, posted.status_code) == (429, 200, 429)
    assert told["error"]["data"]["kind"] == "too_many_requests"
    assert "result" in small

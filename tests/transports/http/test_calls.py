"""The record over HTTP: calls and usage by the parameters of a query."""

from __future__ import annotations

from typing import Any

from tests.transports.http.served_runtime import CALLERS, READERS, Served, served


async def play(its: Served) -> None:
    """The caller calls twice, the second time in vain; the owner once."""
    await its.session("caller:1", CALLERS)
    await its.session("s")
    for session_id, name in (("caller:1", "echo"), ("caller:1", "broken"), ("s", "echo")):
        token = CALLERS if session_id == "caller:1" else None
        headers = its.as_(token) if token else None
        path = f"/v1/sessions/{session_id}/tools/{name}/call"
        body: dict[str, Any] = {"arguments": {"text": "x"}}
        assert (await its.client.post(path, json=body, headers=headers)).is_success


async def get(its: Served, path: str, token: str, **query: str) -> Any:
    answer = await its.client.get(path, params=query, headers=its.as_(token))
    assert answer.is_success, answer.text
    return answer.json()


async def test_calls_by_a_query() -> None:
    """Newcomers C: who called what last week, as one request; flags and numbers are text there."""
    async with served() as its:
        await play(its)

        failed = await get(
            its,
            "/v1/calls",
            READERS,
            since="7d",
            principal="caller",
            tool="b*",
            status="failed,denied",
            oldest_first="true",
            limit="10",
        )
        assert [(row["tool"], row["failure"]) for row in failed["calls"]] == [
            ("broken", "tool_error")
        ]
        first = await get(its, "/v1/calls", READERS, limit="2")
        second = await get(its, "/v1/calls", READERS, limit="2", cursor=first["cursor"])
        assert [len(first["calls"]), len(second["calls"]), second["cursor"]] == [2, 1, None]
        assert (await get(its, "/v1/calls", READERS, min_cost="0.5", kind="any"))["calls"] == []


async def test_a_caller_gets_its_own_calls() -> None:
    """The calls of somebody else's session are not there, also by its id."""
    async with served() as its:
        await play(its)

        own = await get(its, "/v1/calls", CALLERS)
        assert {row["session_id"] for row in own["calls"]} == {"caller:1"}
        assert (await get(its, "/v1/calls", CALLERS, session_id="s"))["calls"] == []
        usage = await get(its, "/v1/usage", CALLERS, by="tool")
        assert {each["key"]: each["calls"] for each in usage["sums"]} == {"broken": 1, "echo": 1}


async def test_unknown_and_wrong_parameters_are_refused() -> None:
    """No filter is accepted and ignored."""
    async with served() as its:
        for query in ({"sinse": "7d"}, {"since": "soon"}, {"limit": "0"}, {"decision": "maybe"}):
            answer = await its.client.get("/v1/calls", params=query)
            assert answer.status_code == 422, query


async def test_sessions_by_a_query() -> None:
    """Newcomers C, GET /v1/sessions has no parameters: time, owner, state and pages."""
    async with served() as its:
        await play(its)

        page = await get(its, "/v1/sessions", READERS, owner="caller", since="1d", state="open")
        assert [each["session_id"] for each in page["sessions"]] == ["caller:1"]
        page = await get(its, "/v1/sessions", READERS, newest_first="true", limit="1")
        assert [each["session_id"] for each in page["sessions"]] == ["s"]

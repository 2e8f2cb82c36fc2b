"""Costly schemas of a client, over HTTP: others are answered meanwhile."""

from __future__ import annotations

import asyncio
import json
import resource
import time
from typing import Any

import pytest

from tests.tools.test_schema_cost import bomb
from tests.transports.http.served_runtime import CALLERS, OWNERS, Served, served

LONGEST_WAIT = 2.0
MEGABYTES = 100


def session_with(schema: dict[str, Any]) -> dict[str, Any]:
    tool = {"name": "theirs", "description": "A tool", "parameters": schema}
    return {"client_tools": [tool]}


def megabytes() -> float:
    """The most memory that this process ever used."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


async def longest_wait(at: Served, work: asyncio.Task[Any]) -> float:
    """The longest that the owner waited for an answer while a client's request was under way."""
    longest = 0.0
    while True:
        started = time.perf_counter()
        answer = await at.client.get("/v1/capabilities", headers=at.as_(OWNERS))
        assert answer.status_code == 200
        longest = max(longest, time.perf_counter() - started)
        if work.done():
            return longest


@pytest.mark.parametrize("depth", [12, 16, 19, 30])
async def test_a_schema_that_multiplies_is_refused(depth: int) -> None:
    """Finding 4: a client tool with such a schema is refused, and the owner is answered."""
    async with served() as at:
        before = megabytes()
        post = at.client.post(
            "/v1/sessions", json=session_with(bomb(depth)), headers=at.as_(CALLERS)
        )
        work = asyncio.create_task(post)
        assert await longest_wait(at, work) < LONGEST_WAIT
        answer = await work
        assert answer.status_code == 422
        assert "too costly" in answer.text
        assert megabytes() - before < MEGABYTES


@pytest.mark.parametrize("depth", [8, 11])
async def test_a_schema_below_the_bound_freezes_nobody(depth: int) -> None:
    """Finding 4: one argument of the wrong type takes bounded time and memory."""
    async with served() as at:
        created = await at.client.post(
            "/v1/sessions", json=session_with(bomb(depth)), headers=at.as_(CALLERS)
        )
        assert created.status_code == 201
        session_id = created.json()["session_id"]
        before = megabytes()
        post = at.client.post(
            f"/v1/sessions/{session_id}/tools/theirs/call",
            json={"arguments": {"x": 5}},
            headers=at.as_(CALLERS),
        )
        work = asyncio.create_task(post)
        assert await longest_wait(at, work) < LONGEST_WAIT
        assert json.loads((await work).content)["failure"]["kind"] == "invalid_arguments"
        assert megabytes() - before < MEGABYTES


async def test_many_and_large_schemas_are_refused() -> None:
    """The number and the size of client tools are bounded, whatever each one costs."""
    async with served() as at:
        tool = {"description": "A tool", "parameters": {"type": "object"}}
        many = {"client_tools": [{"name": f"t{i}", **tool} for i in range(501)]}
        assert (await at.client.post("/v1/sessions", json=many)).status_code == 422
        wide = {"type": "object", "description": "x" * 100_000}
        large = {"client_tools": [{"name": f"t{i}", **tool, "parameters": wide} for i in range(30)]}
        assert (await at.client.post("/v1/sessions", json=large)).status_code == 413

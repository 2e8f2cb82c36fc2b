"""Costly schemas of a mounted server: its tool is not served, and the others are."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from tests.mcp_client.mounted_servers import mounted, raw, tool
from tests.tools.test_schema_cost import bomb

pytestmark = pytest.mark.wire

Json = dict[str, Any]
LONGEST = 5.0
"""Seconds of this process's own work: what a busy machine takes to start a server is not in it."""


def output(schema: Json) -> Json:
    return tool("structured", outputSchema=schema)


@pytest.mark.parametrize("depth", [12, 30])
async def test_a_bomb_is_not_served(depth: int) -> None:
    """Finding 4: an untrusted server behind the gateway cannot have a costly schema checked."""
    started = time.process_time()
    async with mounted(raw(tool("boom", bomb(depth)), "fine")) as peer:
        assert "too costly" in peer.server.tools.invalid["raw_boom"]
        assert (await peer.call("raw_fine")).ok
    assert time.process_time() - started < LONGEST


async def test_a_bomb_as_output_schema_is_not_served() -> None:
    """Finding 4: an output schema is a schema too."""
    async with mounted(raw(output(bomb(30)))) as peer:
        assert "too costly" in peer.server.tools.invalid["raw_structured"]


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (bomb(11), 5),
        ({"type": "object", "properties": {"x": {"pattern": "^(a+)+$"}}}, "a" * 40 + "b"),
        ({"type": "object", "properties": {"x": {"pattern": "^(a|a)*\\1$"}}}, "a" * 40 + "b"),
    ],
    ids=["alternatives", "pattern", "back-reference"],
)
async def test_results_are_checked_in_bounded_time(schema: Json, value: Any) -> None:
    """What a server answers is checked against its own schema without holding up others."""
    async with mounted(raw(output(schema))) as peer:
        started = time.process_time()
        async with asyncio.timeout(LONGEST):
            done = await peer.call("raw_structured", x=value)
        assert time.process_time() - started < LONGEST
        assert done.failure is not None
        assert done.failure.kind == "invalid_result"


async def test_a_result_that_fits_is_taken() -> None:
    """The check by the executor replaces that of the SDK's client."""
    schema: Json = {"type": "object", "properties": {"x": {"type": "integer"}}}
    async with mounted(raw(output(schema))) as peer:
        assert (await peer.call("raw_structured", x=5)).value == {"x": 5}
        assert not (await peer.call("raw_structured", x="five")).ok

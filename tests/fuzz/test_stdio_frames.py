"""Wrong frames on the pipes of a real process."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.fuzz.frames import frames
from tests.helpers.patience import PATIENCE
from tests.transports.stdio_host import hosted

pytestmark = pytest.mark.slow

COUNT = 12_000
HUGE = 10_000_001
ONE = {"session_id": "one"}


@pytest.mark.parametrize("seed", [1])
async def test_no_frame_stops_the_others(seed: int) -> None:
    """12,000 wrong frames, right requests among them: no crash, no hang, nothing but messages on
    stdout; every request is answered, and a call that runs is not disturbed.
    """
    made = frames(COUNT, seed)
    async with hosted() as host:
        await host.ask("session.create", ONE)
        running = await host.begin("tools.call", {**ONE, "name": "endless"})
        asked: list[Any] = []
        for start in range(0, COUNT, 100):
            await host.write(b"\n".join(made[start : start + 100]) + b"\n")
            call = {**ONE, "name": "greet", "arguments": {"name": f"Ada {start}"}}
            asked.append(await host.begin("tools.call", call))
        async with asyncio.timeout(PATIENCE):
            told = [await host.end(each) for each in asked]
        await host.write(b'"' + b"a" * HUGE + b'"\n')
        assert await host.ask("ping") == {}

        assert [each["value"] for each in told] == [
            f"Hello, Ada {start}!" for start in range(0, COUNT, 100)
        ]
        assert not host.is_answered(running)
        await host.ask("$/cancel", {"id": running})
        assert (await host.end(running))["failure"]["kind"] == "cancelled"
        assert await host.end_input() == 0

    assert host.garbage == []
    assert host.complaints.qsize() > COUNT / 3
    assert "Traceback" not in host.errors

"""What it costs to run something in a sandbox."""

import asyncio
import subprocess
import time
from collections.abc import Awaitable, Callable
from statistics import median

import pytest

from tests.sandbox import plain_handler
from toolcrib import Executor, Session
from toolcrib.host_tools import HostToolDefinition
from toolcrib.sandbox import Command, find_python, find_sandbox

pytestmark = pytest.mark.load

MOST_SECONDS = 0.150
RUNS = 21


async def overhead(
    name: str, confined: Callable[[], Awaitable[bool]], argv: tuple[str, ...]
) -> float:
    """The median of what `confined` takes longer than `argv` without a sandbox, turn by turn, so
    that whatever else the machine does slows both.
    """
    more: list[float] = []
    taken: list[float] = []
    for _ in range(RUNS):
        began = time.perf_counter()
        await asyncio.to_thread(subprocess.run, argv, check=True, stdin=subprocess.DEVNULL)
        between = time.perf_counter()
        assert await confined()
        taken.append(time.perf_counter() - between)
        more.append(taken[-1] - (between - began))
    print(
        f"\n{name}: {median(taken) * 1000:.1f} ms, {median(more) * 1000:.1f} ms more than without"
    )
    return median(more)


async def test_a_command_starts_soon() -> None:
    """R44: a sandbox adds less than 150 ms to a program, in the median."""
    sandbox = await find_sandbox()
    command = Command(argv=("/bin/true",))

    async def confined() -> bool:
        return (await sandbox.run(command)).success

    assert await overhead(sandbox.backend, confined, command.argv) < MOST_SECONDS


async def test_a_host_tool_answers_soon() -> None:
    """R44: a whole call adds less than that to an interpreter's start."""
    tool = HostToolDefinition(
        "echo", "Echoes.", {"type": "object"}, handler=plain_handler.echo, sandbox=True
    )
    executor = Executor(Session("s"), [tool])

    async def confined() -> bool:
        return (await executor.call("echo", {})).ok

    assert await confined()
    bare = (find_python().executable, "-I", "-S", "-c", "import json")
    assert await overhead("host tool", confined, bare) < MOST_SECONDS

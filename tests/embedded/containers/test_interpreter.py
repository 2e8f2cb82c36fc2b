"""One interpreter, without a provider around it."""

from __future__ import annotations

import asyncio
import fcntl
from collections.abc import AsyncGenerator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.embedded.tools.hosted_calls import until
from toolcrib.embedded.containers.interpreter import Interpreter
from toolcrib.sandbox import SandboxLimits, WorkDirectory, find_sandbox

HOLD = """
import fcntl, time
held = open('held', 'w')
fcntl.flock(held, fcntl.LOCK_EX)
open('begun', 'w').close()
while True:
    time.sleep(0.01)
"""


@pytest.fixture
async def interpreter(tmp_path: Path) -> AsyncGenerator[Interpreter]:
    made = Interpreter(
        await find_sandbox(),
        WorkDirectory.at(tmp_path / "work"),
        libraries=(),
        fonts=None,
        limits=SandboxLimits(seconds=None),
        network=False,
        most_logs=1000,
    )
    yield made
    await made.close()


async def cancelled(interpreter: Interpreter, folder: Path) -> None:
    """Begin to run code that never ends, and give it up."""
    running = asyncio.create_task(interpreter.execute(HOLD, 60))
    await until((folder / "begun").exists)
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


async def test_code_that_was_given_up_dies(interpreter: Interpreter, tmp_path: Path) -> None:
    """Nobody has to use the interpreter again for that: what it held is free."""
    await cancelled(interpreter, tmp_path / "work")
    with (tmp_path / "work" / "held").open() as held:
        await asyncio.to_thread(fcntl.flock, held, fcntl.LOCK_EX)


async def test_the_next_code_has_a_new_process_at_once(
    interpreter: Interpreter, tmp_path: Path
) -> None:
    """It is not sent to the one that is about to die."""
    await cancelled(interpreter, tmp_path / "work")
    executed = await interpreter.execute("1 + 1", 30)
    assert (executed.logs, executed.is_first) == ("2\n", True)
    assert not (await interpreter.execute("1 + 1", 30)).is_first


async def test_output_of_a_child_that_stays_behind_does_not_hold_the_answer(
    interpreter: Interpreter,
) -> None:
    """The code is over when it is over."""
    code = "import subprocess\nchild = subprocess.Popen(['/bin/sleep', '60'])\nprint('done')"
    executed = await interpreter.execute(code, 10)
    assert (executed.logs, executed.ended_by) == ("done\n", None)


async def test_exiting_is_not_dying(interpreter: Interpreter) -> None:
    """`exit()` ends the piece of code, and nothing else."""
    await interpreter.execute("x = 1", 30)
    assert not (await interpreter.execute("raise SystemExit(3)", 30)).succeeded
    assert (await interpreter.execute("x", 30)).logs == "1\n"

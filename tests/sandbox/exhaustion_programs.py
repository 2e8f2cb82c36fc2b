"""Programs that try to use up the machine, each with what must hold."""

import asyncio
import errno
from contextlib import suppress

from tests.sandbox.survivors import survivors
from tests.sandbox.trial import (
    MEBIBYTE,
    Trial,
    until_alive,
)
from toolcrib.sandbox import (
    SandboxLimits,
    WorkDirectory,
)

FORK_BOMB = """
import os, signal, sys, time
count = 0
try:
    while True:
        if os.fork() == 0:
            signal.pause()
        count += 1
except OSError as error:
    print(count, error.errno, flush=True)
while True:
    try:
        os.fork()
    except OSError:
        pass
"""


async def fork_bomb(trial: Trial) -> None:
    """A fork bomb meets the limit on processes and then the clock."""
    finished = await trial.python(FORK_BOMB, limits=SandboxLimits(seconds=4, processes=24))

    count, number = map(int, finished.stdout.split())
    assert 0 < count <= 24
    assert number == errno.EAGAIN
    assert finished.killed_by == "wall_clock"


MEMORY_BOMB = """
held = []
try:
    while len(held) < 512:
        held.append(b"x" * (8 << 20))
except MemoryError:
    pass
print(len(held) * 8, flush=True)
"""


async def memory_bomb(trial: Trial) -> None:
    """One process gets no more memory than its limit."""
    limits = SandboxLimits(seconds=20, memory_bytes=256 * MEBIBYTE)
    finished = await trial.python(MEMORY_BOMB, limits=limits)

    if finished.success:
        assert 8 <= int(finished.stdout) <= 256
    else:
        assert finished.killed_by in (None, "memory")
        assert finished.stdout == b""


SHARED_OUT_BOMB = """
import os, signal, sys
for _ in range(8):
    if os.fork() == 0:
        held = b"x" * (100 << 20)
        os.write(1, b"held ")
        signal.pause()
signal.pause()
"""


async def memory_bomb_of_many(trial: Trial) -> None:
    """Many processes together get no more memory than the limit either."""
    # One kills them all; the other lets those that got something wait until the clock ends them.
    seconds = 30 if trial.sandbox.backend == "bubblewrap" else 5
    limits = SandboxLimits(seconds=seconds, memory_bytes=320 * MEBIBYTE)
    finished = await trial.python(SHARED_OUT_BOMB, limits=limits)

    if trial.sandbox.backend == "bubblewrap":
        assert finished.killed_by == "memory"
    else:
        assert 100 * finished.stdout.count(b"held") <= 320


async def endless_loop(trial: Trial) -> None:
    """A loop ends with the clock, or with its share of the processor."""
    loop = "while True: pass"
    by_clock = await trial.python(loop, limits=SandboxLimits(seconds=0.5))
    by_cpu = await trial.python(loop, limits=SandboxLimits(seconds=60, cpu_seconds=1))

    assert (by_clock.killed_by, by_clock.timed_out) == ("wall_clock", True)
    assert (by_cpu.killed_by, by_cpu.timed_out) == ("cpu", True)


async def endless_output(trial: Trial) -> None:
    """Output without end is cut at its limit, on either stream."""
    limits = SandboxLimits(seconds=20, output_bytes=100_000)
    for stream in ("stdout", "stderr"):
        program = f"import sys\nwhile True: sys.{stream}.write('x' * 8000)"
        finished = await trial.python(program, limits=limits)

        assert finished.killed_by == "output"
        assert getattr(finished, stream) == b"x" * 100_000


DAEMON = """
import os, signal, sys
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for descriptor in (0, 1, 2):
            os.close(descriptor)
        open("alive", "w").close()
        signal.pause()
    os._exit(0)
while not os.path.exists("alive"):
    pass
if sys.argv[2] == "stays":
    print("started", flush=True)
    signal.pause()
"""


async def daemons(trial: Trial) -> None:
    """What went into the background ends with the command: when it ends, at a limit, when the run
    is cancelled and when a process is closed.
    """
    ended = await trial.python(DAEMON, "ends")
    assert ended.success, ended.stderr
    killed = await trial.python(DAEMON, "stays", limits=SandboxLimits(seconds=1))
    assert killed.killed_by == "wall_clock"

    with WorkDirectory.temporary() as work:
        command = trial.command(DAEMON, "stays")
        async with await trial.sandbox.open(command, work=work) as process:
            assert await process.stdout.readline() == b"started\n"
            assert survivors(trial.token) != []
        assert survivors(trial.token) == []

    with WorkDirectory.temporary() as work:
        run = asyncio.create_task(trial.sandbox.run(command, work=work))
        await until_alive(run, work)
        run.cancel()
        with suppress(asyncio.CancelledError):
            await run
        assert run.cancelled()
        assert survivors(trial.token) == []


FULL = """
import os, sys
kind = sys.argv[2]
if kind == "file":
    with open("one", "wb", 0) as file:
        try:
            while file.write(b"x" * 100_000):
                pass
        except OSError as error:
            print(error.errno)
elif kind == "many":
    for number in range(1000):
        with open(str(number), "wb") as file:
            file.write(b"x" * 1_000_000)
elif kind == "names":
    for number in range(1_000_000):
        open(str(number), "wb").close()
else:
    with open(os.path.join(kind, "one"), "wb", 0) as file:
        try:
            while file.write(b"x" * 100_000):
                pass
        except OSError as error:
            print(error.errno)
"""


async def disk(trial: Trial) -> None:
    """Neither one large file nor many small ones pass their limits."""
    limits = SandboxLimits(
        seconds=30,
        work_bytes=20 * MEBIBYTE,
        file_bytes=4 * MEBIBYTE,
        temporary_bytes=2 * MEBIBYTE,
    )
    one = await trial.python(FULL, "file", limits=limits)
    many = await trial.python(FULL, "many", limits=limits)

    assert int(one.stdout) == errno.EFBIG
    assert many.killed_by == "disk"
    if trial.sandbox.backend == "bubblewrap":
        for folder in ("/tmp", "/dev/shm"):
            finished = await trial.python(FULL, folder, limits=limits)
            assert int(finished.stdout) == errno.ENOSPC

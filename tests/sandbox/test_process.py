"""Commands in a sandbox, from start to end."""

import asyncio
import os
from pathlib import Path, PurePosixPath

import pytest

from tests.sandbox.survivors import survivors
from toolcrib.errors import SandboxFailed, UsageError
from toolcrib.sandbox import (
    BackendName,
    Command,
    Sandbox,
    SandboxLimits,
    WorkDirectory,
    find_sandbox,
)

BACKENDS: tuple[BackendName, ...] = ("bubblewrap", "sandlock", "rlimits")
FOREVER = SandboxLimits(seconds=None)


@pytest.fixture(params=BACKENDS)
async def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    return await find_sandbox(request.param)


def shell(script: str, *arguments: str, limits: SandboxLimits | None = None) -> Command:
    return Command(argv=("/bin/sh", "-c", script, *arguments), limits=limits or SandboxLimits())


async def test_a_command_gets_its_input_and_gives_its_output(sandbox: Sandbox) -> None:
    """Stdin, stdout, stderr and the exit code are the command's own."""
    finished = await sandbox.run(shell("cat; echo no >&2; exit 3"), stdin=b"hello")

    assert (finished.stdout, finished.stderr) == (b"hello", b"no\n")
    assert (finished.exit_code, finished.killed_by) == (3, None)
    assert finished.backend == sandbox.backend
    assert 0 < finished.duration_seconds < 30


async def test_a_signal_is_told_by_the_exit_code(sandbox: Sandbox) -> None:
    """128 + N, as shells have it."""
    finished = await sandbox.run(shell("kill -TERM $$"))

    assert finished.exit_code == 128 + 15


async def test_the_environment_is_what_is_given(sandbox: Sandbox) -> None:
    """R44: nothing of the program's own environment is handed on."""
    env = {"GREETING": "a=b c"}
    finished = await sandbox.run(Command(argv=("/usr/bin/env",), env=env))

    lines = finished.stdout.decode().splitlines()
    assert "GREETING=a=b c" in lines
    assert {line.partition("=")[0] for line in lines} <= {"GREETING", "PWD"}


async def test_a_work_directory_is_kept_between_commands(sandbox: Sandbox, tmp_path: Path) -> None:
    """Each command finds what the one before it left, and so does the program."""
    work = WorkDirectory.at(tmp_path / "work")
    work.write("in", b"1")

    await sandbox.run(shell("cat in > out; echo 2 >> out"), work=work)
    finished = await sandbox.run(shell("cat out; pwd"), work=work)

    assert finished.stdout.decode() == f"12\n{work.path}\n"
    assert work.read("out", limit=10) == b"12\n"


async def test_a_program_that_is_not_there_is_an_end_like_others(sandbox: Sandbox) -> None:
    """Whoever asked for it gets an exit code and a message."""
    finished = await sandbox.run(Command(argv=("/usr/bin/no-such-program",)))

    assert finished.exit_code != 0
    assert b"no-such-program" in finished.stderr


async def test_a_process_is_spoken_with(sandbox: Sandbox, tmp_path: Path) -> None:
    """A process that is kept open answers again and again, until it is closed."""
    work = WorkDirectory.at(tmp_path / "work")
    command = shell('echo up >&2; while read line; do echo "got $line"; done', limits=FOREVER)

    async with await sandbox.open(command, work=work) as process:
        for word in (b"one", b"two"):
            await process.send(word + b"\n")
            assert await process.stdout.readline() == b"got " + word + b"\n"
        assert process.is_alive
        assert process.stderr == b"up\n"
    finished = await process.wait()

    assert not process.is_alive
    assert (finished.killed_by, finished.stderr) == ("closed", b"up\n")
    assert finished.backend == process.backend == sandbox.backend


async def test_a_process_that_ends_says_so(sandbox: Sandbox, tmp_path: Path) -> None:
    """Its stdout ends, what nobody read is kept, and nothing more can be sent."""
    work = WorkDirectory.at(tmp_path / "work")
    process = await sandbox.open(shell("read line; echo bye; exit 4", limits=FOREVER), work=work)
    await process.send(b"go\n")
    finished = await process.wait()

    assert (finished.exit_code, finished.stdout, finished.killed_by) == (4, b"bye\n", None)
    assert await process.stdout.read() == b""
    process.kill()
    assert (await process.close()).killed_by is None


async def test_a_process_is_killed_for_a_reason(sandbox: Sandbox, tmp_path: Path) -> None:
    """A caller whose own time is up says so; the first reason counts."""
    work = WorkDirectory.at(tmp_path / "work")
    process = await sandbox.open(shell("read line", limits=FOREVER), work=work)
    process.kill("wall_clock")
    process.kill()

    assert (await process.wait()).timed_out


async def test_a_cancelled_run_leaves_nothing(sandbox: Sandbox, tmp_path: Path) -> None:
    """R44: cancelling the task kills the command before the task ends."""
    work = WorkDirectory.at(tmp_path / "work")
    token = f"cancelled-{os.urandom(8).hex()}"
    os.mkfifo(work.path / "fifo")
    (work.path / "fifo").chmod(0o666)
    run = asyncio.create_task(
        sandbox.run(shell("echo up > fifo; read line < fifo", token), work=work)
    )
    # Opening waits until the command has opened it too.
    await asyncio.to_thread(lambda: (work.path / "fifo").read_bytes())
    assert survivors(token)

    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert survivors(token) == []


async def test_many_run_side_by_side(sandbox: Sandbox) -> None:
    """Each has limits and a directory of its own."""
    limits = SandboxLimits(processes=8)
    runs = [sandbox.run(shell("echo $0; sh -c 'echo in'", str(n), limits=limits)) for n in range(6)]

    found = await asyncio.gather(*runs)

    assert [each.stdout.decode() for each in found] == [f"{n}\nin\n" for n in range(6)]


async def test_the_work_directory_is_shown_where_it_is_wanted(tmp_path: Path) -> None:
    """Bubblewrap mounts it; code that a model wrote finds its files where it expects them."""
    sandbox = await find_sandbox("bubblewrap")
    work = WorkDirectory.at(tmp_path / "work")
    at = PurePosixPath("/mnt/data")
    finished = await sandbox.run(
        Command(argv=("/bin/sh", "-c", "pwd > /mnt/data/here; ls /mnt"), work_at=at), work=work
    )

    assert finished.stdout == b"data\n"
    assert work.read("here", limit=100) == b"/mnt/data\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has rights to give up")
@pytest.mark.parametrize("name", ["LD_PRELOAD", "GLIBC_TUNABLES"])
async def test_the_loader_takes_no_orders_from_a_command_of_root(name: str) -> None:
    """R44: its library would be loaded by the program that gives up root's rights."""
    sandbox = await find_sandbox("bubblewrap")

    with pytest.raises(UsageError, match=name):
        await sandbox.run(Command(argv=("/bin/true",), env={name: "evil.so"}))


async def test_a_sandbox_that_cannot_be_made_runs_nothing(tmp_path: Path) -> None:
    """The error says what the backend said."""
    sandbox = await find_sandbox("bubblewrap")
    work = WorkDirectory.at(tmp_path / "work")
    gone = tmp_path / "gone"
    gone.touch()
    command = Command(argv=("/bin/true",), readable=(gone,))
    gone.unlink()

    with pytest.raises(SandboxFailed, match="gone"):
        await sandbox.run(command, work=work)
    with pytest.raises(SandboxFailed, match="gone"):
        await (await sandbox.open(command, work=work)).wait()


@pytest.mark.parametrize("steps", range(8))
async def test_a_start_that_is_cancelled_leaves_nothing_open(
    sandbox: Sandbox, tmp_path: Path, steps: int
) -> None:
    """Whichever of its steps it has reached, no descriptor and no process is left."""
    work = WorkDirectory.at(tmp_path / "work")
    await sandbox.run(shell("true"), work=work)
    before = set(os.listdir("/proc/self/fd"))
    token = f"cancelled-{os.urandom(8).hex()}"

    async def opened() -> None:
        async with await sandbox.open(shell("read line", token, limits=FOREVER), work=work):
            await asyncio.get_running_loop().create_future()

    start = asyncio.create_task(opened())
    for _ in range(steps):
        await asyncio.sleep(0)
    start.cancel()
    with pytest.raises(asyncio.CancelledError):
        await start
    # Pipes are closed by the event loop in its next rounds.
    for _ in range(5):
        await asyncio.sleep(0)

    assert set(os.listdir("/proc/self/fd")) - before == set()
    assert survivors(token) == []


async def test_an_end_that_is_cancelled_closes_its_pipes(sandbox: Sandbox, tmp_path: Path) -> None:
    """Whoever leaves the block and is cancelled meanwhile leaves no pipe open and no process."""
    work = WorkDirectory.at(tmp_path / "work")
    token = f"left-{os.urandom(8).hex()}"
    process = await sandbox.open(shell("read line", token, limits=FOREVER), work=work)

    async def left() -> None:
        async with process:
            pass

    leave = asyncio.create_task(left())
    await asyncio.sleep(0)
    leave.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leave

    assert process.stdin.is_closing()
    await process.wait()
    assert survivors(token) == []

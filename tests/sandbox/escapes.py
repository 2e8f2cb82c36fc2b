"""Programs that try to get out of a sandbox or to use up the machine, each with what must hold.

Run as a program, `python -m tests.sandbox.escapes BACKEND CASE`, so that a case can be tried as
another user, from a process that has something to lose: a secret in its environment.
"""

import asyncio
import errno
import os
import secrets
import socket
import sys
import tempfile
from collections.abc import Awaitable, Callable, Generator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import cast

from tests.sandbox.survivors import survivors
from toolcrib.sandbox import (
    BackendName,
    Command,
    Finished,
    Limits,
    Sandbox,
    WorkDirectory,
    find_python,
    find_sandbox,
)

MEBIBYTE = 1024 * 1024
SECRET_VARIABLE = "TOOLCRIB_TEST_SECRET"


class Trial:
    """A sandbox, and a way to run Python in it that can be told apart from all other programs."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self.token = f"trial-{secrets.token_hex(8)}"

    def command(
        self, program: str, *arguments: object, limits: Limits | None = None, network: bool = False
    ) -> Command:
        python = find_python()
        return Command(
            argv=(python.executable, "-I", "-S", "-c", program, self.token, *map(str, arguments)),
            readable=python.readable(self.sandbox.backend),
            limits=limits or Limits(seconds=20),
            network=network,
        )

    async def python(
        self,
        program: str,
        *arguments: object,
        limits: Limits | None = None,
        network: bool = False,
        work: WorkDirectory | None = None,
    ) -> Finished:
        command = self.command(program, *arguments, limits=limits, network=network)
        finished = await self.sandbox.run(command, work=work)
        assert finished.backend == self.sandbox.backend
        assert survivors(self.token) == []
        return finished


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
    finished = await trial.python(FORK_BOMB, limits=Limits(seconds=4, processes=24))

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
    limits = Limits(seconds=20, memory_bytes=256 * MEBIBYTE)
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
    limits = Limits(seconds=seconds, memory_bytes=320 * MEBIBYTE)
    finished = await trial.python(SHARED_OUT_BOMB, limits=limits)

    if trial.sandbox.backend == "bubblewrap":
        assert finished.killed_by == "memory"
    else:
        assert 100 * finished.stdout.count(b"held") <= 320


async def endless_loop(trial: Trial) -> None:
    """A loop ends with the clock, or with its share of the processor."""
    loop = "while True: pass"
    by_clock = await trial.python(loop, limits=Limits(seconds=0.5))
    by_cpu = await trial.python(loop, limits=Limits(seconds=60, cpu_seconds=1))

    assert (by_clock.killed_by, by_clock.timed_out) == ("wall_clock", True)
    assert (by_cpu.killed_by, by_cpu.timed_out) == ("cpu", True)


async def endless_output(trial: Trial) -> None:
    """Output without end is cut at its limit, on either stream."""
    limits = Limits(seconds=20, output_bytes=100_000)
    for stream in ("stdout", "stderr"):
        program = f"import sys\nwhile True: sys.{stream}.write('x' * 8000)"
        finished = await trial.python(program, limits=limits)

        assert finished.killed_by == "output"
        assert getattr(finished, stream) == b"x" * 100_000


READ = """
import os, sys
for path in sys.argv[2:]:
    try:
        with open(path, "rb") as file:
            print("READ", path, file.read(4096))
    except OSError as error:
        print("refused", error.errno)
try:
    print("LISTED", os.listdir(os.path.dirname(sys.argv[2])))
except OSError as error:
    print("refused", error.errno)
"""


async def reading_outside(trial: Trial) -> None:
    """Files that were not given cannot be read: in the home, in /tmp, the system's own."""
    secret = secrets.token_hex(16)
    with secret_files(secret) as files:
        # A way round by /proc leads to the sandbox's own files, never to the machine's.
        round_about = [f"/proc/{pid}/root{path}" for pid in (1, "self") for path in files]
        paths = [*files, "/etc/shadow", "/etc/gshadow", "/proc/1/environ", *round_about]
        finished = await trial.python(READ, *paths)

    lines = finished.stdout.decode().splitlines()
    read = {line.split()[1] for line in lines if line.startswith("READ")}
    assert len(lines) == len(paths) + 1, finished.stderr
    assert read <= {"/proc/1/environ"}
    assert secret not in finished.stdout.decode()
    assert "LISTED" not in finished.stdout.decode() or "secret" not in lines[-1]


WRITE = """
import sys
for path in sys.argv[2:]:
    try:
        with open(path, "w") as file:
            file.write("was here")
    except OSError as error:
        print("refused", error.errno)
with open("inside", "w") as file:
    file.write("fine")
"""


async def writing_outside(trial: Trial) -> None:
    """Nothing outside the work directory is written, made or replaced."""
    name = f"toolcrib-{secrets.token_hex(8)}"
    with secret_files("kept") as files, WorkDirectory.temporary() as work:
        folders = ("/tmp", "/var/tmp", "/dev/shm", "/", "/etc", "/usr", "/dev", str(Path.home()))
        new = [str(Path(folder, name)) for folder in folders]
        finished = await trial.python(WRITE, *files, *new, work=work)

        assert texts(files) == ["kept"] * len(files)
        assert existing(new) == []
        assert work.read("inside", 10) == b"fine", finished.stderr


CONNECT = """
import socket, sys
def attempt(kind, *parts):
    family, type, address = parts
    try:
        with socket.socket(family, type) as line:
            line.settimeout(3)
            line.connect(address)
            line.send(b"hello")
        print("reached", kind)
    except OSError as error:
        print("refused", kind, error)
port, udp, path, name = int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5]
attempt("tcp", socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", port))
attempt("udp", socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", udp))
attempt("unix", socket.AF_UNIX, socket.SOCK_STREAM, path)
attempt("abstract", socket.AF_UNIX, socket.SOCK_STREAM, "\\0" + name)
attempt("outside", socket.AF_INET, socket.SOCK_DGRAM, ("192.0.2.1", 53))
attempt("hypervisor", socket.AF_VSOCK, socket.SOCK_STREAM, (2, 1024))
"""


async def network(trial: Trial) -> None:
    """Neither TCP nor UDP, neither this machine nor others, nor its sockets in files, are reached;
    TCP and UDP are when they are allowed.
    """
    for allowed in (False, True):
        with listeners() as (addresses, heard):
            finished = await trial.python(CONNECT, *addresses, network=allowed)
            # A network that is shared is shared with its sockets that have only a name.
            found = heard() - {"abstract"} if allowed else heard()

        assert finished.exit_code == 0, finished.stderr
        assert found == ({"tcp", "udp"} if allowed else set()), finished.stdout
        assert b"reached hypervisor" not in finished.stdout
        if not allowed:
            # A datagram to its own empty machine is sent, and nobody gets it.
            assert b"reached" not in finished.stdout.replace(b"reached udp", b"")


LOOK_AROUND = """
import os, sys
print(sorted(os.environ))
around = range(int(sys.argv[2]) - 500, int(sys.argv[2]) + 500)
for name in ["self", *map(str, range(1, 500)), *map(str, around)]:
    for file in ("environ", "cmdline"):
        try:
            with open(f"/proc/{name}/{file}", "rb") as found:
                print(name, found.read())
        except OSError:
            pass
"""


async def parents_environment(trial: Trial) -> None:
    """What is in the environment of the program outside is in no /proc inside."""
    secret = os.environ[SECRET_VARIABLE]
    assert secret in texts(["/proc/self/environ"])[0]

    limits = Limits(seconds=30, output_bytes=8 * MEBIBYTE)
    finished = await trial.python(LOOK_AROUND, os.getpid(), limits=limits)

    assert finished.exit_code == 0, finished.stderr
    names = finished.stdout.splitlines()[0].decode()
    assert names in ("[]", "['LC_CTYPE']", "['PWD']", "['LC_CTYPE', 'PWD']")
    assert secret.encode() not in finished.stdout
    assert SECRET_VARIABLE.encode() not in finished.stdout


LINKS = """
import os, sys
target = sys.argv[2]
os.symlink(target, "result.txt")
os.symlink(os.path.dirname(target), "folder")
os.mkfifo("pipe")
os.mkdir("deep")
os.symlink("../../../../../../../../../../etc/passwd", "deep/up")
for source in (target, "/etc/passwd", sys.executable):
    try:
        os.link(source, "hard")
        print("LINKED", source)
    except OSError as error:
        print("refused", error.errno)
with open("plain.txt", "w") as file:
    file.write("fine")
"""


async def symlink_tricks(trial: Trial) -> None:
    """A link in the work directory leads nobody out of it, neither to read nor to write."""
    with secret_files("kept") as files, WorkDirectory.temporary() as work:
        target = Path(files[0])
        finished = await trial.python(LINKS, target, work=work)
        assert finished.exit_code == 0, finished.stderr
        assert b"LINKED" not in finished.stdout

        assert [file.name for file in work.files()] == ["plain.txt"]
        for name in ("result.txt", f"folder/{target.name}", "deep/up", "pipe"):
            assert refusal(lambda name=name: work.read(name, 1000)) is not None
        assert refusal(lambda: work.write(f"folder/{target.name}", b"gone")) is not None
        work.write("result.txt", b"mine")
        assert work.read("result.txt", 1000) == b"mine"
        work.delete("folder")
        assert texts(files) == ["kept"] * len(files)


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
    killed = await trial.python(DAEMON, "stays", limits=Limits(seconds=1))
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
    limits = Limits(
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


POWERS = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def attempt(name, *arguments):
    result = getattr(libc, name)(*arguments)
    print(name, result, ctypes.get_errno())
attempt("unshare", 0x10000000)
attempt("unshare", 0x00020000)
attempt("mount", b"none", b".", b"tmpfs", 0, None)
attempt("chroot", b".")
attempt("ptrace", 16, int(sys.argv[2]), 0, 0)
attempt("sethostname", b"mine", 4)
attempt("setresuid", 0, 0, 0) if os.getuid() else None
attempt("kill", int(sys.argv[2]), 9)
attempt("mknod", b"device", 0o60600, 0x801)
"""


async def privileges(trial: Trial) -> None:
    """It has no powers: no namespaces, no mounts, no other user, no hold on processes outside."""
    finished = await trial.python(POWERS, os.getpid())

    lines = finished.stdout.decode().splitlines()
    assert len(lines) >= 8, finished.stderr
    assert {line.split()[1] for line in lines} == {"-1"}, lines


DESCRIPTORS = """
import os
for number in range(3, 200):
    try:
        print(number, os.pread(number, 1000, 0))
    except OSError:
        pass
"""


async def descriptors(trial: Trial) -> None:
    """A file that the program outside has open is not open inside."""
    with secret_files("hidden") as files:
        descriptor = os.open(files[0], os.O_RDONLY)
        os.set_inheritable(descriptor, True)
        finished = await trial.python(DESCRIPTORS)
        os.close(descriptor)

    assert finished.exit_code == 0
    assert b"hidden" not in finished.stdout


async def until_alive(run: asyncio.Task[Finished], work: WorkDirectory) -> None:
    """Wait until the daemon of a run has said that it is there."""
    while not run.done() and "alive" not in [file.name for file in work.files()]:
        await asyncio.wait([run], timeout=0.01)


def texts(files: list[str]) -> list[str]:
    return [Path(file).read_text() for file in files]


def existing(paths: list[str]) -> list[str]:
    return [path for path in paths if os.path.lexists(path)]


@contextmanager
def secret_files(text: str) -> Generator[list[str]]:
    """Files with this text in /tmp and in the home, as far as this user has one."""
    with tempfile.TemporaryDirectory(prefix="outside-") as folder:
        files = [Path(folder, "secret")]
        home = Path.home()
        if os.access(home, os.W_OK):
            files.append(home / f".toolcrib-secret-{secrets.token_hex(8)}")
        for file in files:
            file.write_text(text)
            file.chmod(0o644)
        try:
            yield [str(file) for file in files]
        finally:
            for file in files:
                file.unlink(missing_ok=True)


@contextmanager
def listeners() -> Generator[tuple[list[object], Callable[[], set[str]]]]:
    """Sockets of every kind, where they are, and which of them have heard something."""
    name = f"toolcrib-{secrets.token_hex(8)}"
    with tempfile.TemporaryDirectory(prefix="outside-") as folder:
        path = os.path.join(folder, "socket")
        tcp = socket.create_server(("127.0.0.1", 0))
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp.bind(("127.0.0.1", 0))
        unix = socket.socket(socket.AF_UNIX)
        unix.bind(path)
        os.chmod(path, 0o777)
        unix.listen()
        abstract = socket.socket(socket.AF_UNIX)
        abstract.bind(f"\0{name}")
        abstract.listen()
        found = {"tcp": tcp, "udp": udp, "unix": unix, "abstract": abstract}
        addresses: list[object] = [tcp.getsockname()[1], udp.getsockname()[1], path, name]
        with closing(tcp), closing(udp), closing(unix), closing(abstract):
            yield addresses, lambda: {kind for kind, line in found.items() if has_heard(line)}


def has_heard(line: socket.socket) -> bool:
    line.setblocking(False)
    try:
        if line.type == socket.SOCK_DGRAM:
            return bool(line.recv(100))
        accepted, _ = line.accept()
    except BlockingIOError:
        return False
    accepted.close()
    return True


def refusal(action: Callable[[], object]) -> OSError | None:
    try:
        action()
    except OSError as error:
        return error
    return None


CASES: dict[str, Callable[[Trial], Awaitable[None]]] = {
    case.__name__: case
    for case in (
        fork_bomb,
        memory_bomb,
        memory_bomb_of_many,
        endless_loop,
        endless_output,
        reading_outside,
        writing_outside,
        network,
        parents_environment,
        symlink_tricks,
        daemons,
        disk,
        privileges,
        descriptors,
    )
}


async def main(backend: BackendName, case: str) -> None:
    await CASES[case](Trial(await find_sandbox(backend)))


if __name__ == "__main__":
    asyncio.run(main(cast("BackendName", sys.argv[1]), sys.argv[2]))

"""A sandbox on trial, and the things around it that a program in it must not reach."""

import asyncio
import os
import secrets
import socket
import tempfile
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from pathlib import Path

from tests.sandbox.survivors import survivors
from toolcrib.sandbox import (
    Command,
    CommandResult,
    Sandbox,
    SandboxLimits,
    WorkDirectory,
    find_python,
)

MEBIBYTE = 1024 * 1024
SECRET_VARIABLE = "TOOLCRIB_TEST_SECRET"


class Trial:
    """A sandbox, and a way to run Python in it that can be told apart from all other programs."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self.token = f"trial-{secrets.token_hex(8)}"

    def command(
        self,
        program: str,
        *arguments: object,
        limits: SandboxLimits | None = None,
        network: bool = False,
    ) -> Command:
        python = find_python()
        return Command(
            argv=(python.executable, "-I", "-S", "-c", program, self.token, *map(str, arguments)),
            readable=python.readable(self.sandbox.backend),
            limits=limits or SandboxLimits(seconds=20),
            network=network,
        )

    async def python(
        self,
        program: str,
        *arguments: object,
        limits: SandboxLimits | None = None,
        network: bool = False,
        work: WorkDirectory | None = None,
    ) -> CommandResult:
        command = self.command(program, *arguments, limits=limits, network=network)
        finished = await self.sandbox.run(command, work=work)
        assert finished.backend == self.sandbox.backend
        assert survivors(self.token) == []
        return finished


async def until_alive(run: asyncio.Task[CommandResult], work: WorkDirectory) -> None:
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

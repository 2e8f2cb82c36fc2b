"""A command whose only way out is a proxy."""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path

import pytest

from toolcrib.errors import SandboxUnavailable
from toolcrib.sandbox import Command, find_sandbox
from toolcrib.sandbox.command import BackendName

TALK = """
import os, socket
near = socket.create_connection(("127.0.0.1", 3128))
near.sendall(b"x" * 1_000_000)
near.shutdown(socket.SHUT_WR)
answer = b""
while piece := near.recv(65_536):
    answer += piece
print(len(answer), os.environ["https_proxy"])
try:
    print(os.wait())
except ChildProcessError:
    print("no children")
"""


async def doubling(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A server that answers with twice what it was sent, once that is whole."""
    data = await reader.read()
    writer.write(data * 2)
    await writer.drain()
    writer.close()


async def test_a_command_reaches_its_proxy() -> None:
    """Bytes go both ways, an end of one side is passed on, and the command finds no child that it
    did not start.
    """
    try:
        sandbox = await find_sandbox("bubblewrap")
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "proxy"
        server = await asyncio.start_unix_server(doubling, str(path))
        os.chmod(path, 0o666)
        async with server:
            command = Command(argv=("python3", "-c", TALK), env={"PATH": "/usr/bin"}, proxy=path)
            finished = await sandbox.run(command)
            missing = Command(argv=("no-such-program",), env={"PATH": "/usr/bin"}, proxy=path)
            unknown = await sandbox.run(missing)
    assert finished.stdout.decode().splitlines() == [
        "2000000 http://127.0.0.1:3128",
        "no children",
    ]
    assert (unknown.exit_code, unknown.stdout) == (127, b"")


@pytest.mark.parametrize("backend", ["sandlock", "rlimits"])
async def test_no_other_backend_has_a_proxy(backend: BackendName) -> None:
    """A backend that leaves other ways open does not run the command at all."""
    try:
        sandbox = await find_sandbox(backend)
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    with pytest.raises(SandboxUnavailable, match="only bubblewrap"):
        await sandbox.run(Command(argv=("/bin/true",), proxy=Path("/tmp")))

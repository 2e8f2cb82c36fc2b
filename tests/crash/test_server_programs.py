"""No program of a mounted server outlives its gateway, however that ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.helpers.patience import PATIENCE

pytestmark = pytest.mark.crash

GATEWAY = """
import asyncio, sys
from toolcrib import RuntimeConfig, create_runtime
from toolcrib.mcp_client import MountTerms, StdioServerConfig

server = StdioServerConfig(
    name="stubborn", terms=MountTerms(prefix="s_", approval="policy"),
    command=sys.executable, args=(sys.argv[1], sys.argv[2]),
)

async def main():
    runtime = create_runtime(RuntimeConfig(mcp_servers=[server]))
    await runtime.start()
    session = (await runtime.create_session()).session_id
    done = await runtime.call_tool(session, "s_ping", {})
    print(done.text, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""
SERVER = Path(__file__).with_name("stubborn_server.py")
NAMES = ("server", "grandchild", "daemon")


def is_alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def test_a_killed_gateway_leaves_no_process_of_its_servers(tmp_path: Path) -> None:
    """SIGKILL of the gateway ends a server that ignores the end of its input and SIGTERM, a process
    that it started, and one that left its session.
    """
    gateway = subprocess.Popen(
        [sys.executable, "-c", GATEWAY, str(SERVER), str(tmp_path)], stdout=subprocess.PIPE
    )
    pids: list[int] = []
    try:
        assert gateway.stdout is not None
        assert gateway.stdout.readline() == b"pong\n"
        until = time.monotonic() + PATIENCE
        while len(pids) < len(NAMES) and time.monotonic() < until:
            texts = [tmp_path.joinpath(name) for name in NAMES]
            pids = [int(path.read_text()) for path in texts if path.exists() and path.read_text()]
        assert len(pids) == len(NAMES)
        assert all(map(is_alive, pids))

        gateway.kill()
        gateway.wait()

        while any(map(is_alive, pids)) and time.monotonic() < until:
            time.sleep(0.01)
        assert [pid for pid in pids if is_alive(pid)] == []
    finally:
        gateway.kill()
        gateway.communicate()
        for pid in filter(is_alive, pids):
            os.kill(pid, signal.SIGKILL)

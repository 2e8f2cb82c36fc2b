"""A server that ends for nobody: it ignores the end of its input and every request to end, and has
started processes of the same mind, one of them in a session of its own.

`stubborn_server.py FOLDER` writes the ids of its processes to the folder.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import anyio
from mcp.server.mcpserver import MCPServer

server = MCPServer("stubborn")


@server.tool()
def ping() -> str:
    """Answer."""
    return "pong"


def sleep_on(folder: Path, name: str, *, is_daemon: bool) -> None:
    """Start a process that stays."""
    if os.fork():
        return
    if is_daemon:
        os.setsid()
        if os.fork():
            os._exit(0)
    folder.joinpath(name).write_text(str(os.getpid()))
    while True:
        signal.pause()


def main(folder: Path) -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    folder.joinpath("server").write_text(str(os.getpid()))
    sleep_on(folder, "grandchild", is_daemon=False)
    sleep_on(folder, "daemon", is_daemon=True)
    anyio.run(server.run_stdio_async)
    while True:
        signal.pause()


if __name__ == "__main__":
    main(Path(sys.argv[1]))

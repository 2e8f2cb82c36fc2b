"""Forks the replicas of a chaos run, so that the imports are paid for once.

Each line on stdin says what to start: `argv`, `env`, and the file of its `log`; its pid is printed.
A replica is the real command from its first line on; only its modules are there already.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
from typing import Any, Final

PRELOADED: Final = (
    "asyncpg",
    "httpx2",
    "openai",
    "uvicorn",
    "uvloop",
    "toolcrib.adapters.openai",
    "toolcrib.cli.serve",
    "toolcrib.project.runtime",
    "toolcrib.store.postgres",
    "toolcrib.testing",
    "toolcrib.transports.http",
)


def main() -> None:
    """Start what stdin asks for, until it is closed."""
    for name in PRELOADED:
        importlib.import_module(name)
    # Nobody waits for the dead: one that were left as a zombie would not look dead to the others.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        order = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _serve(order)
        print(pid, flush=True)


def _serve(order: dict[str, Any]) -> None:
    """Be a replica, and never return into the loop above."""
    status = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for target, source in ((0, nothing), (1, log), (2, log)):
            os.dup2(source, target)
        os.environ.clear()
        os.environ.update(order["env"])
        sys.argv = order["argv"]
        from toolcrib.cli import main as toolcrib

        toolcrib()
        status = 0
    except SystemExit as stopped:
        status = stopped.code if isinstance(stopped.code, int) else 1
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    main()

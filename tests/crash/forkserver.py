"""Forks one process per life, so that the imports are paid for once.

It never opens a store itself: SQLite's locks do not survive a fork.
"""

import asyncio
import json
import os
import sys
import traceback

from tests.crash.workload import Life, Plan


def main() -> None:
    """Read plans from stdin; print the pid of each life, and its wait status when it is over."""
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            live(Plan(**json.loads(line)))
        print(pid, flush=True)
        print(os.waitpid(pid, 0)[1], flush=True)


def live(plan: Plan) -> None:
    """Be one life, and never return into the server's loop."""
    try:
        asyncio.run(Life(plan).live())
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    main()

"""A process of its own: it asks about a payment, or starts one and dies in it.

Prints the names of the spans that it exported, one to a line.
"""

from __future__ import annotations

import asyncio
import os
import sys

from tests.telemetry.memory_collector import Collected
from toolcrib import Executor, Session, SqliteStore, tool


@tool(requires_approval=True)
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


@tool(is_idempotent=True)
async def sync() -> str:
    """Sync; the first time, the process dies in it."""
    if os.environ.get("DIES"):
        os._exit(3)
    return "synced"


async def main(path: str, name: str) -> None:
    collected = Collected()
    with SqliteStore(path) as store:
        async with await Session.open(store, "s1") as session:
            with collected.watch(session), collected.tracer.start_as_current_span("there"):
                arguments = {"amount": 5} if name == "pay" else {}
                await Executor(session, [pay, sync]).call(name, arguments, call_id="c1")
    print(*collected.names, sep="\n")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

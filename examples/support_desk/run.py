"""The main job, for real: governed calls, a person's yes, a killed process, one verified ledger.

Run it with `python examples/support_desk/run.py`. On a terminal it asks you; elsewhere a rule
answers in your place.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from desk import BOOKS, desk

from toolcrib import (
    Actor,
    Approve,
    CallbackApprover,
    CallRequest,
    Reply,
    Session,
    SqliteStore,
    TerminalApprover,
    ToolInvoked,
)
from toolcrib.approval import ApprovalRequest, Approver
from toolcrib.ledger import Head

SESSION = "demo"
TOKEN = "card-4242-424242"


async def first_shift(folder: Path) -> None:
    """Make three calls at once. One must wait for a person; the process dies while it does."""
    session = await Session.open(SqliteStore(folder / "desk.db"), SESSION, cwd=str(folder))
    executor = desk(session)
    outcomes = await executor.call_many(
        [
            CallRequest("look_up_order", {"order_id": "A-17"}),
            CallRequest("refund", {"order_id": "A-17", "amount": 49.9, "card_token": TOKEN}),
            CallRequest("refund", {"order_id": "B-22", "amount": 1200.0, "card_token": TOKEN}),
        ]
    )
    for outcome in outcomes:
        print(f"   {outcome.tool:14} {outcome.status:10} {outcome.text}")
    print("   ... and the process is killed (SIGKILL).", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


def approver() -> Approver:
    """You, on a terminal; else a rule that says so in the record."""
    if sys.stdin.isatty() and sys.stdout.isatty():
        return TerminalApprover()

    def answer(request: ApprovalRequest) -> Reply:
        print(f"   {request.tool.name} {request.arguments}: approved, no terminal to ask at")
        return Reply(Approve(), Actor("rule", "demo without a terminal"))

    return CallbackApprover(answer)


async def second_shift(folder: Path) -> Session:
    """Another process takes the session up and goes on with what waits."""
    session = await Session.open(SqliteStore(folder / "desk.db"), SESSION, cwd=str(folder))
    session.bus.subscribe(ToolInvoked, lambda event: print(f"   event: {event.kind} {event.name}"))
    for outcome in await desk(session, approver()).resume():
        print(f"   {outcome.tool:14} {outcome.status:10} {outcome.text}")
    return session


def show_timeline(session: Session) -> None:
    """What happened, from the ledger alone."""
    for entry in session.transcript():
        print(f"   {entry.call_id:10} {entry.tool:14} {entry.what:14} {entry.text}")


def check(folder: Path, session: Session) -> None:
    """What must hold, or the demo fails."""
    head = session.verify()
    assert head is not None
    print(f"   ledger verified: {head.seq} records, head {head.hash[:16]}...")
    session.verify(Head.parse(str(head)))
    files = [path for path in folder.rglob("*") if path.is_file()]
    leaks = [path.name for path in files if TOKEN.encode() in path.read_bytes()]
    print(f"   files that hold the card token: {leaks or 'none'}")
    assert not leaks
    books = folder / BOOKS
    paid = books.read_text().splitlines() if books.exists() else []
    print(f"   refunds in the books: {len(paid)}")
    assert len(paid) <= 1


async def after_the_kill(folder: Path) -> None:
    """Take up, show and prove."""
    print("2. Second process: the session is taken up where it was")
    session = await second_shift(folder)
    print("3. The timeline")
    show_timeline(session)
    print("4. The proof")
    check(folder, session)
    await session.close()


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        print("1. First process: three calls at once, under a policy", flush=True)
        subprocess.run([sys.executable, __file__, "first-shift", name], check=False)
        asyncio.run(after_the_kill(Path(name)))


if __name__ == "__main__":
    if sys.argv[1:2] == ["first-shift"]:
        asyncio.run(first_shift(Path(sys.argv[2])))
    else:
        main()

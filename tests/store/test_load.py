"""How much a durable record costs when many calls write at once."""

import asyncio
import time
from pathlib import Path

import pytest

from tests.store.facts import TOOL, open_call
from toolcrib.ledger.events import CallStarted, ToolInvoked
from toolcrib.ledger.record import verify
from toolcrib.store import SqliteStore
from toolcrib.store.ledger_writer import DurableLedger, entry_of
from toolcrib.store.store import CallClosed, CallOpened

CALLERS = 32
CALLS = 150
CALLS_PER_SECOND = 3_000


async def call(ledger: DurableLedger, call_id: str) -> None:
    """What one call writes: two records, each awaited until it is durable."""
    session_id = ledger.lease.session_id
    started = CallStarted(
        session_id=session_id, at=1.0, call_id=call_id, tool=TOOL, arguments_digest="d" * 64
    )
    await ledger.append(entry_of(started), [CallOpened(open_call(call_id))])
    invoked = ToolInvoked(
        session_id=session_id,
        at=2.0,
        call_id=call_id,
        name=TOOL.name,
        params={"path": "docs/report.txt"},
        message="some text " * 20,
        success=True,
        tool=TOOL,
    )
    await ledger.append(entry_of(invoked), [CallClosed(call_id)])


@pytest.mark.load
@pytest.mark.parametrize("sessions", [1, CALLERS])
async def test_thousands_of_calls_a_second_are_written(sqlite_path: Path, sessions: int) -> None:
    """32 callers, on one session or each on its own, write 3,000 calls in a second of CPU time.

    CPU time, because the bound must not depend on what else the machine does.
    """
    with SqliteStore(sqlite_path) as store:
        ledgers = [DurableLedger(store, store.acquire(f"s{n}")) for n in range(sessions)]

        async def caller(number: int) -> None:
            for count in range(CALLS):
                await call(ledgers[number % sessions], f"c{number}.{count}")

        await call(ledgers[0], "warm up")
        began = time.process_time()
        await asyncio.gather(*(caller(number) for number in range(CALLERS)))
        spent = time.process_time() - began

        assert CALLERS * CALLS / spent > CALLS_PER_SECOND
        for ledger in ledgers:
            session_id = ledger.lease.session_id
            assert verify(store.records(session_id)) == store.head(session_id)
            assert store.open_calls(session_id) == []

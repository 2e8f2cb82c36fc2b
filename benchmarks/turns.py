"""The next turn of a long session: opened from its file, and asked once more."""

import asyncio
import gc
import tempfile
import time
from pathlib import Path

from harness import Bound, Spread
from report import quarters, table

from toolcrib import MarkdownSection, Prompt, Session, SqliteStore, tool
from toolcrib.adapters.openai import OpenAIAdapter
from toolcrib.testing import ScriptedOpenAI, calls, says

SHORT, LONG = 100, 100_000
TIMES_SHORT = 2.0
"""What the long session may cost, as a multiple of the short one."""
ROUNDS, QUICK_ROUNDS = 15, 7
CALLS = 20
"""The calls of each earlier turn."""


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


PROMPT = Prompt(
    ns="bench",
    key="turns",
    sections=[MarkdownSection(title="Task", key="task", template="Add.", tools=[add])],
)


def run(quick: bool) -> list[Bound]:
    """Open both sessions in turn, a new store each time, and evaluate one prompt that follows."""
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_run(Path(folder), QUICK_ROUNDS if quick else ROUNDS))


async def _run(folder: Path, rounds: int) -> list[Bound]:
    sessions = {records: folder / f"{records}.sqlite3" for records in (SHORT, LONG)}
    for records, path in sessions.items():
        await _fill(path, records)
    seconds: dict[int, list[float]] = {records: [] for records in sessions}
    for number in range(rounds + 1):
        for records, path in sessions.items():
            spent = await _next_turn(path)
            # The first round reads the file into memory.
            if number:
                seconds[records].append(spent)
    spreads = {
        records: Spread.of([1e3 * each for each in spent]) for records, spent in seconds.items()
    }
    ratio = Spread.of(
        [long / short for short, long in zip(seconds[SHORT], seconds[LONG], strict=True)]
    )
    table(
        "Open a session and evaluate its next prompt (CPU)",
        ("records", "ms", "middle half"),
        [
            (f"{records:,}", f"{spread.median:.1f}", quarters(spread))
            for records, spread in spreads.items()
        ],
    )
    promise = f"{LONG:,} records: at most {TIMES_SHORT:g}x of {SHORT}"
    return [Bound(promise, f"{ratio.median:.2f}x", ratio.median <= TIMES_SHORT)]


async def _fill(path: Path, records: int) -> None:
    """Turns of some calls each, until the ledger has so many records."""
    wanted = [calls("add", {"a": 1, "b": 2}, call_id=f"call_{number}") for number in range(CALLS)]
    with SqliteStore(path, synchronous="normal") as store:
        async with await Session.open(store, "s") as session:
            while (head := session.head()) is None or head.seq < records:
                script = ScriptedOpenAI(wanted, [says("3")])
                adapter = OpenAIAdapter(model="m", client=script.client())
                await adapter.evaluate_async(PROMPT, session=session)


async def _next_turn(path: Path) -> float:
    """The CPU time from the open file to the answer."""
    script = ScriptedOpenAI([says("3")])
    adapter = OpenAIAdapter(model="m", client=script.client())
    gc.collect()
    begun = time.process_time()
    with SqliteStore(path) as store:
        async with await Session.open(store, "s") as session:
            response = await adapter.evaluate_async(PROMPT, session=session, follows=True)
    spent = time.process_time() - begun
    if response.text != "3" or "previous_response_id" not in script.requests[0]:
        raise SystemExit("the turn does not follow the session")
    return spent

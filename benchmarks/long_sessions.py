"""Sessions of 100, 10,000 and 1,000,000 records: opening one, its next turn, the console's pages.

Each lies in a store of its own. The time is that of the clock, so that the work of the database is
in it; the sizes take turns, and ratios are taken within a round.
"""

import asyncio
import gc
import random
import tempfile
import time
import tracemalloc
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from databases import postgres_server
from harness import Bound, Spread
from report import quarters, table

from tests.helpers.long_ledger import grow, recorded_turn, registry
from toolcrib import MarkdownSection, Prompt, RuntimeConfig, Session, SqliteStore, create_runtime
from toolcrib import tool as declared_tool
from toolcrib.adapters.openai import OpenAIAdapter
from toolcrib.runtime.runtime import Runtime
from toolcrib.store import PostgresStore
from toolcrib.testing import ScriptedOpenAI, says

OpenStore = SqliteStore | PostgresStore
OpenStores = dict[int, Callable[[], OpenStore]]
SIZES = (100, 10_000, 1_000_000)
QUICK_SIZES = (100, 10_000)
TIMES_SHORT = 1.5
MEMORY_KILOBYTES = 256.0
"""How much more memory the longest session may take than the shortest, at its peak."""
ROUNDS, QUICK_ROUNDS = 15, 9
REPEATS = 3
"""Each page is asked for so often in a round, and the fastest counts."""


@declared_tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


PROMPT = Prompt(
    ns="bench",
    key="turns",
    sections=[MarkdownSection(title="Task", key="task", template="Add.", tools=[add])],
)
PAGES: dict[str, Callable[[str], tuple[str, dict[str, Any]]]] = {
    "list sessions": lambda _: ("session.list", {}),
    "session facts": lambda name: ("session.get", {"session_id": name}),
    "newest events": lambda name: (
        "events.list",
        {"session_id": name, "newest_first": True, "limit": 50},
    ),
    "page of calls": lambda name: ("calls.list", {"session_id": name, "limit": 10}),
    "first records": lambda name: ("records.list", {"session_id": name, "limit": 50}),
}
"""What the console asks for when somebody opens a session there."""
OPEN, TURN, PEAK = "open", "next turn", "peak"


@dataclass(frozen=True, slots=True)
class Long:
    """A store with one session."""

    open_store: Callable[[], OpenStore]
    session_id: str
    seconds: dict[str, list[float]] = field(default_factory=dict[str, list[float]])

    def spent(self, name: str, seconds: float) -> None:
        self.seconds.setdefault(name, []).append(seconds)


def run(quick: bool) -> list[Bound]:
    """Both stores, one after the other."""
    sizes, rounds = (QUICK_SIZES, QUICK_ROUNDS) if quick else (SIZES, ROUNDS)
    bounds: list[Bound] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(postgres_server())
        urls = {size: server.database() for size in sizes}
        stores: dict[str, OpenStores] = {
            "SQLite": {size: lambda size=size: SqliteStore(folder / f"{size}") for size in sizes},
            "PostgreSQL": {size: lambda size=size: PostgresStore(urls[size]) for size in sizes},
        }
        for name, opens in stores.items():
            bounds += asyncio.run(_contest(name, opens, rounds))
    return bounds


async def _contest(name: str, opens: OpenStores, rounds: int) -> list[Bound]:
    turn = await recorded_turn()
    contestants: dict[int, Long] = {}
    for size, open_store in opens.items():
        with open_store() as store:
            async with await Session.open(store) as session:
                session_id = session.session_id
            grow(store, session_id, size, turn)
        contestants[size] = Long(open_store, session_id)
    order, rng = list(contestants.values()), random.Random(1)
    for number in range(rounds + 1):
        rng.shuffle(order)
        for each in order:
            await _next_turn(each)
            await _pages(each)
            # The first round reads files into memory.
            if not number:
                each.seconds.clear()
    for each in order:
        await _peak(each)
    return _report(name, contestants)


def _config(store: OpenStore) -> RuntimeConfig:
    return RuntimeConfig(store=store, host_tool_registry=registry())


async def _next_turn(each: Long) -> None:
    """Open the session and evaluate one prompt that follows its turns."""
    script = ScriptedOpenAI([says("3")])
    adapter = OpenAIAdapter(model="m", client=script.client())
    gc.collect()
    with each.open_store() as store:
        began = time.perf_counter()
        async with await Session.open(store, each.session_id) as session:
            each.spent(OPEN, time.perf_counter() - began)
            began = time.perf_counter()
            response = await adapter.evaluate_async(PROMPT, session=session, follows=True)
            each.spent(TURN, time.perf_counter() - began)
    if response.text != "3" or "previous_response_id" not in script.requests[0]:
        raise SystemExit("the turn does not follow the session")


async def _pages(each: Long) -> None:
    with each.open_store() as store:
        async with create_runtime(_config(store)) as runtime:
            for name, page in PAGES.items():
                asked = page(each.session_id)
                taken = [await _timed(lambda asked=asked: _asked(runtime, asked))]
                taken += [
                    await _timed(lambda asked=asked: _asked(runtime, asked)) for _ in range(REPEATS)
                ]
                each.spent(name, min(taken))


async def _asked(runtime: Runtime, asked: tuple[str, dict[str, Any]]) -> None:
    await runtime.ask(*asked)


async def _timed(work: Callable[[], Awaitable[None]]) -> float:
    began = time.perf_counter()
    await work()
    return time.perf_counter() - began


async def _peak(each: Long) -> None:
    """The memory that the next turn and the pages take at their peak, in bytes."""
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    await _next_turn(each)
    await _pages(each)
    each.spent(PEAK, tracemalloc.get_traced_memory()[1] - before)
    tracemalloc.stop()


def _report(name: str, contestants: dict[int, Long]) -> list[Bound]:
    sizes = list(contestants)
    short = contestants[sizes[0]]
    rows: list[list[str]] = []
    bounds: list[Bound] = []
    for what in (OPEN, TURN, *PAGES):
        cells = [what]
        ratios: list[float] = []
        for size in sizes:
            seconds = contestants[size].seconds[what]
            spread = Spread.of([1e3 * each for each in seconds])
            cells += [f"{spread.median:.2f}", quarters(spread, 2)]
            pairs = zip(seconds, short.seconds[what], strict=True)
            ratios.append(Spread.of([long / few for long, few in pairs]).median)
        rows.append([*cells, f"{max(ratios):.2f}x"])
        promise = f"{name}, {what}, {sizes[-1]:,} records: at most {TIMES_SHORT:g}x of {sizes[0]}"
        bounds.append(Bound(promise, f"{max(ratios):.2f}x", max(ratios) <= TIMES_SHORT))
    peaks = [contestants[size].seconds[PEAK][-1] / 1024 for size in sizes]
    rows.append(["memory KB", *[cell for peak in peaks for cell in (f"{peak:,.0f}", "")], ""])
    more = peaks[-1] - peaks[0]
    head = ["ms", *[cell for size in sizes for cell in (f"{size:,} records", "IQR")], "ratio"]
    table(f"{name}: sessions of any length, by the clock", head, rows)
    bounds.append(
        Bound(
            f"{name}: {sizes[-1]:,} records take at most {MEMORY_KILOBYTES:g} KB more than "
            f"{sizes[0]}",
            f"{more:+,.0f} KB",
            more <= MEMORY_KILOBYTES,
        )
    )
    return bounds

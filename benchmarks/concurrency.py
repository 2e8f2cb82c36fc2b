"""Ten thousand calls at once, each sleeping 100 ms: wall time and memory, a new process each."""

import asyncio
import gc
import json
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import cast

from harness import Bound, Call, Spread
from quiet import silence
from report import quarters, table
from workload import PAYLOADS, Filter, Reply, expected, search

CALLS = 10_000
KILOBYTES_A_CALL = 8.0

OURS, PEER, FLOOR = "toolcrib", "pydantic-ai ToolManager", "floor"


async def sleepy_search(
    query: str, limit: int, tags: list[str], filter: Filter, threshold: float = 0.5
) -> Reply:
    """Search the catalogue slowly."""
    await asyncio.sleep(0.1)
    return await search(query, limit, tags, filter, threshold)


def _nothing() -> None:
    """What a contestant without records does at the end."""


async def _call_of(contestant: str) -> tuple[Call, Callable[[], None]]:
    """The call of one contestant and what makes its records exist.

    Only its own library gets imported in this process.
    """
    if contestant == OURS:
        import ours

        return ours.call_of(sleepy_search)
    if contestant == PEER:
        from peers import with_pydantic_ai

        return await with_pydantic_ai.managed_function(sleepy_search), _nothing
    import floor

    return floor.call_of(sleepy_search), _nothing


def _kilobytes(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1])
    raise SystemExit(f"/proc/self/status has no {field}; this section needs Linux")


def _forget_peak() -> int:
    """Kilobytes in use now; the peak so far belongs to the imports, so it is reset to this."""
    Path("/proc/self/clear_refs").write_text("5")
    return _kilobytes("VmRSS")


async def _contest(contestant: str) -> dict[str, float]:
    call, read_records = await _call_of(contestant)
    await asyncio.gather(*(call(payload) for payload in PAYLOADS))
    gc.collect()
    before = _forget_peak()
    began, began_cpu = time.perf_counter(), time.process_time()
    payloads = [PAYLOADS[number % len(PAYLOADS)] for number in range(CALLS)]
    replies = await asyncio.gather(*(call(payload) for payload in payloads))
    read_records()
    wall, cpu = time.perf_counter() - began, time.process_time() - began_cpu
    growth = (_kilobytes("VmHWM") - before) / CALLS
    for payload, reply in zip(payloads, replies, strict=True):
        if json.loads(reply) != expected(payload):
            raise SystemExit(f"{contestant} returned {reply!r} for {payload!r}")
    return {"wall": wall, "cpu": cpu, "growth": growth}


def _spawn(contestant: str) -> dict[str, float]:
    command = [sys.executable, __file__, contestant]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return cast("dict[str, float]", json.loads(done.stdout))


def run(quick: bool) -> list[Bound]:
    """Let ours, the peer and the floor sleep in turns, and compare within each round."""
    rounds, rng = (2 if quick else 7), random.Random(1)
    order = [OURS, PEER, FLOOR]
    results: dict[str, list[dict[str, float]]] = {contestant: [] for contestant in order}
    for _ in range(rounds):
        rng.shuffle(order)
        for contestant in order:
            results[contestant].append(_spawn(contestant))
    _print(results, rounds)
    pairs = zip(results[OURS], results[PEER], strict=True)
    ratio = Spread.of([mine["wall"] / theirs["wall"] for mine, theirs in pairs]).median
    growth = Spread.of([result["growth"] for result in results[OURS]]).median
    return [
        Bound(f"{CALLS} sleeping calls: sooner than {PEER}", f"{ratio:.2f}x of it", ratio < 1),
        Bound(
            f"{CALLS} sleeping calls: at most {KILOBYTES_A_CALL:g} KB a call",
            f"{growth:.1f} KB",
            growth <= KILOBYTES_A_CALL,
        ),
    ]


def _print(results: dict[str, list[dict[str, float]]], rounds: int) -> None:
    rows: list[list[str]] = []
    for contestant, runs in results.items():
        wall, cpu, growth = (
            Spread.of([result[key] for result in runs]) for key in ("wall", "cpu", "growth")
        )
        rows.append(
            [
                contestant,
                f"{wall.median:.2f}",
                quarters(wall, 2),
                f"{cpu.median / CALLS * 1e6:.0f}",
                f"{growth.median:.1f}",
            ]
        )
    table(
        f"{CALLS} concurrent calls sleeping 100 ms, {rounds} rounds of new processes",
        ["contestant", "wall s", "IQR", "CPU us/call", "KB/call"],
        rows,
    )


if __name__ == "__main__":
    silence()
    print(json.dumps(asyncio.run(_contest(sys.argv[1]))))

"""Registering a thousand tools and rendering their schemas, and rendering a hundred again."""

import gc
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import floor
import ours
from harness import Bound, Measured
from report import quarters, table

TOOLS = 1_000
LIMIT = 1.3
AGAIN_TOOLS = 100
AGAIN_CALLS = 20_000
AGAIN_LIMIT_US = 5.0
"""What a lookup may cost; to render a hundred schemas anew takes some hundred times as long."""

Function = Callable[..., Awaitable[Any]]
Register = Callable[[list[Function]], int]


def functions(count: int) -> list[Function]:
    """Functions that share no type, so that nobody gains by remembering one."""
    return [_function(number) for number in range(count)]


def _function(number: int) -> Function:
    @dataclass
    class Filter:
        site: str
        year: int

    @dataclass
    class Reply:
        query: str
        limit: int
        threshold: float
        tags: list[str]
        site: str
        year: int

    async def search(
        query: str, limit: int, tags: list[str], filter: Filter, threshold: float = 0.5
    ) -> Reply:
        """Search the catalogue and return the best matches."""
        return Reply(query, limit, threshold, tags, filter.site, filter.year)

    search.__name__ = search.__qualname__ = f"search_{number}"
    return search


def _cost(register: Register) -> float:
    """CPU microseconds per tool, the functions made beforehand."""
    fresh = functions(TOOLS)
    gc.collect()
    began = time.process_time()
    rendered = register(fresh)
    spent = time.process_time() - began
    if rendered != TOOLS:
        raise SystemExit(f"rendered {rendered} of {TOOLS} schemas")
    return spent / TOOLS * 1e6


def run(quick: bool) -> list[Bound]:
    """Measure both sides in interleaved rounds, then the second rendering."""
    rounds, rng = (2 if quick else 7), random.Random(1)
    contestants: dict[str, Register] = {"floor": floor.register, "toolcrib": ours.register}
    by_name: dict[str, list[float]] = {name: [] for name in contestants}
    order = list(contestants)
    for _ in range(rounds):
        rng.shuffle(order)
        for name in order:
            by_name[name].append(_cost(contestants[name]))
    measured = Measured(by_name)
    _print(measured, rounds)
    ratio = measured.ratio("toolcrib", "floor").median
    promise = f"{TOOLS} tools with their schemas: at most {LIMIT}x the floor"
    return [Bound(promise, f"{ratio:.2f}x", ratio <= LIMIT), _again()]


def _again() -> Bound:
    declare = ours.declare(functions(AGAIN_TOOLS))
    first = declare()
    began = time.process_time()
    for _ in range(AGAIN_CALLS):
        again = declare()
        if again is not first:
            break
    spent = (time.process_time() - began) / AGAIN_CALLS * 1e6
    cached = declare() is first and len(first) == AGAIN_TOOLS
    promise = f"declarations of {AGAIN_TOOLS} tools again: the same object in {AGAIN_LIMIT_US:g} us"
    measured = f"{spent:.2f} us, {'the same' if cached else 'a new'} object"
    return Bound(promise, measured, cached and spent <= AGAIN_LIMIT_US)


def _print(measured: Measured, rounds: int) -> None:
    rows: list[list[str]] = []
    for name in measured.by_name:
        cost, ratio = measured.cost(name), measured.ratio(name, "floor")
        rows.append([name, f"{cost.median:.0f}", quarters(cost, 0), f"{ratio.median:.2f}"])
    title = f"Registering {TOOLS} tools, {rounds} interleaved rounds"
    table(title, ["contestant", "CPU us/tool", "IQR", "x floor"], rows)

"""The late steps of a long loop beside the early ones of a new loop, step by step in turns.

Whatever else a machine does slows both alike, so a growth of a few percent shows.
"""

import asyncio
import random
import statistics
import time
from dataclasses import dataclass

import httpx2
from harness import Spread
from looping import Make
from scripted import DONE, History, Script


class Paced(Script):
    """A script that holds every request until it is told to go on."""

    def __init__(self, steps: int) -> None:
        super().__init__(steps)
        self._come = asyncio.Event()
        self._go = asyncio.Event()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        reply = await super().handle_async_request(request)
        self._come.set()
        await self._go.wait()
        self._go.clear()
        return reply

    async def come(self) -> None:
        """Return when the next request is there."""
        await self._come.wait()
        self._come.clear()

    def go(self) -> None:
        """Answer the request."""
        self._go.set()

    async def step(self) -> float:
        """Answer a request and wait for the next one; CPU microseconds between the two."""
        began = time.process_time_ns()
        self.go()
        await self.come()
        return (self.stamps[-1] - began) / 1e3


@dataclass(frozen=True, slots=True)
class Pace:
    """What late steps cost beside early ones, round by round."""

    early: list[float]
    late: list[float]
    steps_apart: int

    @property
    def growth(self) -> Spread:
        """How many times the early ones."""
        pairs = zip(self.late, self.early, strict=True)
        return Spread.of([late / early for late, early in pairs])

    @property
    def slope(self) -> float:
        """CPU microseconds by which a step is dearer than the one before."""
        pairs = zip(self.late, self.early, strict=True)
        return Spread.of([(late - early) / self.steps_apart for late, early in pairs]).median


async def pace(make: Make, history: History, steps: int, rounds: int) -> Pace:
    """Hold the last fifth of the steps against the first fifth of another loop, several times."""
    rng, fifth = random.Random(1), steps // 5
    pairs = [await _pair(make, history, steps, fifth, rng) for _ in range(rounds)]
    return Pace([early for early, _ in pairs], [late for _, late in pairs], steps - fifth)


async def _pair(
    make: Make, history: History, steps: int, fifth: int, rng: random.Random
) -> tuple[float, float]:
    old, new = Paced(steps), Paced(fifth)
    loops = [asyncio.ensure_future(make(each, history)()) for each in (old, new)]
    await old.come()
    await new.come()
    for _ in range(steps - fifth):
        await old.step()
    costs: dict[Paced, list[float]] = {old: [], new: []}
    for _ in range(fifth):
        for each in rng.sample((old, new), 2):
            costs[each].append(await each.step())
    old.go()
    new.go()
    if await asyncio.gather(*loops) != [DONE, DONE]:
        raise SystemExit("a paced loop came to another end")
    return statistics.mean(costs[new]), statistics.mean(costs[old])

"""Whole loops in interleaved rounds, with the CPU time of every step."""

import gc
import random
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from harness import Spread
from scripted import DONE, History, Script, fault_in

Loop = Callable[[], Awaitable[str]]
"""One prompt, all that follows from it, and the text of the answer."""

Make = Callable[[Script, History], Loop]
"""What makes a loop that follows a script."""


@dataclass(frozen=True, slots=True)
class Contender:
    """A loop of a certain length under a script of its own."""

    name: str
    history: History
    script: Script
    loop: Loop

    @classmethod
    def of(cls, name: str, make: Make, history: History, steps: int) -> "Contender":
        """A contender with a new script."""
        script = Script(steps)
        return cls(name, history, script, make(script, history))

    @property
    def steps(self) -> int:
        """How many tool calls it has to make."""
        return self.script.steps


@dataclass(frozen=True, slots=True)
class Lap:
    """One run of a loop."""

    cost: float
    """CPU microseconds per step, from the question to the answer and its records."""
    by_step: list[float]
    """CPU microseconds from each request to the next one."""


@dataclass(frozen=True, slots=True)
class Raced:
    """The laps of all contenders; those with the same number were run in the same round."""

    laps: dict[Contender, list[Lap]]

    def costs(self, contender: Contender) -> list[float]:
        """CPU microseconds per step, round by round."""
        return [lap.cost for lap in self.laps[contender]]

    def own(self, contender: Contender, floor: Contender) -> list[float]:
        """The same without what the SDK itself costs, by a floor of the same round."""
        pairs = zip(self.costs(contender), self.costs(floor), strict=True)
        return [cost - least for cost, least in pairs]

    def growth(self, contender: Contender) -> Spread:
        """How many times the first fifth of the steps the last fifth costs."""
        return Spread.of([_growth(lap.by_step) for lap in self.laps[contender]])


def _growth(steps: Sequence[float]) -> float:
    fifth = len(steps) // 5
    return statistics.mean(steps[-fifth:]) / statistics.mean(steps[:fifth])


def ratio(mine: Sequence[float], theirs: Sequence[float]) -> Spread:
    """How many times theirs, taken within each round."""
    return Spread.of([one / other for one, other in zip(mine, theirs, strict=True)])


async def race(contenders: Sequence[Contender], rounds: int, seed: int = 1) -> Raced:
    """Check that all contenders do the work, then run each once per round in a shuffled order."""
    for contender in contenders:
        await _probe(contender)
    # Else the first full collection makes one contender pay for the modules of all the others.
    gc.collect()
    gc.freeze()
    laps: dict[Contender, list[Lap]] = {contender: [] for contender in contenders}
    order, rng = list(contenders), random.Random(seed)
    for _ in range(rounds):
        rng.shuffle(order)
        for contender in order:
            laps[contender].append(await _lap(contender))
    gc.unfreeze()
    return Raced(laps)


async def _probe(contender: Contender) -> None:
    """Stop unless every call was made, with the right reply, and the history is kept as it says."""
    script = contender.script
    script.rewind(keep=True)
    text = await contender.loop()
    fault = fault_in(script.kept or [], contender.history, script.steps)
    if fault is not None or text != DONE:
        raise SystemExit(f"{contender.name} ({contender.history} history) said {text!r}: {fault}")


async def _lap(contender: Contender) -> Lap:
    script = contender.script
    script.rewind()
    gc.collect()
    began = time.process_time_ns()
    await contender.loop()
    spent = time.process_time_ns() - began
    stamps = script.stamps
    by_step = [(after - at) / 1e3 for at, after in pairwise(stamps)]
    return Lap(spent / script.steps / 1e3, by_step)

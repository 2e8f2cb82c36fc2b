"""Interleaved rounds: every variant once per round, in a new order, and ratios within a round."""

import gc
import json
import random
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from workload import BAD_NESTED, PAYLOADS, expected, is_reply

Call = Callable[[bytes], Awaitable[str]]

BATCH_SECONDS = 0.06
"""CPU time of one variant in one round: enough for the clock, short enough to mix."""

MOST_CALLS = 20_000


def _nothing() -> None:
    """What a variant without state does before and after a batch."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to get from JSON bytes to JSON text.

    `governed` says that the path is the one its library offers for real use, with its checks and
    records. `fresh` runs before every timed batch. `settle` ends it, inside the measurement: what
    a library puts off until later is paid for there.
    """

    peer: str
    path: str
    call: Call
    governed: bool = True
    fresh: Callable[[], None] = field(default=_nothing)
    settle: Callable[[], None] = field(default=_nothing)

    @property
    def name(self) -> str:
        """How tables and bounds call it."""
        return f"{self.peer}: {self.path}"


@dataclass(frozen=True, slots=True)
class Spread:
    """The median of some numbers, and the quarters around it."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """The spread of at least one value."""
        if len(values) == 1:
            return cls(values[0], values[0], values[0])
        low, median, high = statistics.quantiles(values, n=4, method="inclusive")
        return cls(median, low, high)


@dataclass(frozen=True, slots=True)
class Bound:
    """A promise with its measured value."""

    promise: str
    measured: str
    kept: bool


@dataclass(frozen=True, slots=True)
class Measured:
    """CPU microseconds per call of each variant, one number per round."""

    by_name: dict[str, list[float]]

    def cost(self, name: str) -> Spread:
        """CPU microseconds per call."""
        return Spread.of(self.by_name[name])

    def ratio(self, name: str, base: str) -> Spread:
        """How many times the cost of `base`, taken within each round."""
        pairs = zip(self.by_name[name], self.by_name[base], strict=True)
        return Spread.of([mine / theirs for mine, theirs in pairs])


async def probe(variant: Variant) -> None:
    """Stop the run unless this variant does the work: right replies, and no bad nested argument."""
    variant.fresh()
    await _check_replies(variant)
    await _check_refusal(variant)


async def _check_replies(variant: Variant) -> None:
    for payload in PAYLOADS:
        text = await variant.call(payload)
        if not is_reply(text) or json.loads(text) != expected(payload):
            raise SystemExit(f"{variant.name} returned {text!r} for {payload!r}")


async def _check_refusal(variant: Variant) -> None:
    try:
        text = await variant.call(BAD_NESTED)
    except Exception:
        return
    if is_reply(text):
        raise SystemExit(f"{variant.name} accepted a bad nested argument: {text!r}")


async def _batch(variant: Variant, calls: int) -> float:
    """CPU microseconds per call over one batch; the collector starts clean and stays on."""
    call, payloads = variant.call, PAYLOADS
    whole, rest = divmod(calls, len(payloads))
    variant.fresh()
    gc.collect()
    began = time.process_time()
    for _ in range(whole):
        for payload in payloads:
            await call(payload)
    for payload in payloads[:rest]:
        await call(payload)
    variant.settle()
    return (time.process_time() - began) / calls * 1e6


async def interleave(variants: Sequence[Variant], rounds: int, seed: int = 1) -> Measured:
    """Probe all variants, then measure each once per round in a shuffled order."""
    calls: dict[str, int] = {}
    for variant in variants:
        await probe(variant)
        await _batch(variant, 100)
        rough = await _batch(variant, 200)
        calls[variant.name] = max(40, min(MOST_CALLS, int(BATCH_SECONDS * 1e6 / rough)))
    # Else the first full collection makes one variant pay for the modules of all the others.
    gc.collect()
    gc.freeze()
    by_name: dict[str, list[float]] = {variant.name: [] for variant in variants}
    order, rng = list(variants), random.Random(seed)
    for _ in range(rounds):
        rng.shuffle(order)
        for variant in order:
            by_name[variant.name].append(await _batch(variant, calls[variant.name]))
    gc.unfreeze()
    return Measured(by_name)

"""One call from JSON bytes to JSON text: ours, the floor and every peer, interleaved."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack

import ours
import rivals
from floor import FLOOR
from harness import Bound, Measured, Variant, interleave
from report import dispatch_table

TIMES_FLOOR = (5.0, 8.0)
"""Of a call whose ledger nobody reads, and of one whose ledger is read."""


def run(quick: bool) -> list[Bound]:
    """Measure plain calls and hold them against the floor and every governed peer."""
    return asyncio.run(_run(6 if quick else 25))


async def _run(rounds: int) -> list[Bound]:
    async with AsyncExitStack() as stack:
        mine = ours.dispatch()
        variants = [FLOOR, *mine, *await rivals.enter(stack, "variants")]
        measured = await interleave(variants, rounds)
    title = f"Dispatch, {rounds} interleaved rounds"
    dispatch_table(title, variants, measured, FLOOR.name)
    return bounds(mine, variants, measured, TIMES_FLOOR)


def bounds(
    mine: Sequence[Variant],
    variants: Sequence[Variant],
    measured: Measured,
    times_floor: Sequence[float],
) -> list[Bound]:
    """Each of ours against its multiple of the floor, then against each governed peer."""
    peers = [variant for variant in variants if variant.governed and variant not in mine]
    kept: list[Bound] = []
    for one, limit in zip(mine, times_floor, strict=True):
        ratio = measured.ratio(one.name, FLOOR.name).median
        promise = f"{one.path}: at most {limit:g}x the floor"
        kept.append(Bound(promise, f"{ratio:.2f}x", ratio <= limit))
        for peer in peers:
            against = measured.ratio(one.name, peer.name).median
            promise = f"{one.path}: less CPU than {peer.name}"
            kept.append(Bound(promise, f"{against:.3f}x of it", against < 1))
    return kept

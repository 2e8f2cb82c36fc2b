"""The same call with a hook before and a hook after it."""

import asyncio
from contextlib import AsyncExitStack

import ours
import rivals
from dispatch import bounds
from floor import FLOOR, HOOKED_FLOOR
from harness import Bound, interleave
from report import dispatch_table

TIMES_FLOOR = (9.0, 12.0)
"""Without and with the ledger read, of the floor without hooks, which is the harder one."""


def run(quick: bool) -> list[Bound]:
    """Measure hooked calls and hold them against the floor and every governed peer."""
    return asyncio.run(_run(6 if quick else 25))


async def _run(rounds: int) -> list[Bound]:
    async with AsyncExitStack() as stack:
        mine = ours.hooked()
        variants = [FLOOR, HOOKED_FLOOR, *mine, *await rivals.enter(stack, "hooked")]
        measured = await interleave(variants, rounds)
    title = f"Dispatch with a pre and a post hook, {rounds} interleaved rounds"
    dispatch_table(title, variants, measured, FLOOR.name)
    return bounds(mine, variants, measured, TIMES_FLOOR)

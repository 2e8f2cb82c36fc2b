"""What `import toolcrib` costs beside the import of pydantic and asyncio, each in a new process."""

import random
import subprocess
import sys

from harness import Bound, Measured
from report import quarters, table

BASE = "import pydantic, asyncio"
USED = "import asyncio; from pydantic import BaseModel, TypeAdapter"
OURS = "import toolcrib"
OURS_USED = "from toolcrib import Executor, Session, tool"
# The names load when they are first used, so the table shows what their use costs as well.
STATEMENTS = (BASE, USED, OURS, OURS_USED)
LIMITS = {OURS: 1.5, OURS_USED: 2.0}

# The clock starts after the interpreter, so its own start cannot flatter the ratio.
_CHILD = """\
import time
began = time.process_time()
{statement}
print((time.process_time() - began) * 1e6)
"""


def _cost(statement: str) -> float:
    """CPU microseconds of the import alone."""
    command = [sys.executable, "-c", _CHILD.format(statement=statement)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(done.stdout)


def run(quick: bool) -> list[Bound]:
    """Measure the imports in interleaved rounds and hold ours against the base."""
    rounds, rng = (7 if quick else 21), random.Random(1)
    statements = list(STATEMENTS)
    for statement in statements:
        _cost(statement)
    by_name: dict[str, list[float]] = {statement: [] for statement in statements}
    for _ in range(rounds):
        rng.shuffle(statements)
        for statement in statements:
            by_name[statement].append(_cost(statement))
    measured = Measured(by_name)
    _print(measured, rounds)
    return [_bound(measured, statement, limit) for statement, limit in LIMITS.items()]


def _bound(measured: Measured, statement: str, limit: float) -> Bound:
    ratio = measured.ratio(statement, BASE).median
    promise = f"`{statement}`: at most {limit:g}x the CPU time of `{BASE}`"
    return Bound(promise, f"{ratio:.2f}x", ratio <= limit)


def _print(measured: Measured, rounds: int) -> None:
    rows: list[list[str]] = []
    for statement in STATEMENTS:
        cost, ratio = measured.cost(statement), measured.ratio(statement, BASE)
        middle = f"{cost.low / 1e3:.1f}-{cost.high / 1e3:.1f}"
        rows.append(
            [
                statement,
                f"{cost.median / 1e3:.1f}",
                middle,
                f"{ratio.median:.2f}",
                quarters(ratio, 2),
            ]
        )
    table(
        f"Import, {rounds} interleaved rounds of new processes",
        ["statement", "CPU ms", "IQR", "ratio", "IQR"],
        rows,
    )

"""32 callers on a SQLite ledger, killed in the middle: the rate, and whether a record was lost."""

import asyncio
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import ours
from harness import Bound, Spread
from quiet import silence
from report import quarters, table
from workload import PAYLOADS

from toolcrib.store.sqlite_schema import Synchronous

CALLERS = 32
CALLS_A_SECOND: dict[Synchronous, int] = {"starts": 1_500, "normal": 3_000}
"""The least rate of each level: with `starts`, the default, calls wait for the disk before their
handler runs, so the rate depends on the disk.
"""
WARM_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Killed:
    """What a run had acknowledged when it was killed, and what its ledger holds of that."""

    acknowledged: int
    lost: int
    rate: float
    cpu_us: float
    """CPU time per acknowledged call, start-up included; it does not depend on who else runs."""


async def _serve(path: str, synchronous: Synchronous) -> None:
    """Call without end; write a call's id to stdout once its outcome is in the caller's hands."""
    call = await ours.durable_call(Path(path), synchronous)

    async def caller(number: int) -> None:
        while True:
            for payload in PAYLOADS[number:] + PAYLOADS[:number]:
                call_id = await call(payload)
                os.write(1, f"{call_id}\n".encode())

    await asyncio.gather(*(caller(number) for number in range(CALLERS)))


def _kill_in_the_middle(path: Path, seconds: float, synchronous: Synchronous) -> Killed:
    """Let a process call for a while, SIGKILL it, and look for every acknowledged call."""
    before = _children_seconds()
    command = [sys.executable, __file__, str(path), synchronous]
    child = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert child.stdout is not None
    acknowledged, rate = _listen(child.stdout, seconds)
    child.send_signal(signal.SIGKILL)
    # What the pipe still holds was acknowledged too; a torn last line was not.
    acknowledged.update(child.stdout.read().decode().split("\n")[:-1])
    child.stdout.close()
    child.wait()
    finished = asyncio.run(ours.finished_calls(path))
    cpu_us = (_children_seconds() - before) / len(acknowledged) * 1e6
    return Killed(len(acknowledged), len(acknowledged - finished), rate, cpu_us)


def _children_seconds() -> float:
    """CPU time of the children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _listen(pipe: IO[bytes], seconds: float) -> tuple[set[str], float]:
    """The calls acknowledged, and their rate over the given seconds after the warm-up."""
    acknowledged: set[str] = set()
    began, counted, warm_at = 0.0, 0, 0.0
    for line in pipe:
        acknowledged.add(line.decode().rstrip("\n"))
        now = time.perf_counter()
        warm_at = warm_at or now + WARM_SECONDS
        if not began and now >= warm_at:
            began, counted = now, len(acknowledged)
        elif began and now >= began + seconds:
            return acknowledged, (len(acknowledged) - counted) / (now - began)
    raise SystemExit("the calling process ended by itself; its error is above")


def run(quick: bool) -> list[Bound]:
    """Both levels, so that the price of the stronger one can be seen."""
    measured: dict[Synchronous, list[Killed]] = {
        level: _measure(level, quick) for level in CALLS_A_SECOND
    }
    table(
        "SQLite ledger, runs ended by SIGKILL",
        ["synchronous", "callers", "calls/s", "IQR", "CPU us/call", "acknowledged", "lost"],
        [_row(level, runs) for level, runs in measured.items()],
    )
    return [bound for level, runs in measured.items() for bound in _bounds(level, runs)]


def _measure(level: Synchronous, quick: bool) -> list[Killed]:
    """Repeat the killed run in new files."""
    runs: list[Killed] = []
    for _ in range(2 if quick else 5):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "ledger.db"
            runs.append(_kill_in_the_middle(path, 1.5 if quick else 3.0, level))
    return runs


def _row(level: Synchronous, runs: list[Killed]) -> list[str]:
    rate, cpu = Spread.of([each.rate for each in runs]), Spread.of([each.cpu_us for each in runs])
    acknowledged, lost = sum(each.acknowledged for each in runs), sum(each.lost for each in runs)
    shown = [level, f"{CALLERS}", f"{rate.median:,.0f}", quarters(rate, 0), f"{cpu.median:.0f}"]
    return [*shown, f"{acknowledged:,}", str(lost)]


def _bounds(level: Synchronous, runs: list[Killed]) -> list[Bound]:
    """The rate is the median, the losses are the sum."""
    rate, least = Spread.of([each.rate for each in runs]).median, CALLS_A_SECOND[level]
    lost = sum(each.lost for each in runs)
    about = f"SQLite ledger, synchronous={level}"
    return [
        Bound(
            f"{about}, {CALLERS} callers: at least {least:,} calls/s",
            f"{rate:,.0f} calls/s",
            rate >= least,
        ),
        Bound(f"{about}: no acknowledged call lost to SIGKILL", f"{lost} lost", lost == 0),
    ]


if __name__ == "__main__":
    silence()
    level: Synchronous = "normal" if sys.argv[2] == "normal" else "starts"
    asyncio.run(_serve(sys.argv[1], level))

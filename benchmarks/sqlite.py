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

CALLERS = 32
CALLS_A_SECOND = 3_000
WARM_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Killed:
    """What a run had acknowledged when it was killed, and what its ledger holds of that."""

    acknowledged: int
    lost: int
    rate: float
    cpu_us: float
    """CPU time per acknowledged call, start-up included; it does not depend on who else runs."""


async def _serve(path: str) -> None:
    """Call without end; write a call's id to stdout once its outcome is in the caller's hands."""
    call = await ours.durable_call(Path(path))

    async def caller(number: int) -> None:
        while True:
            for payload in PAYLOADS[number:] + PAYLOADS[:number]:
                call_id = await call(payload)
                os.write(1, f"{call_id}\n".encode())

    await asyncio.gather(*(caller(number) for number in range(CALLERS)))


def _kill_in_the_middle(path: Path, seconds: float) -> Killed:
    """Let a process call for a while, SIGKILL it, and look for every acknowledged call."""
    before = _children_seconds()
    child = subprocess.Popen([sys.executable, __file__, str(path)], stdout=subprocess.PIPE)
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
    """Repeat the killed run in new files; the rate is the median, the losses are the sum."""
    runs: list[Killed] = []
    for _ in range(2 if quick else 5):
        with tempfile.TemporaryDirectory() as folder:
            runs.append(_kill_in_the_middle(Path(folder) / "ledger.db", 1.5 if quick else 3.0))
    rate = Spread.of([each.rate for each in runs])
    acknowledged, lost = sum(each.acknowledged for each in runs), sum(each.lost for each in runs)
    cpu = Spread.of([each.cpu_us for each in runs])
    row = [f"{CALLERS}", f"{rate.median:,.0f}", quarters(rate, 0), f"{cpu.median:.0f}"]
    table(
        f"SQLite ledger, {len(runs)} runs ended by SIGKILL",
        ["callers", "calls/s", "IQR", "CPU us/call", "acknowledged", "lost"],
        [[*row, f"{acknowledged:,}", str(lost)]],
    )
    return [
        Bound(
            f"SQLite ledger, {CALLERS} callers: at least {CALLS_A_SECOND:,} calls/s",
            f"{rate.median:,.0f} calls/s",
            rate.median >= CALLS_A_SECOND,
        ),
        Bound("SQLite ledger: no acknowledged call lost to SIGKILL", f"{lost} lost", lost == 0),
    ]


if __name__ == "__main__":
    silence()
    asyncio.run(_serve(sys.argv[1]))

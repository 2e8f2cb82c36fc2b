"""A tool called over `toolcrib serve --stdio`, one call after the other, beside an echo."""

import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness import Bound, Spread
from report import quarters, table
from servers_load import Host
from workload import PAYLOADS, expected

TIMES_ECHO = 3.0
SESSION = "bench"

_HERE = Path(__file__).parent


class Line:
    """A process that answers JSON-RPC lines, and how long it takes."""

    def __init__(self, name: str, command: list[str], reply: Callable[[Any], Any]) -> None:
        self.name = name
        self._reply = reply
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(_HERE)},
        )
        self._id = 0
        self._host = Host("", self._process.pid)
        self.p50: list[float] = []
        self.p99: list[float] = []
        self.cpu_us: list[float] = []

    def ask(self, method: str, params: str) -> bytes:
        """One request, and the line that answers it."""
        pipes = self._process
        assert pipes.stdin is not None
        assert pipes.stdout is not None
        self._id += 1
        line = f'{{"jsonrpc":"2.0","id":{self._id},"method":"{method}","params":{params}}}\n'
        pipes.stdin.write(line.encode())
        pipes.stdin.flush()
        return pipes.stdout.readline()

    def call(self, payload: bytes) -> bytes:
        """Call the tool."""
        facts = f'"session_id":"{SESSION}","name":"search"'
        return self.ask("tools.call", f'{{{facts},"arguments":{payload.decode()}}}')

    def probe(self) -> None:
        """Show that the tool is really run."""
        for payload in PAYLOADS[:3]:
            answer = json.loads(self.call(payload))
            if self._reply(answer) != expected(payload):
                raise SystemExit(f"{self.name} answered {answer!r} to {payload!r}")

    def measure(self, calls: int) -> None:
        """One round of calls, one after the other."""
        self.probe()
        times: list[float] = []
        before = self._host.cpu_seconds()
        for number in range(calls):
            payload = PAYLOADS[number % len(PAYLOADS)]
            began = time.perf_counter()
            self.call(payload)
            times.append((time.perf_counter() - began) * 1e6)
        self.cpu_us.append((self._host.cpu_seconds() - before) / calls * 1e6)
        self.p50.append(statistics.median(times))
        self.p99.append(statistics.quantiles(times, n=100)[98])

    def close(self) -> None:
        """End its input, and wait for its end."""
        self._process.communicate(timeout=30)


def _ours() -> Line:
    program = "from quiet import silence; silence(); from toolcrib.cli import main; main()"
    serve = ["serve", "--stdio", "--host-tools-module", "served_tools", "--log-level", "warning"]
    line = Line(
        "toolcrib serve --stdio",
        [sys.executable, "-c", program, *serve],
        lambda answer: answer["result"]["value"],
    )
    opened = json.loads(line.ask("session.create", f'{{"session_id":"{SESSION}"}}'))
    if "result" not in opened:
        raise SystemExit(f"toolcrib opened no session: {opened}")
    return line


def _echo() -> Line:
    def reply(answer: Any) -> Any:
        return expected(json.dumps(answer["result"]["arguments"]).encode())

    return Line("asyncio echo", [sys.executable, str(_HERE / "stdio_echo.py")], reply)


def run(quick: bool) -> list[Bound]:
    """Call both in turns, and compare within each round."""
    rounds, calls = (4, 300) if quick else (15, 1_000)
    ours, echo = _ours(), _echo()
    order, rng = [ours, echo], random.Random(1)
    try:
        for _ in range(rounds):
            rng.shuffle(order)
            for each in order:
                each.measure(calls)
    finally:
        for each in order:
            each.close()
    _print([echo, ours], rounds)
    pairs = zip(ours.p50, echo.p50, strict=True)
    ratio = Spread.of([mine / theirs for mine, theirs in pairs]).median
    promise = f"{ours.name}: p50 at most {TIMES_ECHO:g}x of an {echo.name}"
    return [Bound(promise, f"{ratio:.2f}x", ratio <= TIMES_ECHO)]


def _print(lines: list[Line], rounds: int) -> None:
    rows: list[list[str]] = []
    for each in lines:
        p50, p99, cpu = (Spread.of(values) for values in (each.p50, each.p99, each.cpu_us))
        rows.append(
            [
                each.name,
                f"{p50.median:.0f}",
                quarters(p50, 0),
                f"{p99.median:.0f}",
                f"{cpu.median:.0f}",
            ]
        )
    table(
        f"A tool over stdin and stdout, {rounds} interleaved rounds",
        ["process", "p50 us", "IQR", "p99 us", "CPU us/call"],
        rows,
    )

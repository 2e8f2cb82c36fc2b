"""What it costs to start a command, beside the import of the libraries that it is made with.

The project is the one that `toolcrib init` writes, with a request that waits in its store.
"""

import json
import os
import random
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from harness import Bound, Measured
from report import quarters, table

BASE = "import pydantic, typer, rich"
LISTS = ("tools list", "approvals list")
LISTS_LIMIT = 1.5
MCP = "mcp"
MCP_LIMIT = 1.0
"""Seconds until an MCP client has the list of tools, on a machine that does nothing else."""
_HANDSHAKE = (
    {
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "bench", "version": "1"},
        },
    },
    {"method": "notifications/initialized"},
    {"id": 2, "method": "tools/list"},
)
HELP_LIMIT = 1.2
_TOOLCRIB = Path(sys.executable).with_name("toolcrib")
_TREE = """\
import json, typer
from toolcrib.cli.app import app

def walk(command, path=()):
    yield " ".join([*path, "--help"])
    for name in command.list_commands(None) if hasattr(command, "list_commands") else ():
        yield from walk(command.get_command(None, name), (*path, name))

print(json.dumps(list(walk(typer.main.get_command(app)))))
"""
# Without byte code every start would compile, and what pip prints is nobody's terminal.
_ENVIRONMENT = {
    name: value
    for name, value in os.environ.items()
    if name != "PYTHONDONTWRITEBYTECODE" and not name.startswith("TOOLCRIB")
}


def _words(name: str) -> list[str]:
    if name == BASE:
        return [sys.executable, "-c", BASE]
    return [str(_TOOLCRIB), *name.split()]


def _cost(name: str, folder: str) -> float:
    """CPU microseconds of the whole process, user and system."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    if name == MCP:
        _list_over_mcp(folder)
    else:
        done = subprocess.run(
            _words(name), cwd=folder, env=_ENVIRONMENT, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(f"{name}: status {done.returncode}: {done.stderr}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return spent * 1e6


def _list_over_mcp(folder: str) -> None:
    """Have a new process answer `tools/list`, and end it."""
    with subprocess.Popen(
        _words(MCP),
        cwd=folder,
        env=_ENVIRONMENT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for message in _HANDSHAKE:
            process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        process.stdin.flush()
        process.stdout.readline()
        if '"tools"' not in process.stdout.readline():
            raise SystemExit(f"toolcrib {MCP}: no list of tools")
        process.stdin.close()


def _project(parent: str) -> str:
    """A new project, in whose store a request waits."""
    folder = str(Path(parent) / "shop")
    call = ["tools", "call", "order_parts", "part=saws", "count=50"]
    for words, status in ((["init", folder], 0), (call, 4)):
        where = parent if status == 0 else folder
        done = subprocess.run(
            [str(_TOOLCRIB), *words],
            cwd=where,
            env=_ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != status:
            raise SystemExit(f"toolcrib {' '.join(words)}: {done.stdout}{done.stderr}")
    return folder


def _helps() -> list[str]:
    """The help of every command and group."""
    done = subprocess.run(
        [sys.executable, "-c", _TREE], capture_output=True, text=True, check=True, env=_ENVIRONMENT
    )
    return json.loads(done.stdout)


def run(quick: bool) -> list[Bound]:
    """Measure the starts in interleaved rounds and hold them against the import."""
    rounds, rng = (5 if quick else 15), random.Random(1)
    helps = _helps()
    names = [BASE, *LISTS, MCP, *helps]
    order = list(names)
    by_name: dict[str, list[float]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory() as parent:
        folder = _project(parent)
        for name in names:
            _cost(name, folder)
        for _ in range(rounds):
            rng.shuffle(order)
            for name in order:
                by_name[name].append(_cost(name, folder))
    measured = Measured(by_name)
    slowest = max(helps, key=lambda name: measured.ratio(name, BASE).median)
    _print(measured, [BASE, *LISTS, MCP, "--help", slowest], rounds)
    bounds = [_bound(measured, f"toolcrib {name}", name, LISTS_LIMIT) for name in LISTS]
    any_help = f"any --help, the slowest being `toolcrib {slowest}`"
    return [*bounds, _bound(measured, any_help, slowest, HELP_LIMIT), _mcp_bound(measured)]


def _mcp_bound(measured: Measured) -> Bound:
    seconds = measured.cost(MCP).median / 1e6
    promise = f"toolcrib mcp, to the first list of tools and to its end: under {MCP_LIMIT:g} s CPU"
    return Bound(promise, f"{seconds:.2f} s", seconds < MCP_LIMIT)


def _bound(measured: Measured, about: str, name: str, limit: float) -> Bound:
    ratio = measured.cost(name).median / measured.cost(BASE).median
    promise = f"{about}: at most {limit:g}x the CPU time of `{BASE}`"
    return Bound(promise, f"{ratio:.2f}x", ratio <= limit)


def _print(measured: Measured, names: list[str], rounds: int) -> None:
    rows: list[list[str]] = []
    for name in dict.fromkeys(names):
        cost, ratio = measured.cost(name), measured.ratio(name, BASE)
        middle = f"{cost.low / 1e3:.0f}-{cost.high / 1e3:.0f}"
        rows.append(
            [
                name if name == BASE else f"toolcrib {name}",
                f"{cost.median / 1e3:.0f}",
                middle,
                f"{ratio.median:.2f}",
                quarters(ratio, 2),
            ]
        )
    table(
        f"Starting a command, {rounds} interleaved rounds of new processes",
        ["process", "CPU ms", "IQR", "ratio", "IQR"],
        rows,
    )

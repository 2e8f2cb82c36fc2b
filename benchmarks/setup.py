"""What `make demo` costs on a fresh clone: seconds until the demo has ended, and megabytes.

The wall clock is a promise for two quiet cores, and depends on the network; what pip and the demo
took of the CPU is printed beside it.
"""

import os
import resource
import subprocess
import tempfile
import time
from pathlib import Path

from harness import Bound
from report import table

ROOT = Path(__file__).parents[1]
SECONDS = 90.0
MEGABYTES = 450.0
QUIET = 1.0
"""The load average up to which the wall clock is judged."""


def run(quick: bool) -> list[Bound]:
    """Clone, run `make demo`, and look at what it left."""
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as parent:
        clone = Path(parent) / "toolcrib"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        seconds, cpu = _demo(clone, parent)
        megabytes = _size(clone / ".venv") / 1e6
    rows = [["make demo", f"{seconds:.0f}", f"{cpu:.0f}", f"{megabytes:.0f}"]]
    table("Set-up from a fresh clone", ["command", "seconds", "CPU seconds", "MB"], rows)
    return [
        Bound(
            f"`make demo`: at most {SECONDS:g} s on two quiet cores",
            f"{seconds:.0f} s" + (f", not judged at a load of {load:.1f}" if load > QUIET else ""),
            seconds <= SECONDS or load > QUIET,
        ),
        Bound(
            f"`make demo`: at most {MEGABYTES:g} MB in .venv",
            f"{megabytes:.0f} MB",
            megabytes <= MEGABYTES,
        ),
    ]


def _demo(clone: Path, temporary: str) -> tuple[float, float]:
    """The seconds of `make demo`, and of the CPU."""
    dropped = ("PYTHONPATH", "VIRTUAL_ENV", "PYTHONDONTWRITEBYTECODE", "MAKEFLAGS", "MAKELEVEL")
    environment = {key: value for key, value in os.environ.items() if key not in dropped}
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(
        ["make", "demo"],
        cwd=clone,
        env={**environment, "TMPDIR": temporary},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    seconds, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"make demo failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _size(folder: Path) -> int:
    """Bytes on the disk, each file once."""
    seen: dict[int, int] = {}
    for path in folder.rglob("*"):
        if not path.is_symlink() and path.is_file():
            facts = path.stat()
            seen[facts.st_ino] = facts.st_blocks * 512
    return sum(seen.values())

"""Runs the benchmarks and fails when a promise is not kept.

python benchmarks/run.py [--quick] [section ...]
"""

import argparse
import importlib
import os
import platform
from collections.abc import Callable
from typing import cast

from harness import Bound
from quiet import silence
from report import verdict, versions

SECTIONS = (
    "dispatch",
    "hooks",
    "loop",
    "turns",
    "register",
    "imports",
    "startup",
    "setup",
    "concurrency",
    "sqlite",
    "postgres",
    "long_sessions",
    "engines",
    "idle",
    "query",
    "agent",
    "servers",
    "stdio",
    "gateway",
    "subscribers",
)


def main() -> int:
    """Run the chosen sections, each imported only then; 1 when a promise is not kept."""
    parser = argparse.ArgumentParser(description="Measure toolcrib beside its peers.")
    parser.add_argument("--quick", action="store_true", help="fewer rounds, rougher numbers")
    parser.add_argument("sections", nargs="*", metavar="section", help=", ".join(SECTIONS))
    chosen = parser.parse_args()
    unknown = sorted(set(chosen.sections) - set(SECTIONS))
    if unknown:
        parser.error(f"no section {', '.join(unknown)}; there are {', '.join(SECTIONS)}")
    silence()
    print(f"Python {platform.python_version()}, {versions()}")
    # The rates of wall time (concurrency, sqlite) mean little on a machine that is busy otherwise.
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores at the start")
    bounds: list[Bound] = []
    for name in chosen.sections or SECTIONS:
        run = cast("Callable[[bool], list[Bound]]", importlib.import_module(name).run)
        bounds += run(chosen.quick)
    return 0 if verdict(bounds) else 1


if __name__ == "__main__":
    raise SystemExit(main())

"""Shorten what pip prints to a line for each step: python -m pip install ... | python pip_steps.py

Errors and warnings pass unchanged. What pip repeats about packages that are there already is left
out.
"""

import re
import sys
from collections.abc import Iterable, Iterator

_PACKAGE = re.compile(r"(?:Collecting|Processing) \S")
_SIZE = re.compile(r"\s+(?:Downloading|Using cached) (\S+) \(([\d.]+ [kMG]B)\)")
_SILENT = (
    "  ",
    "Checking ",
    "Getting requirements ",
    "Installing build dependencies",
    "Looking in ",
    "Successfully built ",
    # Of indexes that are folders.
    "WARNING: Location ",
    "Obtaining ",
    "Preparing ",
    "Requirement already ",
    "Building ",
    "Created wheel",
    "Stored in ",
    "Uninstalling ",
    "Found existing ",
    "Attempting uninstall",
)
_MANY = 10


def steps(lines: Iterable[str]) -> Iterator[str]:
    """The lines that tell a person what goes on, one for every ten packages."""
    count = 0
    for line in lines:
        if _PACKAGE.match(line):
            count += 1
            if count % _MANY == 1:
                yield f"   fetching packages {count} to {count + _MANY - 1}"
        elif size := _SIZE.match(line):
            if size[2].endswith("MB") and float(size[2].split()[0]) >= _MANY:
                yield f"   {size[1].split('-')[0]}, {size[2]}"
        elif line.startswith("Installing collected packages"):
            yield f"   unpacking {line.count(',') + 1} packages"
        elif line.startswith("Successfully installed"):
            yield f"   installed {len(line.split()) - 2} packages"
        elif line.strip() and not line.startswith(_SILENT):
            yield line.rstrip("\n")


def main() -> None:
    for step in steps(sys.stdin):
        print(step, flush=True)


if __name__ == "__main__":
    main()

"""Draw mutants at random, always the same ones: names of those that mutmut has made, one a line."""

from __future__ import annotations

import json
import random
import sys
from fnmatch import fnmatch
from pathlib import Path

SEED = 20_26


def names(folder: Path) -> list[str]:
    """The name of every mutant below `folder`, in order."""
    found = [
        name
        for meta in folder.rglob("*.meta")
        for name in json.loads(meta.read_text("utf-8"))["exit_code_by_key"]
    ]
    return sorted(found)


def sample(found: list[str], size: int, patterns: list[str]) -> list[str]:
    """`size` of those that fit one of the patterns; all when there are no more."""
    fitting = [name for name in found if not patterns or any(fnmatch(name, p) for p in patterns)]
    return random.Random(SEED).sample(fitting, min(size, len(fitting)))


if __name__ == "__main__":
    print(*sample(names(Path("mutants")), int(sys.argv[1]), sys.argv[2:]), sep="\n")

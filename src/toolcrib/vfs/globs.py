"""Globs of host mounts, over the names of a relative path.

Policies have a stricter glob language, in `toolcrib.approval.globs`, which says why.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache


def glob_matches(pattern: str, names: Sequence[str]) -> bool:
    """Whether the pattern matches the path made of these names.

    `*`, `?` and `[...]` match within one name; `**` matches any number of directories. A pattern
    without a slash matches at any depth, and one that ends in a slash matches everything inside.
    """
    parts = _parts(pattern)
    # All places in the pattern at once: trying one after the other could take for ever.
    reached = _skipping(parts, {0})
    for name in names:
        reached = _skipping(parts, _advanced(parts, reached, name))
    return len(parts) in reached


def _advanced(parts: Sequence[str], reached: Iterable[int], name: str) -> set[int]:
    here = [at for at in reached if at < len(parts)]
    stays = {at for at in here if parts[at] == "**"}
    return stays | {at + 1 for at in here if at not in stays and fnmatchcase(name, parts[at])}


def _skipping(parts: Sequence[str], reached: Iterable[int]) -> set[int]:
    """Return the positions reached when `**` may also match nothing."""
    positions: set[int] = set()
    for start in reached:
        at = start
        positions.add(at)
        while at < len(parts) and parts[at] == "**":
            at += 1
            positions.add(at)
    return positions


@lru_cache(maxsize=256)
def _parts(pattern: str) -> tuple[str, ...]:
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    if "/" not in pattern.rstrip("/"):
        parts.insert(0, "**")
    if pattern.endswith("/"):
        parts += ["**", "*"]
    return tuple(parts)

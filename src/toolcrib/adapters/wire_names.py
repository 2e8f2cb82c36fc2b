"""Names that a provider takes, derived from tools' own where those are too wide."""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import sha256

_TAKEN = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def wire_names(names: Iterable[str]) -> dict[str, str]:
    """A wire name for each tool name, unique among them. Most names are their own."""
    plain = list(names)
    own = {name for name in plain if _TAKEN.fullmatch(name)}
    derived: dict[str, str] = {}
    for name in plain:
        derived[name] = name if name in own else _derive(name, own)
    return derived


def _derive(name: str, own: set[str]) -> str:
    stem = re.sub(r"[^a-zA-Z0-9_-]", "_", name)
    if len(stem) <= 64 and stem not in own:
        own.add(stem)
        return stem
    # The digest tells apart what becomes the same when it is cut or cleaned.
    suffix = sha256(name.encode()).hexdigest()[:8]
    unique = f"{stem[:55]}_{suffix}"
    own.add(unique)
    return unique

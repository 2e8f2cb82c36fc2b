"""Which processes of a trial are still there."""

from contextlib import suppress
from pathlib import Path


def survivors(token: str) -> list[int]:
    """The processes outside of this one that have the token among their arguments."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                if token.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
    return found

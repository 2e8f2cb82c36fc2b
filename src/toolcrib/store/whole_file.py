"""A file that appears under its name only when it is whole, and never in place of another.

Only its owner may read it. What a killed process left is erased by the next one.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from toolcrib.errors import StoreError
from toolcrib.store.sqlite_schema import sync_folder

T = TypeVar("T")


def write_whole(target: Path, write: Callable[[Path], T]) -> T:
    """Let `write` fill a file beside the target, and give it the target's name once it is whole.
    Raises `StoreError` when there is such a file already, or it cannot be written.
    """
    if target.exists():
        raise StoreError(f"{target} is there already; nothing is overwritten, give another path")
    _erase_leftovers(target)
    try:
        with _partial_file(target) as partial:
            facts = write(partial)
            _sync(partial)
            # Unlike a rename, a link never takes the place of a file that came meanwhile.
            os.link(partial, target)
    except FileExistsError:
        raise StoreError(f"{target} is there already; nothing is overwritten") from None
    except OSError as error:
        raise StoreError(f"{target} cannot be written: {error.strerror}") from error
    sync_folder(target.absolute().parent)
    return facts


@contextmanager
def _partial_file(target: Path) -> Generator[Path]:
    """A new owner-only file, erased in the end and locked for as long as this process lives."""
    partial = target.with_name(f".{target.name}.{secrets.token_hex(4)}.partial")
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    descriptor = os.open(partial, flags, 0o600)
    try:
        os.fchmod(descriptor, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield partial
    finally:
        for leftover in (partial, Path(f"{partial}-journal"), Path(f"{partial}-wal")):
            leftover.unlink(missing_ok=True)
        os.close(descriptor)


def _erase_leftovers(target: Path) -> None:
    """Erase what killed processes left; what a living one writes is locked."""
    for leftover in target.absolute().parent.glob(f".{_escaped(target.name)}.*.partial"):
        with suppress(OSError):
            descriptor = os.open(leftover, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                leftover.unlink()
                Path(f"{leftover}-journal").unlink(missing_ok=True)
            finally:
                os.close(descriptor)


def _escaped(name: str) -> str:
    return re.sub(r"([*?\[])", r"[\1]", name)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

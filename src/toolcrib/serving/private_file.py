"""Files with secrets, or with what is kept of them: only their user may read them, a change
replaces them in one step, and processes that change one at once take turns.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from toolcrib.errors import UsageError

_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO

Stamp = tuple[int, ...]


def private_text(path: Path, what: str) -> str:
    """The text of a file that only this user can read. Raises `UsageError` otherwise."""
    try:
        # A symbolic link could lead to a file that another user chose.
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise UsageError(f"the {what} {path} cannot be read: {error.strerror}") from None
    with os.fdopen(handle, encoding="utf-8", errors="replace") as file:
        facts = os.fstat(file.fileno())
        if not stat.S_ISREG(facts.st_mode) or facts.st_uid != os.geteuid():
            raise UsageError(f"the {what} {path} must be a regular file of the current user")
        if facts.st_mode & _OTHERS:
            raise UsageError(f"other users may read the {what} {path}; run: chmod 600 {path}")
        return file.read()


@contextmanager
def locked(path: Path) -> Generator[None]:
    """Keep other processes from changing a file meanwhile; its folder is made if it is missing."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = path.with_name(f"{path.name}.lock")
    handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def replace_json(path: Path, content: dict[str, Any], *, is_lasting: bool = True) -> None:
    """Replace a file by JSON, in one step. What `is_lasting` is on the disk then: it does not come
    undone when the power fails.
    """
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            json.dump(content, file, indent=2)
            file.write("\n")
            file.flush()
            if is_lasting:
                os.fsync(file.fileno())
        os.replace(draft, path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    if is_lasting:
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def stamp_of(path: Path) -> Stamp | None:
    """What changes when a file does; None when there is none. It takes a microsecond."""
    try:
        facts = os.stat(path, follow_symlinks=False)
    except OSError:
        return None
    return facts.st_ino, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_size

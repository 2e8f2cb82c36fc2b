"""A directory that a tool is confined to, for files that a model names.

Every step of a path is opened relative to the directory before it, without following links, so
that neither a link nor a directory swapped at the last moment leads out of the root.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

OPEN_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Non-blocking: opening a pipe that took the place of a file must not wait for a writer.
_OPEN_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class FileSnapshot:
    """The content of a file and its status at the time it was read."""

    data: bytes
    status: os.stat_result


@dataclass(frozen=True, slots=True)
class RootDirectory:
    """Opens directories below `path`. New directories get `mode`."""

    path: str
    mode: int = 0o777

    @contextmanager
    def open(self, names: Sequence[str] = (), *, create: bool = False) -> Generator[int]:
        """Yield a descriptor of the directory at `names`, which is created on request.

        Raises `OSError`: `ELOOP` or `ENOTDIR` where a name is a link or no directory.
        """
        # The root is the application's own choice and may be a link.
        descriptor = os.open(self.path, OPEN_DIRECTORY & ~os.O_NOFOLLOW)
        try:
            for name in names:
                descriptor = self._step(descriptor, name, create)
            yield descriptor
        finally:
            os.close(descriptor)

    def _step(self, parent: int, name: str, create: bool) -> int:
        """Open the directory `name` and close its parent."""
        if create:
            with suppress(FileExistsError):
                os.mkdir(name, self.mode, dir_fd=parent)
        child = os.open(name, OPEN_DIRECTORY, dir_fd=parent)
        os.close(parent)
        return child


def status_of(parent: int, name: str) -> os.stat_result:
    """Return the status of a name itself, also when it is a link."""
    return os.stat(name, dir_fd=parent, follow_symlinks=False)


def read_file(parent: int, name: str, max_bytes: int) -> FileSnapshot:
    """Read a regular file, or its first `max_bytes`. Raises `OSError`, `EISDIR` for anything but
    a regular file.
    """
    descriptor = os.open(name, _OPEN_FILE, dir_fd=parent)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EISDIR, "not a regular file")
        with open(descriptor, "rb", closefd=False) as file:
            return FileSnapshot(file.read(max_bytes), status)
    finally:
        os.close(descriptor)


@contextmanager
def temporary_file(
    parent: int, data: bytes, *, mode: int = 0o600, like: os.stat_result | None = None
) -> Generator[str]:
    """Write a complete file beside the one it will become, and yield its name.

    It is deleted afterwards unless it was renamed. With `like`, it gets the owner and the mode of
    that status.
    """
    name = f".toolcrib-{secrets.token_hex(8)}"
    descriptor = os.open(name, _NEW_FILE, 0o600 if like is not None else mode, dir_fd=parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if like is not None:
                with suppress(PermissionError):
                    os.fchown(descriptor, like.st_uid, like.st_gid)
                os.fchmod(descriptor, stat.S_IMODE(like.st_mode))
            os.fsync(descriptor)
        yield name
    finally:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=parent)

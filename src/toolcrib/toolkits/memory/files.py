"""The files of the memories: bounded in size and number, and confined to one root directory."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from toolcrib.toolkits.memory.types import MemoryConfig
from toolcrib.toolkits.root_directory import (
    OPEN_DIRECTORY,
    RootDirectory,
    read_file,
    status_of,
    temporary_file,
)

Names = tuple[str, ...]
"""A path below the root; the root itself is empty."""


@dataclass(frozen=True, slots=True)
class MemoryEntry:
    """A file or a directory, named relative to the listed directory."""

    name: str
    size: int
    is_directory: bool


@dataclass(frozen=True, slots=True)
class MemoryFiles:
    """Reads and changes regular files under the root. A file changes as a whole or not at all.

    Raises `OSError`: `EFBIG` for a file that is too large, `EDQUOT` when the memories are full.
    """

    config: MemoryConfig

    def is_directory(self, names: Names) -> bool:
        """Whether the path is a directory. Raises when it does not exist."""
        if not names:
            return True
        with self._parent(names) as parent:
            return stat.S_ISDIR(status_of(parent, names[-1]).st_mode)

    def size(self, names: Names) -> int:
        """Return the size that the system reports for a directory."""
        with self._directory(names) as here:
            return os.fstat(here).st_size

    def entries(self, names: Names, depth: int) -> list[MemoryEntry]:
        """Return the entries down to `depth` levels, without hidden names and links."""
        with self._directory(names) as here:
            return list(_entries(here, "", depth))

    def read(self, names: Names) -> bytes:
        """Read a file. Reads one byte more than allowed, since the file may grow meanwhile."""
        with self._parent(names) as parent:
            data = read_file(parent, names[-1], self.config.max_bytes + 1).data
        self._check_size(data)
        return data

    def create(self, names: Names, data: bytes) -> None:
        """Write a new file, and the directories that it needs."""
        self._check_size(data)
        self._check_room(len(data), entries=self._missing(names))
        with self._parent(names, create=True) as parent, temporary_file(parent, data) as temporary:
            # A link, unlike a rename, never replaces what is there already.
            os.link(
                temporary, names[-1], src_dir_fd=parent, dst_dir_fd=parent, follow_symlinks=False
            )

    def replace(self, names: Names, old: bytes, new: bytes) -> None:
        """Replace a file that still has the content `old`."""
        self._check_size(new)
        self._check_room(len(new) - len(old), entries=0)
        with self._parent(names) as parent, temporary_file(parent, new) as temporary:
            if self.read(names) != old:
                raise OSError(errno.EBUSY, "it has changed since it was read")
            os.rename(temporary, names[-1], src_dir_fd=parent, dst_dir_fd=parent)

    def delete(self, names: Names) -> None:
        """Delete a file, or a directory with its content."""
        with self._parent(names) as parent:
            if stat.S_ISDIR(status_of(parent, names[-1]).st_mode):
                shutil.rmtree(names[-1], dir_fd=parent)
            else:
                os.unlink(names[-1], dir_fd=parent)

    def rename(self, old: Names, new: Names) -> None:
        """Move a file or a directory. Never replaces an existing entry."""
        with self._parent(old) as source:
            is_directory = stat.S_ISDIR(status_of(source, old[-1]).st_mode)
            if new[: len(old)] == old and is_directory:
                raise OSError(errno.EINVAL, "a directory cannot be moved into itself")
            self._check_room(0, entries=self._missing(new[:-1]))
            with self._parent(new, create=True) as target:
                if is_directory:
                    _move_directory(source, old[-1], target, new[-1])
                else:
                    _move_file(source, old[-1], target, new[-1])

    @contextmanager
    def _parent(self, names: Names, *, create: bool = False) -> Generator[int]:
        with self._directory(names[:-1], create=create) as here:
            yield here

    @contextmanager
    def _directory(self, names: Names, *, create: bool = False) -> Generator[int]:
        """Yield a descriptor of the directory at `names`."""
        os.makedirs(self.config.root, mode=0o700, exist_ok=True)
        with RootDirectory(self.config.root, mode=0o700).open(names, create=create) as descriptor:
            yield descriptor

    def _check_size(self, data: bytes) -> None:
        if len(data) > self.config.max_bytes:
            raise OSError(errno.EFBIG, f"a file has at most {self.config.max_bytes} bytes")

    def _missing(self, names: Names) -> int:
        """Return how many names of a path do not exist yet."""
        for length in range(1, len(names) + 1):
            try:
                with self._parent(names[:length]) as parent:
                    status_of(parent, names[length - 1])
            except FileNotFoundError:
                return len(names) - length + 1
        return 0

    def _check_room(self, more: int, *, entries: int) -> None:
        """Refuse a change that would exceed the limits."""
        with self._directory(()) as root:
            count, total = _extent(root, self.config.max_entries)
        if entries and count + entries > self.config.max_entries:
            raise OSError(errno.EDQUOT, f"there are at most {self.config.max_entries} entries")
        if more > 0 and total + more > self.config.max_total_bytes:
            most = self.config.max_total_bytes
            raise OSError(errno.EDQUOT, f"all files together have at most {most} bytes")


def _entries(here: int, prefix: str, depth: int) -> Iterator[MemoryEntry]:
    for name in sorted(os.listdir(here)):
        with suppress(FileNotFoundError):
            facts = status_of(here, name)
            is_directory = stat.S_ISDIR(facts.st_mode)
            if name.startswith(".") or not (is_directory or stat.S_ISREG(facts.st_mode)):
                continue
            yield MemoryEntry(f"{prefix}{name}", facts.st_size, is_directory)
            if is_directory and depth > 1:
                below = os.open(name, OPEN_DIRECTORY, dir_fd=here)
                try:
                    yield from _entries(below, f"{prefix}{name}/", depth - 1)
                finally:
                    os.close(below)


def _extent(root: int, most: int) -> tuple[int, int]:
    """Return the number of entries and the bytes of all files; stops above `most` entries."""
    count, total = 0, 0
    for _, folders, files, here in os.fwalk(".", dir_fd=root):
        count += len(folders) + len(files)
        for name in files:
            with suppress(FileNotFoundError):
                total += status_of(here, name).st_size
        if count > most:
            break
    return count, total


def _move_file(source: int, old: str, target: int, new: str) -> None:
    os.link(old, new, src_dir_fd=source, dst_dir_fd=target, follow_symlinks=False)
    os.unlink(old, dir_fd=source)


def _move_directory(source: int, old: str, target: int, new: str) -> None:
    with suppress(FileNotFoundError):
        status_of(target, new)
        raise FileExistsError(errno.EEXIST, "it exists already")
    os.rename(old, new, src_dir_fd=source, dst_dir_fd=target)

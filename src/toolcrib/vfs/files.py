"""The files that a mount shows: listed under the allowed roots, and opened without following links.

A directory may be swapped for a link between listing and opening. So a file is opened step by step
from its root, and must still be the one that was listed.

A mount's globs match the names of a relative path. Policies have a stricter glob language, in
`toolcrib.approval.globs`, which says why.
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from io import BufferedReader
from pathlib import Path
from typing import Final, TypeAlias

from toolcrib.errors import UsageError
from toolcrib.vfs.mount import HostMount
from toolcrib.vfs.roots import HostPath, find_host_path, real_root, resolved_path


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


logger = logging.getLogger(__name__)

MOST_ENTRIES: Final = 100_000
"""A mount with more entries is refused as a mistake."""

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Not to block on a pipe that has taken the place of a file.
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

_Identity: TypeAlias = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class HostFile:
    """A regular file of the host. `name` is its path below the mount, with slashes."""

    name: str
    place: HostPath
    identity: _Identity

    @property
    def size(self) -> int:
        """The size in bytes when it was listed."""
        return self.identity[2]

    def open(self) -> BufferedReader:
        """Open the file for reading. Raises `UsageError` when it is no longer the file that was
        listed.
        """
        try:
            descriptor = _opened(self.place)
        except OSError as error:
            raise UsageError(f"{self.name!r} cannot be read: {error.strerror}") from error
        if _identity(os.fstat(descriptor)) != self.identity:
            os.close(descriptor)
            raise UsageError(f"{self.name!r} has changed since it was listed; try again")
        return os.fdopen(descriptor, "rb")

    def is_unchanged(self, opened: BufferedReader) -> bool:
        """Whether the file has not changed since it was listed."""
        return _identity(os.fstat(opened.fileno())) == self.identity


def mounted_files(mount: HostMount, roots: Sequence[Path]) -> tuple[HostFile, ...]:
    """Return the files of a mount, sorted by name.

    Links are skipped unless the mount follows them; links that lead out of the roots are always
    skipped, as is everything that is neither a directory nor a regular file.
    """
    files: list[HostFile] = []
    total = 0
    for file in _Walk(mount, roots).files():
        total += file.size
        if mount.max_bytes is not None and total > mount.max_bytes:
            raise UsageError(
                f"host mount {mount.host_path!r}: {file.name!r} ({file.size} bytes) would bring it "
                f"to {total} bytes, and max_bytes is {mount.max_bytes}; narrow include_glob, "
                "exclude it, or allow more"
            )
        files.append(file)
    return tuple(files)


@dataclass(frozen=True, slots=True)
class _Step:
    names: tuple[str, ...]
    place: HostPath
    above: tuple[tuple[int, int], ...] = ()
    """The directories above, by device and inode: a link may lead back to one of them."""


class _Walk:
    """Walks one mount."""

    def __init__(self, mount: HostMount, roots: Sequence[Path]) -> None:
        self._mount = mount
        self._roots = [real_root(root) for root in roots]
        self._start = find_host_path(mount.host_path, roots, follow_symlinks=mount.follow_symlinks)
        self._seen = 0

    def files(self) -> Iterator[HostFile]:
        start = self._start
        names = () if start.path.is_dir() else start.names[-1:]
        todo = [_Step(names, start)]
        while todo:
            step = todo.pop()
            facts = self._facts(step)
            if stat.S_ISDIR(facts.st_mode):
                # Backwards, because the last one is taken first.
                todo += reversed(self._children(step, facts))
            elif stat.S_ISREG(facts.st_mode) and self._is_wanted(step.names):
                yield HostFile("/".join(step.names), step.place, _identity(facts))

    def _facts(self, step: _Step) -> os.stat_result:
        try:
            return os.lstat(step.place.path)
        except OSError as error:
            raise self._unreadable(step.names, error) from error

    def _children(self, step: _Step, facts: os.stat_result) -> list[_Step]:
        here = (facts.st_dev, facts.st_ino)
        if here in step.above:
            return []
        try:
            listed = sorted(os.listdir(step.place.path))
        except OSError as error:
            raise self._unreadable(step.names, error) from error
        self._count(len(listed))
        inside = [(name, (*step.names, name)) for name in listed]
        places = [
            (names, self._place(step.place.child(name)))
            for name, names in inside
            if not self._is_excluded(names)
        ]
        above = (*step.above, here)
        return [_Step(names, place, above) for names, place in places if place is not None]

    def _place(self, place: HostPath) -> HostPath | None:
        path = place.path
        if not os.path.islink(path):
            return place
        if not self._mount.follow_symlinks:
            return None
        target = resolved_path(path, self._roots)
        if target is None:
            logger.warning("passed over %s: the link leads out of the allowed roots", path)
        return target

    def _is_wanted(self, names: tuple[str, ...]) -> bool:
        globs = self._mount.include_glob
        is_included = not globs or any(glob_matches(glob, names) for glob in globs)
        return is_included and not self._is_excluded(names)

    def _is_excluded(self, names: tuple[str, ...]) -> bool:
        return any(glob_matches(glob, names) for glob in self._mount.exclude_glob)

    def _count(self, entries: int) -> None:
        self._seen += entries
        if self._seen > MOST_ENTRIES:
            raise UsageError(
                f"host mount {self._mount.host_path!r} has more than {MOST_ENTRIES} entries; mount "
                "a smaller folder, or leave out parts of it with exclude_glob"
            )

    def _unreadable(self, names: tuple[str, ...], error: OSError) -> UsageError:
        name = "/".join(names) or "."
        return UsageError(
            f"host mount {self._mount.host_path!r}: {name!r} cannot be read: {error.strerror}"
        )


def _opened(place: HostPath) -> int:
    *folders, name = place.names
    here = os.open(place.root, _FOLDER)
    try:
        for folder in folders:
            following = os.open(folder, _FOLDER, dir_fd=here)
            os.close(here)
            here = following
        return os.open(name, _FILE, dir_fd=here)
    finally:
        os.close(here)


def _identity(facts: os.stat_result) -> _Identity:
    return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns

"""The one directory that a sandboxed command may write to, and safe access to its files.

The command may be running, and may have put links in place of files. Every part of a path is
opened relative to its parent without child links, so that nothing outside the directory is
read or written. The directory is removed however deep, locked or full of links it is.
"""

from __future__ import annotations

import errno
import logging
import os
import secrets
import stat
import tempfile
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path, PurePosixPath
from typing import Final

from toolcrib.errors import UsageError
from toolcrib.sandbox.command import is_mountable
from toolcrib.sandbox.process_tree import unlinked_files

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_tree(path: Path) -> None:
    """Remove a directory with its contents, without child links and without recursion: a
    command may have nested folders deeper than any stack.
    """
    os.chmod(path, 0o700)
    root = os.open(path, _DIRECTORY)
    numbers = count()
    try:
        while names := os.listdir(root):
            for name in names:
                _remove(root, name, numbers)
    finally:
        os.close(root)
    path.rmdir()


def _remove(root: int, name: str, numbers: count[int]) -> None:
    if not stat.S_ISDIR(os.stat(name, dir_fd=root, follow_symlinks=False).st_mode):
        os.unlink(name, dir_fd=root)
        return
    folder = _unlocked(root, name)
    try:
        for inner in os.listdir(folder):
            if stat.S_ISDIR(os.stat(inner, dir_fd=folder, follow_symlinks=False).st_mode):
                os.close(_unlocked(folder, inner))
                os.rename(inner, _free(root, numbers), src_dir_fd=folder, dst_dir_fd=root)
            else:
                os.unlink(inner, dir_fd=folder)
    finally:
        os.close(folder)
    os.rmdir(name, dir_fd=root)


def _unlocked(parent: int, name: str) -> int:
    os.chmod(name, 0o700, dir_fd=parent)
    return os.open(name, _DIRECTORY, dir_fd=parent)


def _free(root: int, numbers: count[int]) -> str:
    """A name that does not exist in the root."""
    while True:
        name = f".removed-{next(numbers)}"
        try:
            os.stat(name, dir_fd=root, follow_symlinks=False)
        except FileNotFoundError:
            return name


logger = logging.getLogger(__name__)

MAX_ENTRIES: Final = 100_000
"""The maximum number of entries that are counted; a directory with more counts as full."""
MAX_DEPTH: Final = 64
"""The maximum depth of nested folders."""
UNCOUNTED: Final = 2**63
FIRST_USER: Final = 0x6000_0000
USERS: Final = 0x1000_0000
"""The users that root runs commands as."""
# Non-blocking, in case the file is a pipe.
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_HANDLE: Final = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_SET_IDS: Final = stat.S_ISUID | stat.S_ISGID
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class WorkFile:
    """A regular file; `name` is its path below the work directory, with slashes."""

    name: str
    size: int
    modified_at: float


@dataclass(frozen=True, slots=True)
class WorkDirectory:
    """A directory of this program in which sandboxed commands work, one after another."""

    path: Path

    @classmethod
    def at(cls, path: Path | str) -> WorkDirectory:
        """The work directory at a path, created with access for its owner only if it is missing.
        Commands may change everything in it, so the home directory and the system's folders are
        refused.
        """
        path = Path(path).resolve()
        if not is_mountable(PurePosixPath(path)) or Path.home().resolve().is_relative_to(path):
            raise UsageError(f"{str(path)!r} cannot be a work directory; name a folder of its own")
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        return cls(path)

    @classmethod
    @contextmanager
    def temporary(cls) -> Generator[WorkDirectory]:
        """A new work directory that is removed after the block."""
        work = cls(Path(tempfile.mkdtemp(prefix="toolcrib-")).resolve())
        try:
            yield work
        finally:
            work.remove()

    def write(self, name: str, data: bytes) -> None:
        """Write a file, in place of any entry of that name."""
        *folders, last = _names(name)
        with self._inside(folders, make=True) as parent:
            new = f".{last[:200]}.{secrets.token_hex(4)}"
            descriptor = os.open(new, _NEW, 0o600, dir_fd=parent)
            with os.fdopen(descriptor, "wb") as file:
                self._give(descriptor)
                file.write(data)
            try:
                os.replace(new, last, src_dir_fd=parent, dst_dir_fd=parent)
            except OSError:
                os.unlink(new, dir_fd=parent)
                raise

    def read(self, name: str, limit: int) -> bytes:
        """The bytes of a regular file. Raises `OSError`: `ELOOP` for a link, `EFBIG` for more than
        `limit` bytes.
        """
        *folders, last = _names(name)
        with self._inside(folders) as parent:
            descriptor = os.open(last, _READ, dir_fd=parent)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(errno.EINVAL, "is not a regular file", name)
            data = file.read(limit + 1)
        if len(data) > limit:
            raise OSError(errno.EFBIG, f"has more than {limit} bytes", name)
        return data

    def delete(self, name: str) -> None:
        """Remove a file or a link, never the target of a link."""
        *folders, last = _names(name)
        with self._inside(folders) as parent:
            os.unlink(last, dir_fd=parent)

    def files(self) -> tuple[WorkFile, ...]:
        """Every regular file, by name. Links, pipes and other special files are skipped, and so
        are folders that are locked or nested too deep.
        """
        files = [
            WorkFile("/".join(entry.names), entry.facts.st_size, entry.facts.st_mtime)
            for entry in self._entries(is_strict=False)
            if stat.S_ISREG(entry.facts.st_mode)
        ]
        return tuple(sorted(files, key=lambda file: file.name))

    def used_bytes(self) -> int:
        """The size on disk; `UNCOUNTED` when it cannot be counted."""
        total = 0
        try:
            for count, entry in enumerate(self._entries(is_strict=True), start=1):
                total += entry.facts.st_blocks * 512
                if count > MAX_ENTRIES:
                    return UNCOUNTED
        except OSError:
            return UNCOUNTED
        return total

    def command_user(self) -> int | None:
        """The user that commands of this directory run as, to whom it is given; None when that is
        this program's own user. Root runs the commands of every directory as a user that nothing
        else on the machine has: the kernel counts processes by user, and exempts root.
        """
        if os.geteuid() != 0:
            return None
        user = os.stat(self.path).st_uid
        if not FIRST_USER <= user < FIRST_USER + USERS:
            user = FIRST_USER + secrets.randbelow(USERS)
            self.give_to(user)
        return user

    def mode(self) -> int:
        """Who may enter it."""
        return stat.S_IMODE(os.stat(self.path).st_mode)

    def close_again(self, mode: int, *, clears_set_ids: bool) -> None:
        """After a command: let nobody else in than before it, and with `clears_set_ids` take from
        every file the mark to run as its owner or group.
        """
        with suppress(FileNotFoundError):
            os.chmod(self.path, mode & ~_SET_IDS)
            if clears_set_ids:
                self._clear_set_ids()

    def _clear_set_ids(self) -> None:
        for entry in self._entries(is_strict=False):
            mode = entry.facts.st_mode
            if mode & _SET_IDS and not stat.S_ISLNK(mode):
                with suppress(OSError):
                    # By descriptor, so that a link put in its place is not followed.
                    descriptor = os.open(entry.names[-1], _HANDLE, dir_fd=entry.folder)
                    try:
                        os.chmod(f"/proc/self/fd/{descriptor}", stat.S_IMODE(mode) & ~_SET_IDS)
                    finally:
                        os.close(descriptor)

    def give_to(self, owner: int) -> None:
        """Change the owner of everything in it. Only root can."""
        os.chown(self.path, owner, owner, follow_symlinks=False)
        for entry in self._entries(is_strict=True):
            os.chown(entry.names[-1], owner, owner, dir_fd=entry.folder, follow_symlinks=False)

    def remove(self) -> None:
        """Remove it with its contents. A failure is logged, and the rest stays."""
        try:
            remove_tree(self.path)
        except FileNotFoundError:
            return
        except OSError as error:
            logger.warning("%s could not be removed: %s", self.path, error.strerror)

    def _give(self, descriptor: int) -> None:
        """Give a new entry to the owner of the directory."""
        if os.geteuid() == 0:
            owner = os.stat(self.path, follow_symlinks=False)
            os.fchown(descriptor, owner.st_uid, owner.st_gid)

    @contextmanager
    def _inside(self, folders: list[str], *, make: bool = False) -> Generator[int]:
        here = os.open(self.path, _DIRECTORY)
        try:
            for folder in folders:
                child = self._step(here, folder, make)
                os.close(here)
                here = child
            yield here
        finally:
            os.close(here)

    def _step(self, here: int, folder: str, make: bool) -> int:
        is_new = False
        if make:
            with suppress(FileExistsError):
                os.mkdir(folder, 0o700, dir_fd=here)
                is_new = True
        child = os.open(folder, _DIRECTORY, dir_fd=here)
        if is_new:
            self._give(child)
        return child

    def _entries(self, *, is_strict: bool) -> Iterator[_Entry]:
        """All entries. A folder that cannot be read is an error (`is_strict`) or is skipped."""
        folders: list[tuple[str, ...]] = [()]
        while folders:
            folder = folders.pop()
            try:
                for entry in self._within(folder):
                    yield entry
                    if stat.S_ISDIR(entry.facts.st_mode):
                        folders.append(entry.names)
            except (FileNotFoundError, NotADirectoryError):
                # A running command has just removed or replaced it.
                continue
            except OSError:
                if is_strict:
                    raise

    def _within(self, folder: tuple[str, ...]) -> Iterator[_Entry]:
        if len(folder) > MAX_DEPTH:
            raise OSError(errno.ENAMETOOLONG, "is nested too deep", "/".join(folder))
        with self._inside(list(folder)) as here, os.scandir(here) as names:
            for found in names:
                with suppress(FileNotFoundError):
                    facts = found.stat(follow_symlinks=False)
                    yield _Entry(here, (*folder, found.name), facts)


@dataclass(frozen=True, slots=True)
class _Entry:
    folder: int
    """The descriptor of its folder, open until the next entry is requested."""
    names: tuple[str, ...]
    facts: os.stat_result


def _names(name: str) -> list[str]:
    names = name.split("/")
    if not all(names) or {".", ".."} & set(names) or "\0" in name:
        raise UsageError(
            f"{name!r} is not a path below the work directory; write it like 'a/b.csv'"
        )
    return names


RECOUNT_SECONDS: Final = 2.0
"""How long the size of a work directory may be an estimate."""


class DiskUsage:
    """The space that a command uses in its work directory.

    Counting takes as long as there are files, so it is done seldom: between two counts the usage
    is the last count and what has gone from the file system since. That is exact while nothing
    else writes to the file system, and too much when something does; a count settles it.
    """

    def __init__(self, work: WorkDirectory, pid: int) -> None:
        self._work = work
        self._pid = pid
        self._counted = 0
        self._free_then: int | None = None
        self._recount_at = 0.0
        self._estimate_until = 0.0

    def exceeds(self, limit: int) -> bool:
        """Whether the command uses more than `limit`."""
        now, free = time.monotonic(), _free_bytes(self._work.path)
        if self._free_then is not None and now < self._recount_at:
            estimate = self._counted + self._free_then - free
            if estimate <= limit or now < self._estimate_until:
                return False
        self._counted = self._work.used_bytes() + self._unlinked_bytes()
        self._free_then = free
        seconds = time.monotonic() - now
        # A busy file system must not keep a processor busy with counting.
        self._estimate_until = now + 2 * seconds
        self._recount_at = now + max(RECOUNT_SECONDS, 10 * seconds)
        return self._counted > limit

    def _unlinked_bytes(self) -> int:
        """The space of files that are open and have no name any more."""
        device = os.stat(self._work.path).st_dev
        files = unlinked_files(self._pid, device)
        return sum({facts.st_ino: facts.st_blocks * 512 for facts in files}.values())


def _free_bytes(path: Path) -> int:
    facts = os.statvfs(path)
    return facts.f_bfree * facts.f_frsize

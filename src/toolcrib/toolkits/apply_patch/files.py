"""The files under one root directory, and nothing outside it.

Every step of a path is opened from the directory before it, without following links, so that
neither a link nor a directory swapped at the last moment leads out of the root.

Carries out one operation on one file under a root.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from toolcrib.errors import PatchFailed, UsageError
from toolcrib.toolkits.apply_patch.hunks import read_hunks, split_lines
from toolcrib.toolkits.apply_patch.placement import apply_diff, text_of_new
from toolcrib.toolkits.apply_patch.types import ApplyPatchConfig, PatchParams, PatchResult
from toolcrib.tools.result import ToolResult
from toolcrib.vfs import VfsPath

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Not to block on a pipe that pretends to be a file.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Found:
    """A file as it was read."""

    data: bytes
    facts: os.stat_result


@dataclass(frozen=True, slots=True)
class RootedFiles:
    """Reads, writes and deletes regular files of at most `max_bytes` under `root`.

    A file is replaced as a whole or not at all. Raises `PatchFailed`.
    """

    root: str
    max_bytes: int
    protected: frozenset[str] = frozenset()
    """Names, in lower case, that no path may have in it."""

    def read(self, path: str) -> Found:
        """The file at `path`."""
        with self._opened(path, create=False) as (parent, name):
            return self._read(parent, name, path)

    def create(self, path: str, data: bytes) -> None:
        """Write a new file, and the directories that it needs."""
        self._check_size(path, len(data))
        with self._opened(path, create=True) as (parent, name), _temporary(parent, data) as made:
            # A link, unlike a rename, never replaces what is there already.
            os.link(made, name, src_dir_fd=parent, dst_dir_fd=parent, follow_symlinks=False)

    def replace(self, path: str, found: Found, data: bytes) -> None:
        """Put `data` in the place of a file that is still as it was `found`."""
        self._check_size(path, len(data))
        with (
            self._opened(path, create=False) as (parent, name),
            _temporary(parent, data, found.facts) as made,
        ):
            self._check_same(parent, name, path, found.facts)
            os.rename(made, name, src_dir_fd=parent, dst_dir_fd=parent)

    def delete(self, path: str) -> None:
        """Delete a file."""
        with self._opened(path, create=False) as (parent, name):
            _check_regular(os.stat(name, dir_fd=parent, follow_symlinks=False), path)
            os.unlink(name, dir_fd=parent)

    @contextmanager
    def _opened(self, path: str, *, create: bool) -> Generator[tuple[int, str]]:
        """The directory of `path`, as an open descriptor, and the last name."""
        *folders, name = self._segments(path)
        here = self._open_root()
        try:
            try:
                for folder in folders:
                    here = _step(here, folder, create)
                yield here, name
            finally:
                os.close(here)
        except OSError as error:
            raise PatchFailed(_said(error, path)) from error

    def _open_root(self) -> int:
        try:
            # The root is the user's own choice and may be a link.
            return os.open(self.root, _DIRECTORY & ~os.O_NOFOLLOW)
        except OSError as error:
            raise PatchFailed(f"the root directory cannot be opened: {error.strerror}") from error

    def _segments(self, path: str) -> tuple[str, ...]:
        if path.startswith("/"):
            raise PatchFailed(f"{path!r} is absolute; name the file relative to the root")
        try:
            segments = VfsPath.parse(path.removeprefix("./")).segments
        except UsageError as error:
            raise PatchFailed(f"{path!r} is not a path inside the root: {error}") from None
        if not segments:
            raise PatchFailed("the path is empty; name a file relative to the root")
        for segment in segments:
            if segment.lower() in self.protected:
                raise PatchFailed(f"{path!r} leads into {segment!r}, which may not be patched")
        return segments

    def _read(self, parent: int, name: str, path: str) -> Found:
        descriptor = os.open(name, _READ, dir_fd=parent)
        try:
            facts = os.fstat(descriptor)
            _check_regular(facts, path)
            with open(descriptor, "rb", closefd=False) as file:
                # One byte more than allowed: the file may grow while it is read.
                data = file.read(self.max_bytes + 1)
        finally:
            os.close(descriptor)
        self._check_size(path, len(data))
        return Found(data, facts)

    def _check_size(self, path: str, size: int) -> None:
        if size > self.max_bytes:
            raise PatchFailed(f"{path!r} has more than {self.max_bytes} bytes, the most allowed")

    def _check_same(self, parent: int, name: str, path: str, facts: os.stat_result) -> None:
        now = os.stat(name, dir_fd=parent, follow_symlinks=False)
        if _identity(now) != _identity(facts):
            raise PatchFailed(f"{path!r} was changed by somebody else meanwhile; read it again")


def _step(here: int, folder: str, create: bool) -> int:
    """Open `folder` and close the directory that it is in."""
    if create:
        with suppress(FileExistsError):
            os.mkdir(folder, dir_fd=here)
    following = os.open(folder, _DIRECTORY, dir_fd=here)
    os.close(here)
    return following


@contextmanager
def _temporary(parent: int, data: bytes, like: os.stat_result | None = None) -> Generator[str]:
    """A complete file beside the one it will become; it is gone afterwards unless renamed."""
    name = f".toolcrib-{secrets.token_hex(8)}"
    descriptor = os.open(name, _NEW, 0o666 if like is None else 0o600, dir_fd=parent)
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


def _check_regular(facts: os.stat_result, path: str) -> None:
    if stat.S_ISLNK(facts.st_mode):
        raise PatchFailed(f"{path!r} is a symbolic link, which is not followed")
    if not stat.S_ISREG(facts.st_mode):
        raise PatchFailed(f"{path!r} is not a file")


def _identity(facts: os.stat_result) -> tuple[int, ...]:
    return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns


def _said(error: OSError, path: str) -> str:
    match error.errno:
        case errno.ENOENT:
            return f"{path!r} does not exist"
        case errno.EEXIST:
            return f"{path!r} exists already; to change it, use update_file"
        case errno.ELOOP | errno.ENOTDIR:
            return f"{path!r} leads through a symbolic link or something that is no directory"
        case _:
            return f"{path!r}: {error.strerror or type(error).__name__}"


class Patcher:
    """The handler of the tool. What cannot be applied is a failed result, and changes nothing."""

    def __init__(self, config: ApplyPatchConfig) -> None:
        self._max_bytes = config.max_bytes
        protected = frozenset(name.lower() for name in config.protected)
        self._files = RootedFiles(config.root, config.max_bytes, protected)

    def __call__(self, params: PatchParams) -> ToolResult[PatchResult]:
        """Apply the patch."""
        try:
            return ToolResult(value=self._run(params))
        except PatchFailed as error:
            return ToolResult(message=f"The patch was not applied: {error}.", success=False)

    def _run(self, params: PatchParams) -> PatchResult:
        match params.operation:
            case "create_file":
                return self._create(params.path, self._diff(params))
            case "update_file":
                return self._update(params.path, self._diff(params))
            case "delete_file":
                self._files.delete(params.path)
                return PatchResult("delete_file", params.path)

    def _diff(self, params: PatchParams) -> str:
        if params.diff is None:
            raise PatchFailed(f"{params.operation} needs a diff")
        try:
            size = len(params.diff.encode())
        except UnicodeEncodeError:
            raise PatchFailed("the diff has characters that cannot be written as UTF-8") from None
        if size > self._max_bytes:
            raise PatchFailed(f"the diff has {size} bytes; the most allowed is {self._max_bytes}")
        return params.diff

    def _create(self, path: str, diff: str) -> PatchResult:
        text = text_of_new(diff)
        self._files.create(path, text.encode())
        return PatchResult("create_file", path, added=len(split_lines(text)[0]))

    def _update(self, path: str, diff: str) -> PatchResult:
        found = self._files.read(path)
        # What is not UTF-8 in the file passes through unchanged.
        text = found.data.decode(errors="surrogateescape")
        changed = apply_diff(text, diff)
        self._files.replace(path, found, changed.encode(errors="surrogateescape"))
        marks = [mark for hunk in read_hunks(diff) for mark, _ in hunk.lines]
        return PatchResult("update_file", path, marks.count("+"), marks.count("-"))

"""The handler of the apply_patch tool, and the files that it may change."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from toolcrib.errors import PatchFailed, UsageError
from toolcrib.toolkits.apply_patch.hunks import read_hunks, split_lines
from toolcrib.toolkits.apply_patch.placement import apply_diff, text_of_new
from toolcrib.toolkits.apply_patch.types import ApplyPatchConfig, PatchParams, PatchResult
from toolcrib.toolkits.root_directory import (
    FileSnapshot,
    RootDirectory,
    read_file,
    status_of,
    temporary_file,
)
from toolcrib.tools.result import ToolResult
from toolcrib.vfs import VfsPath


@dataclass(frozen=True, slots=True)
class PatchFiles:
    """Reads, writes and deletes regular files of at most `max_bytes` under `root`.

    A file is replaced as a whole or not at all. Raises `PatchFailed`.
    """

    root: str
    max_bytes: int
    protected: frozenset[str] = frozenset()
    """Names, in lower case, that no path may contain."""

    def read(self, path: str) -> FileSnapshot:
        """Read the file at `path`."""
        with self._parent(path) as (parent, name):
            # One byte more than allowed: the file may grow while it is read.
            snapshot = read_file(parent, name, self.max_bytes + 1)
        self._check_size(path, len(snapshot.data))
        return snapshot

    def create(self, path: str, data: bytes) -> None:
        """Write a new file, and the directories that it needs."""
        self._check_size(path, len(data))
        with (
            self._parent(path, create=True) as (parent, name),
            temporary_file(parent, data, mode=0o666) as temporary,
        ):
            # A link, unlike a rename, never replaces an existing file.
            os.link(temporary, name, src_dir_fd=parent, dst_dir_fd=parent, follow_symlinks=False)

    def replace(self, path: str, snapshot: FileSnapshot, data: bytes) -> None:
        """Replace the content of a file that has not changed since `snapshot`."""
        self._check_size(path, len(data))
        with (
            self._parent(path) as (parent, name),
            temporary_file(parent, data, like=snapshot.status) as temporary,
        ):
            if _identity(status_of(parent, name)) != _identity(snapshot.status):
                raise PatchFailed(f"{path!r} has changed since it was read; read it again")
            os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)

    def delete(self, path: str) -> None:
        """Delete a file."""
        with self._parent(path) as (parent, name):
            _check_regular(status_of(parent, name), path)
            os.unlink(name, dir_fd=parent)

    @contextmanager
    def _parent(self, path: str, *, create: bool = False) -> Generator[tuple[int, str]]:
        """Yield a descriptor of the directory of `path`, and the last name."""
        *directories, name = self._segments(path)
        try:
            with RootDirectory(self.root).open(directories, create=create) as descriptor:
                yield descriptor, name
        except OSError as error:
            raise PatchFailed(self._explain(error, path)) from error

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

    def _check_size(self, path: str, size: int) -> None:
        if size > self.max_bytes:
            raise PatchFailed(f"{path!r} has more than {self.max_bytes} bytes, the most allowed")

    def _explain(self, error: OSError, path: str) -> str:
        if error.filename == self.root:
            return f"the root directory cannot be opened: {error.strerror}"
        match error.errno:
            case errno.ENOENT:
                return f"{path!r} does not exist"
            case errno.EEXIST:
                return f"{path!r} exists already; to change it, use update_file"
            case errno.EISDIR:
                return f"{path!r} is not a file"
            case errno.ELOOP | errno.ENOTDIR:
                return f"{path!r} leads through a symbolic link or something that is no directory"
            case _:
                return f"{path!r}: {error.strerror or type(error).__name__}"


def _check_regular(status: os.stat_result, path: str) -> None:
    if stat.S_ISLNK(status.st_mode):
        raise PatchFailed(f"{path!r} is a symbolic link, which is not followed")
    if not stat.S_ISREG(status.st_mode):
        raise PatchFailed(f"{path!r} is not a file")


def _identity(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


class PatchHandler:
    """The handler of the tool. A patch that cannot be applied is a failed result and changes
    nothing.
    """

    def __init__(self, config: ApplyPatchConfig) -> None:
        self._max_bytes = config.max_bytes
        protected = frozenset(name.lower() for name in config.protected)
        self._files = PatchFiles(config.root, config.max_bytes, protected)

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
        snapshot = self._files.read(path)
        # Bytes that are not UTF-8 pass through unchanged.
        text = snapshot.data.decode(errors="surrogateescape")
        changed = apply_diff(text, diff)
        self._files.replace(path, snapshot, changed.encode(errors="surrogateescape"))
        marks = [mark for hunk in read_hunks(diff) for mark, _ in hunk.lines]
        return PatchResult("update_file", path, marks.count("+"), marks.count("-"))

"""Virtual paths, host mounts, and the files that were staged from them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath

from toolcrib.errors import UsageError


@dataclass(frozen=True, slots=True)
class VfsPath:
    """An absolute path as its segments. It cannot climb: no segment is `..`.

    `str(VfsPath(("a", "b")))` is `/a/b`; without segments it is the root.
    """

    segments: tuple[str, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.segments, tuple):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError(f"VfsPath.segments must be a tuple of names, not {self.segments!r}")
        for segment in self.segments:
            _check_segment(segment)

    @classmethod
    def parse(cls, text: str) -> VfsPath:
        """Parse a path such as `/a/b`; the leading slash is optional."""
        inner = text.removeprefix("/")
        return cls(tuple(inner.split("/")) if inner else ())

    def __str__(self) -> str:
        return "/" + "/".join(self.segments)


def _check_segment(segment: object) -> None:
    if not isinstance(segment, str) or not _is_name(segment):
        raise UsageError(
            f"VfsPath: {segment!r} is not a name; a segment is not empty, not '.' or '..', and "
            "has no slash, backslash or control character"
        )


def _is_name(segment: str) -> bool:
    is_text = segment.isprintable() and bool(segment.strip())
    return is_text and segment not in (".", "..") and not {"/", "\\"} & set(segment)


@dataclass(frozen=True, slots=True)
class HostMount:
    """A file or directory of the host, and which part of it may be read.

    It grants nothing by itself: the roots that the host allows are checked when the files are read.
    """

    host_path: str
    mount_path: VfsPath | None = None
    """Where the files appear; `None` leaves it to the reader."""
    include_glob: tuple[str, ...] = ()
    """Patterns of files to include; empty means all."""
    exclude_glob: tuple[str, ...] = ()
    max_bytes: int | None = None
    """The most bytes that may be read in total."""
    follow_symlinks: bool = False

    def __post_init__(self) -> None:
        _check_host_path(self.host_path)
        _check_globs("include_glob", self.include_glob)
        _check_globs("exclude_glob", self.exclude_glob)
        _check_max_bytes(self.max_bytes)
        if not isinstance(self.mount_path, VfsPath | None):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError(f"HostMount.mount_path must be a VfsPath, not {self.mount_path!r}")
        if not isinstance(self.follow_symlinks, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError("HostMount.follow_symlinks must be True or False")


def _check_host_path(path: object) -> None:
    if not isinstance(path, str) or not path.strip() or "\0" in path:
        raise UsageError(f"HostMount.host_path must be a path, not {path!r}")
    if ".." in PurePath(path).parts:
        raise UsageError(f"HostMount.host_path: {path!r} climbs with '..'; name the folder itself")


def _check_globs(field: str, globs: object) -> None:
    if not isinstance(globs, tuple):
        raise UsageError(f"HostMount.{field} must be a tuple of patterns, not {globs!r}")
    for glob in globs:  # pyright: ignore[reportUnknownVariableType]
        if not isinstance(glob, str) or not glob:
            raise UsageError(f"HostMount.{field}: {glob!r} is not a pattern like '*.py'")


def _check_max_bytes(limit: object) -> None:
    is_count = isinstance(limit, int) and not isinstance(limit, bool) and limit > 0
    if limit is not None and not is_count:
        raise UsageError(f"HostMount.max_bytes must be a whole number above 0, not {limit!r}")


@dataclass(frozen=True, slots=True)
class StagedFile:
    """The facts about a file staged into a container, without its content."""

    name: str
    """The path in its mount."""
    path: str
    """The path in the container."""
    file_id: str
    size: int
    sha256: str

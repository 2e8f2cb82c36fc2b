"""A path in a virtual file system."""

from __future__ import annotations

from dataclasses import dataclass

from toolcrib.errors import UsageError


@dataclass(frozen=True, slots=True)
class VfsPath:
    """An absolute path, as its segments. It cannot climb: there is no `..` in it.

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
        """Read a path such as `/a/b`; the slash in front may be left out."""
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

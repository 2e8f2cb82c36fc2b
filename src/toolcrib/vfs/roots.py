"""The directories of the host that may be read, and where a path lies below them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from toolcrib.errors import UsageError


@dataclass(frozen=True, slots=True)
class Place:
    """A real place: no name on the way from `root` was a link when it was looked at."""

    root: Path
    names: tuple[str, ...]

    @property
    def path(self) -> Path:
        """The whole path."""
        return self.root.joinpath(*self.names)

    def child(self, name: str) -> Place:
        """The place of a name in this folder."""
        return Place(self.root, (*self.names, name))


def check_roots(roots: Iterable[str | os.PathLike[str]]) -> tuple[Path, ...]:
    """The roots as absolute paths, so that they stay what they are when the program moves on."""
    if isinstance(roots, str | os.PathLike):
        raise UsageError(
            f"host_roots must be a tuple of folders, not {roots!r}; write ({roots!r},)"
        )
    paths = tuple(roots)
    for root in paths:
        if not isinstance(root, str | os.PathLike) or not os.fspath(root):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError(f"host_roots: {root!r} is not the path of a folder")
    return tuple(Path(root).absolute() for root in paths)


def find_place(host_path: str, roots: Sequence[Path], *, follow_symlinks: bool) -> Place:
    """Where a mount's path lies; a relative one is looked for in one root after the other.

    Raises `UsageError` when it lies outside, is missing, or is reached by a link that is not to be
    followed.
    """
    real_roots = [real_root(root) for root in roots]
    inside = [
        candidate
        for root, real in zip(roots, real_roots, strict=True)
        if (candidate := _candidate(host_path, root, real)) is not None
    ]
    for candidate in inside:
        if os.path.lexists(candidate):
            return _checked(host_path, candidate, real_roots, follow_symlinks)
    listed = ", ".join(str(root) for root in roots) or "none"
    if inside:
        raise UsageError(
            f"host mount {host_path!r}: there is no such file or folder in the allowed roots: "
            f"{listed}"
        )
    raise UsageError(
        f"host mount {host_path!r} is outside the allowed roots: {listed}; allow a folder that "
        "holds it with host_roots"
    )


def real_root(root: Path) -> Path:
    """A root without links: it is the host's own choice, so links on the way to it are fine."""
    try:
        real = Path(os.path.realpath(root, strict=True))
    except OSError as error:
        raise UsageError(f"host root {str(root)!r}: {error.strerror}") from error
    if not real.is_dir():
        raise UsageError(f"host root {str(root)!r} is not a folder")
    return real


def real_place(path: Path, real_roots: Sequence[Path]) -> Place | None:
    """Where a path really leads; None when that is outside every root, or nowhere."""
    try:
        real = Path(os.path.realpath(path, strict=True))
    except OSError:
        return None
    for root in real_roots:
        if real.is_relative_to(root):
            return Place(root, real.relative_to(root).parts)
    return None


def _candidate(host_path: str, root: Path, real: Path) -> Path | None:
    """The path below one root; None when it is absolute and lies elsewhere."""
    wanted = Path(host_path)
    if not wanted.is_absolute():
        return real / wanted
    for base in (root, real):
        if wanted.is_relative_to(base):
            return real / wanted.relative_to(base)
    return None


def _checked(
    host_path: str, candidate: Path, real_roots: Sequence[Path], follow_symlinks: bool
) -> Place:
    place = real_place(candidate, real_roots)
    if place is None:
        raise UsageError(
            f"host mount {host_path!r} is a link that leads out of the allowed roots, or nowhere"
        )
    if place.path != candidate and not follow_symlinks:
        raise UsageError(
            f"host mount {host_path!r} leads through a symbolic link; name the place itself, or "
            "set follow_symlinks=True"
        )
    return place

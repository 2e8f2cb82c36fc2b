"""The directories of the host that may be read, and where a path lies below them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from toolcrib.errors import UsageError


@dataclass(frozen=True, slots=True)
class HostPath:
    """A real path: no name below `root` was a link when it was checked."""

    root: Path
    names: tuple[str, ...]

    @property
    def path(self) -> Path:
        """The whole path."""
        return self.root.joinpath(*self.names)

    def child(self, name: str) -> HostPath:
        """Return the path of a name in this directory."""
        return HostPath(self.root, (*self.names, name))


def check_roots(roots: Iterable[str | os.PathLike[str]]) -> tuple[Path, ...]:
    """Return the roots as absolute paths, so that a change of directory does not affect them."""
    if isinstance(roots, str | os.PathLike):
        raise UsageError(
            f"host_roots must be a tuple of folders, not {roots!r}; write ({roots!r},)"
        )
    paths = tuple(roots)
    for root in paths:
        if not isinstance(root, str | os.PathLike) or not os.fspath(root):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError(f"host_roots: {root!r} is not the path of a folder")
    return tuple(Path(root).absolute() for root in paths)


def find_host_path(host_path: str, roots: Sequence[Path], *, follow_symlinks: bool) -> HostPath:
    """Return where the path of a mount lies. A relative path is tried in each root in turn.

    Raises `UsageError` when it lies outside, is missing, or leads through a link that may not be
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
    """Return a root with links resolved: the host chose the root, so links above it are fine."""
    try:
        real = Path(os.path.realpath(root, strict=True))
    except OSError as error:
        raise UsageError(f"host root {str(root)!r}: {error.strerror}") from error
    if not real.is_dir():
        raise UsageError(f"host root {str(root)!r} is not a folder")
    return real


def resolved_path(path: Path, real_roots: Sequence[Path]) -> HostPath | None:
    """Return where a path really leads, or `None` when that is outside every root or nowhere."""
    try:
        real = Path(os.path.realpath(path, strict=True))
    except OSError:
        return None
    for root in real_roots:
        if real.is_relative_to(root):
            return HostPath(root, real.relative_to(root).parts)
    return None


def _candidate(host_path: str, root: Path, real: Path) -> Path | None:
    """Return the path below one root, or `None` when it is absolute and lies elsewhere."""
    wanted = Path(host_path)
    if not wanted.is_absolute():
        return real / wanted
    for base in (root, real):
        if wanted.is_relative_to(base):
            return real / wanted.relative_to(base)
    return None


def _checked(
    host_path: str, candidate: Path, real_roots: Sequence[Path], follow_symlinks: bool
) -> HostPath:
    place = resolved_path(candidate, real_roots)
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

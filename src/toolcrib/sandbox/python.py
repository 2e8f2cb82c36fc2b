"""What a confined Python may read: the interpreter that runs this program, and chosen libraries."""

from __future__ import annotations

import re
import site
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import TYPE_CHECKING, Final

from toolcrib.errors import UsageError

if TYPE_CHECKING:
    from toolcrib.sandbox.command import BackendName

_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class Python:
    """An interpreter for commands, `executable`, and what it needs to see."""

    executable: str
    prefix: tuple[Path, ...]
    """Its own files: the interpreter and the standard library."""
    folders: tuple[Path, ...]
    """Where its libraries lie, with all others that are installed."""
    libraries: tuple[Path, ...]
    """The chosen libraries and what they need."""

    def readable(self, backend: BackendName) -> tuple[Path, ...]:
        """The paths for `Command.readable`. Only bubblewrap can show a folder with some of its
        entries; elsewhere the chosen libraries bring the whole folder.
        """
        shown = self.libraries if backend == "bubblewrap" else self.folders
        return self.prefix + (shown if self.libraries else ())


@cache
def find_python(libraries: tuple[str, ...] = ()) -> Python:
    """This program's interpreter with the libraries of these names, as they are installed under
    (`matplotlib`, `pandas`). Raises `UsageError` for one that is not installed.
    """
    needed: dict[str, Distribution] = {}
    for name in libraries:
        _gather(name, needed)
    pieces = {piece for found in needed.values() for piece in _pieces(found)}
    return Python(
        executable=sys.executable,
        prefix=tuple(_prefix()),
        folders=library_folders(),
        libraries=tuple(sorted(pieces)),
    )


def library_folders() -> tuple[Path, ...]:
    """The folders of this interpreter that libraries are installed in."""
    names = dict.fromkeys(
        (sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *site.getsitepackages())
    )
    return tuple(path for name in names if (path := Path(name)).is_dir())


def _prefix() -> Iterator[Path]:
    base = Path(sys.base_prefix)
    if base.parts[:2] != ("/", "usr"):
        yield base
    if sys.prefix != sys.base_prefix:
        yield Path(sys.prefix, "pyvenv.cfg")
        yield Path(sys.executable)


def _gather(name: str, needed: dict[str, Distribution], *, is_asked_for: bool = True) -> None:
    key = re.sub(r"[-_.]+", "-", name).lower()
    if key in needed:
        return
    try:
        found = distribution(name)
    except PackageNotFoundError:
        if not is_asked_for:
            # For another system, or an extra that nobody has.
            return
        raise UsageError(
            f"the library {name!r} is not installed here; install it, or leave it out"
        ) from None
    needed[key] = found
    for requirement in found.requires or ():
        if "extra ==" not in requirement and (required := _NAME.match(requirement)):
            _gather(required[0], needed, is_asked_for=False)


def _pieces(found: Distribution) -> Iterator[Path]:
    """The topmost files and folders of a library; scripts outside of the folder are left out."""
    tops = {file.parts[0] for file in found.files or () if file.parts}
    for top in tops - {"..", "__pycache__", "bin"}:
        if (path := Path(str(found.locate_file(top)))).exists():
            yield path

"""The files that sandboxed programs may read: the system's programs and libraries, the interpreter
that runs this program, and chosen Python libraries.
"""

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
    """An interpreter for commands, `executable`, and the files that it needs."""

    executable: str
    prefix: tuple[Path, ...]
    """Its own files: the interpreter and the standard library."""
    folders: tuple[Path, ...]
    """The folders of all installed libraries."""
    libraries: tuple[Path, ...]
    """The files of the chosen libraries and their dependencies."""

    def readable(self, backend: BackendName) -> tuple[Path, ...]:
        """The paths for `Command.readable`. Only bubblewrap can show some entries of a folder;
        with another backend, choosing a library makes the whole folder readable.
        """
        shown = self.libraries if backend == "bubblewrap" else self.folders
        return self.prefix + (shown if self.libraries else ())


@cache
def find_python(libraries: tuple[str, ...] = ()) -> Python:
    """This program's interpreter with these libraries, by the names of their distributions
    (`matplotlib`, `pandas`). Raises `UsageError` for one that is not installed.
    """
    needed: dict[str, Distribution] = {}
    for name in libraries:
        _gather(name, needed)
    files = {file for library in needed.values() for file in _top_files(library)}
    return Python(
        executable=sys.executable,
        prefix=tuple(_prefix()),
        folders=library_folders(),
        libraries=tuple(sorted(files)),
    )


def library_folders() -> tuple[Path, ...]:
    """The folders in which this interpreter's libraries are installed."""
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


def _gather(name: str, needed: dict[str, Distribution], *, is_required: bool = True) -> None:
    key = re.sub(r"[-_.]+", "-", name).lower()
    if key in needed:
        return
    try:
        library = distribution(name)
    except PackageNotFoundError:
        if not is_required:
            # A dependency for another platform, or of an extra that is not installed.
            return
        raise UsageError(
            f"the library {name!r} is not installed here; install it, or leave it out"
        ) from None
    needed[key] = library
    for requirement in library.requires or ():
        if "extra ==" not in requirement and (required := _NAME.match(requirement)):
            _gather(required[0], needed, is_required=False)


def _top_files(library: Distribution) -> Iterator[Path]:
    """The top-level files and folders of a library, without its scripts."""
    tops = {file.parts[0] for file in library.files or () if file.parts}
    for top in tops - {"..", "__pycache__", "bin"}:
        if (path := Path(str(library.locate_file(top)))).exists():
            yield path


_FOLDERS: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_FILES: Final = (
    "/etc/alternatives",
    "/etc/fonts",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/mime.types",
)
_NETWORK_FILES: Final = (
    "/etc/ca-certificates",
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/etc/pki/tls/certs",
    "/etc/resolv.conf",
    "/etc/ssl/certs",
)


def system_folders() -> tuple[Path, ...]:
    """The folders of programs and libraries that this machine has; some are links to others."""
    return _present(_FOLDERS)


def system_files() -> tuple[Path, ...]:
    """Files of `/etc` that programs need and that reveal nothing about users."""
    return _present(_FILES)


def network_files() -> tuple[Path, ...]:
    """Files that a program needs to resolve host names and verify certificates."""
    return _present(_NETWORK_FILES)


def _present(names: tuple[str, ...]) -> tuple[Path, ...]:
    return tuple(path for name in names if (path := Path(name)).exists())

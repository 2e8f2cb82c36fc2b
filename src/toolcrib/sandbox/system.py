"""The system's files that every sandboxed program may read: programs and libraries."""

from __future__ import annotations

from pathlib import Path
from typing import Final

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

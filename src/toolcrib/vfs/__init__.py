"""Virtual paths, and the files of the host that are mounted into a container."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolcrib._lazy import lazy_exports

if TYPE_CHECKING:
    from toolcrib.vfs.files import HostFile, mounted_files
    from toolcrib.vfs.mount import HostMount, StagedFile, VfsPath
    from toolcrib.vfs.names import safe_name

__all__ = [
    "HostFile",
    "HostMount",
    "StagedFile",
    "VfsPath",
    "mounted_files",
    "safe_name",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "toolcrib.vfs.files": ("HostFile", "mounted_files"),
            "toolcrib.vfs.mount": ("HostMount", "StagedFile", "VfsPath"),
            "toolcrib.vfs.names": ("safe_name",),
        },
    )

"""Paths in a virtual file system, and what of the host is shown in it."""

from toolcrib.vfs.mount import HostMount
from toolcrib.vfs.path import VfsPath

__all__ = ["HostMount", "VfsPath"]

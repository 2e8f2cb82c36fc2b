"""Removing what a confined command left: however deep, locked or full of links it is."""

from __future__ import annotations

import os
import stat
from itertools import count
from pathlib import Path
from typing import Final

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_tree(path: Path) -> None:
    """Remove a directory and everything in it. No link is followed, and nothing is recursive: a
    command may have nested folders deeper than any stack.
    """
    os.chmod(path, 0o700)
    root = os.open(path, _DIRECTORY)
    numbers = count()
    try:
        while names := os.listdir(root):
            for name in names:
                _remove(root, name, numbers)
    finally:
        os.close(root)
    path.rmdir()


def _remove(root: int, name: str, numbers: count[int]) -> None:
    if not stat.S_ISDIR(os.stat(name, dir_fd=root, follow_symlinks=False).st_mode):
        os.unlink(name, dir_fd=root)
        return
    folder = _unlocked(root, name)
    try:
        for inner in os.listdir(folder):
            if stat.S_ISDIR(os.stat(inner, dir_fd=folder, follow_symlinks=False).st_mode):
                os.close(_unlocked(folder, inner))
                os.rename(inner, _free(root, numbers), src_dir_fd=folder, dst_dir_fd=root)
            else:
                os.unlink(inner, dir_fd=folder)
    finally:
        os.close(folder)
    os.rmdir(name, dir_fd=root)


def _unlocked(parent: int, name: str) -> int:
    os.chmod(name, 0o700, dir_fd=parent)
    return os.open(name, _DIRECTORY, dir_fd=parent)


def _free(root: int, numbers: count[int]) -> str:
    """A name that nothing in the root has."""
    while True:
        name = f".removed-{next(numbers)}"
        try:
            os.stat(name, dir_fd=root, follow_symlinks=False)
        except FileNotFoundError:
            return name

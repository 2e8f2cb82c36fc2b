"""Which files of the host go to a container. Everything is checked before anything is sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from toolcrib.adapters.openai.file_types import SUPPORTED_TYPES, refuse_other_types
from toolcrib.errors import UsageError
from toolcrib.tools.code_interpreter import AutoContainer
from toolcrib.tools.code_interpreter.config import MOST_FILES
from toolcrib.tools.openai_code_interpreter import OpenAICodeInterpreterTool
from toolcrib.vfs import HostMount, VfsPath
from toolcrib.vfs.files import HostFile, mounted_files

LARGEST_FILE: Final = 512 * 1024 * 1024
"""What the provider takes in one file."""


@dataclass(frozen=True, slots=True)
class HostFiles:
    """What of the host may be uploaded: files below `roots`, of these types."""

    roots: tuple[Path, ...] = ()
    types: frozenset[str] = SUPPORTED_TYPES


@dataclass(frozen=True, slots=True)
class Plan:
    """The files to upload, by the paths that their mounts give them, and those without a byte:
    the provider refuses to take such a file.
    """

    files: tuple[tuple[str, HostFile], ...]
    empty: tuple[str, ...] = ()


def plan_files(tool: OpenAICodeInterpreterTool, allowed: HostFiles) -> Plan:
    """Find the files of a tool's mounts. Raises `UsageError` when they cannot all be uploaded."""
    found: dict[str, HostFile] = {}
    for mount in tool.host_mounts:
        _add(found, mount, allowed.roots)
    files = tuple((name, file) for name, file in found.items() if file.size)
    refuse_other_types((name for name, _ in files), allowed.types, tool.name)
    _check_sizes(files)
    _check_count(tool, len(files))
    return Plan(files, tuple(name for name, file in found.items() if not file.size))


def _add(found: dict[str, HostFile], mount: HostMount, roots: Sequence[Path]) -> None:
    files = mounted_files(mount, roots)
    if not files:
        raise UsageError(
            f"host mount {mount.host_path!r} holds no file that include_glob and exclude_glob "
            "leave; check the patterns, or drop the mount"
        )
    for file in files:
        name = _shown(mount, file)
        twin = found.setdefault(name, file)
        if twin.place != file.place:
            raise UsageError(
                f"two host mounts have a file at {name!r}; give them different mount_paths"
            )


def _shown(mount: HostMount, file: HostFile) -> str:
    """The path that a file is known by; without a mount path it lies at the top."""
    top = mount.mount_path.segments if mount.mount_path else ()
    # It goes into a prompt, so a name must not be able to pass for more than a name.
    return str(VfsPath((*top, *file.name.split("/"))))


def _check_sizes(files: Sequence[tuple[str, HostFile]]) -> None:
    for name, file in files:
        if file.size > LARGEST_FILE:
            raise UsageError(
                f"{name!r} has {file.size} bytes; one file can have {LARGEST_FILE} at most"
            )


def _check_count(tool: OpenAICodeInterpreterTool, count: int) -> None:
    container = tool.container
    if not isinstance(container, AutoContainer):
        return
    given = len(container.file_ids)
    if given + count > MOST_FILES:
        raise UsageError(
            f"host_mounts of {tool.name!r} hold {count} files, and {given} are given by id; a "
            f"container is made with {MOST_FILES} at most. Narrow include_glob, pack the files "
            "into one archive, or copy them into an ExistingContainer"
        )

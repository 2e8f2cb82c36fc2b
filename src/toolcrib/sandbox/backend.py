"""The protocol of a sandbox backend: a command line that confines a command, and how to kill it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pathlib import PurePosixPath

    from toolcrib.sandbox.command import BackendName, Command
    from toolcrib.sandbox.work_directory import WorkDirectory


class Launch(Protocol):
    """One command line, ready to be started with an empty environment."""

    @property
    def argv(self) -> Sequence[str]: ...

    @property
    def descriptors(self) -> Sequence[int]:
        """The descriptors that the started process inherits besides its three streams."""
        ...

    @property
    def work_at(self) -> PurePosixPath:
        """Where the command sees its work directory."""
        ...

    @property
    def owner(self) -> int | None:
        """The user that the command runs as, if that is not this program's user."""
        ...

    @property
    def may_leave_set_ids(self) -> bool:
        """Whether nothing keeps the command from leaving files that run as their owner."""
        ...

    async def wait_started(self) -> int | None:
        """Wait until the started process can be killed. Returns the id of the process that all
        others end with, if that is not the started one.
        """
        ...

    def command_started(self) -> bool:
        """After the end: whether the command itself was ever started."""
        ...

    def kill(self, started_process: int) -> None:
        """Kill all processes of the command; `started_process` is a pidfd."""
        ...

    def close(self) -> None:
        """Close the resources of the launch. The processes have ended, or end without them."""
        ...


class Backend(Protocol):
    """One way to confine commands."""

    @property
    def name(self) -> BackendName: ...

    def prepare(self, command: Command, work: WorkDirectory) -> Launch:
        """Prepare the start of a command. Raises `SandboxUnavailable` when the backend is not
        installed.
        """
        ...


def memory_file(data: bytes) -> int:
    """A descriptor to read `data` from, which has no name in the file system."""
    try:
        descriptor = os.memfd_create("toolcrib", os.MFD_CLOEXEC)
    except OSError:
        # Sandboxes refuse the call, ours too; an unnamed temporary file serves as well.
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    with os.fdopen(os.dup(descriptor), "wb") as file:
        file.write(data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def close_all(descriptors: Sequence[int]) -> None:
    """Close these descriptors."""
    for descriptor in descriptors:
        os.close(descriptor)

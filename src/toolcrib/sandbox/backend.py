"""What a backend does: make a command line that confines a command, and know when it ends."""

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
        """What the started process inherits besides its three streams."""
        ...

    @property
    def work_at(self) -> PurePosixPath:
        """Where the command sees its work directory."""
        ...

    @property
    def owner(self) -> int | None:
        """The user that the command runs as, where that is not this program's."""
        ...

    async def begin(self) -> int | None:
        """Wait until what was started can be ended. Returns the process that all others end with,
        if that is not the one that was started.
        """
        ...

    def has_begun(self) -> bool:
        """After the end: whether the command itself was ever started."""
        ...

    def end(self, started: int) -> None:
        """Kill all of it; `started` is the descriptor of what was started."""
        ...

    def close(self) -> None:
        """Let go of what is held for it. It has ended, or will without what is held."""
        ...


class Backend(Protocol):
    """One way to confine commands."""

    @property
    def name(self) -> BackendName: ...

    def prepare(self, command: Command, work: WorkDirectory) -> Launch:
        """Make ready to start a command. Raises `SandboxUnavailable` where the backend is not
        installed.
        """
        ...


def memory_file(data: bytes) -> int:
    """A descriptor to read `data` from, which nobody else can find."""
    try:
        descriptor = os.memfd_create("toolcrib", os.MFD_CLOEXEC)
    except OSError:
        # Sandboxes refuse it, ours too; a file without a name does as well.
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    with os.fdopen(os.dup(descriptor), "wb") as file:
        file.write(data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def close_all(descriptors: Sequence[int]) -> None:
    """Close every one of them."""
    for descriptor in descriptors:
        os.close(descriptor)

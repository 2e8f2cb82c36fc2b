"""The one protocol: run a command where it can do no harm."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from toolcrib.sandbox.command import BackendName, Command, Finished
    from toolcrib.sandbox.process import Process
    from toolcrib.sandbox.work import WorkDirectory


class Sandbox(Protocol):
    """Runs commands confined. `backend` says by what."""

    @property
    def backend(self) -> BackendName: ...

    async def run(
        self, command: Command, *, stdin: bytes = b"", work: WorkDirectory | None = None
    ) -> Finished:
        """Run a command to its end, whatever that is. Without `work` it has a directory that is
        removed afterwards. Cancelling this kills it and all that it started.
        """
        ...

    async def open(self, command: Command, *, work: WorkDirectory) -> Process:
        """Start a command that is spoken with through stdin and stdout. It lives until it ends,
        is closed, reaches a limit, or this program dies.
        """
        ...

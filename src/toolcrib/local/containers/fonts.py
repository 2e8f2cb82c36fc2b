"""The list of the machine's fonts, which matplotlib else makes anew in every container."""

from __future__ import annotations

import os
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final

from toolcrib.sandbox.command import MEBIBYTE, Command, Limits
from toolcrib.sandbox.python import find_python
from toolcrib.sandbox.work import WorkDirectory

if TYPE_CHECKING:
    from toolcrib.sandbox.sandbox import Sandbox

_MAKE: Final = "import os; os.environ['MPLCONFIGDIR'] = os.getcwd(); import matplotlib.font_manager"
_MOST_BYTES: Final = 16 * MEBIBYTE


def known_fonts() -> Path | None:
    """The list that was made on this machine for the matplotlib that is installed, if there is."""
    return next(iter(sorted(_folder().glob("fontlist-*.json"))), None)


async def make_fonts(sandbox: Sandbox) -> Path | None:
    """Make the list, in a sandbox in which no code of anybody else runs; None when it fails."""
    python = find_python(("matplotlib",))
    command = Command(
        argv=(python.executable, "-c", _MAKE),
        env={"HOME": "/tmp", "MPLBACKEND": "Agg", "OPENBLAS_NUM_THREADS": "1"},
        readable=python.readable(sandbox.backend),
        limits=Limits(seconds=60),
    )
    with WorkDirectory.temporary() as work:
        await sandbox.run(command, work=work)
        for file in work.files():
            if file.name.startswith("fontlist-") and file.name.endswith(".json"):
                return _keep(file.name, work.read(file.name, _MOST_BYTES))
    return None


def _keep(name: str, data: bytes) -> Path | None:
    folder = _folder()
    new = folder / f".{name}.{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        new.write_bytes(data)
        # Whoever code runs as has to read it.
        new.chmod(0o644)
        return new.replace(folder / name)
    except OSError:
        return None


def _folder() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "toolcrib" / f"matplotlib-{version('matplotlib')}"

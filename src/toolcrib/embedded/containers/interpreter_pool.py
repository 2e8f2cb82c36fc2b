"""The pool of running interpreters, and the font list that they share.

Without that list, matplotlib would scan the fonts of the machine anew in every container.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import OrderedDict
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final

from toolcrib.errors import ToolcribError
from toolcrib.sandbox.command import MEBIBYTE, Command, SandboxLimits
from toolcrib.sandbox.python import find_python
from toolcrib.sandbox.work_directory import WorkDirectory

if TYPE_CHECKING:
    from toolcrib.embedded.containers.interpreter import Interpreter
    from toolcrib.sandbox.sandbox import Sandbox


_MAKE: Final = "import os; os.environ['MPLCONFIGDIR'] = os.getcwd(); import matplotlib.font_manager"
_MAX_BYTES: Final = 16 * MEBIBYTE


def known_fonts() -> Path | None:
    """The cached font list for the installed matplotlib, if there is one."""
    return next(iter(sorted(_folder().glob("fontlist-*.json"))), None)


async def make_fonts(sandbox: Sandbox) -> Path | None:
    """Create the font list in a sandbox without user code; None on failure."""
    python = find_python(("matplotlib",))
    command = Command(
        argv=(python.executable, "-c", _MAKE),
        env={"HOME": "/tmp", "MPLBACKEND": "Agg", "OPENBLAS_NUM_THREADS": "1"},
        readable=python.readable(sandbox.backend),
        limits=SandboxLimits(seconds=60),
    )
    with WorkDirectory.temporary() as work:
        await sandbox.run(command, work=work)
        for file in work.files():
            if file.name.startswith("fontlist-") and file.name.endswith(".json"):
                return _keep(file.name, work.read(file.name, _MAX_BYTES))
    return None


def _keep(name: str, data: bytes) -> Path | None:
    folder = _folder()
    new = folder / f".{name}.{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        new.write_bytes(data)
        # Sandboxed code may run as another user and must be able to read it.
        new.chmod(0o644)
        return new.replace(folder / name)
    except OSError:
        return None


def _folder() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "toolcrib" / f"matplotlib-{version('matplotlib')}"


logger = logging.getLogger(__name__)

LIBRARIES: Final = ("matplotlib", "pandas")
MAX_INTERPRETERS: Final = 8
"""Running interpreters; beyond it the least recently used one that is idle is ended."""


class InterpreterPool:
    """Running interpreters by the id of their container, least recently used first."""

    def __init__(self) -> None:
        self._interpreters: OrderedDict[str, Interpreter] = OrderedDict()
        self._making_fonts: asyncio.Task[None] | None = None

    async def get(self, container_id: str, make: Callable[[], Interpreter]) -> Interpreter:
        """The interpreter of a container, created by `make` if there is none."""
        known = self._interpreters.pop(container_id, None)
        if known is None:
            await self._make_room()
            known = make()
        self._interpreters[container_id] = known
        return known

    async def drop(self, container_id: str) -> None:
        """End the interpreter of a container, if one runs."""
        known = self._interpreters.pop(container_id, None)
        if known is not None:
            await known.close()

    async def close(self) -> None:
        """End all interpreters."""
        if self._making_fonts is not None:
            self._making_fonts.cancel()
            await asyncio.wait([self._making_fonts])
        while self._interpreters:
            await self.drop(next(iter(self._interpreters)))

    def fonts(self, sandbox: Sandbox) -> Path | None:
        """The font list for a new interpreter; None starts its creation for the next one."""
        if "matplotlib" not in installed(LIBRARIES):
            return None
        fonts = known_fonts()
        if fonts is None and self._making_fonts is None:
            self._making_fonts = asyncio.create_task(_fonts_made(sandbox))
        return fonts

    async def _make_room(self) -> None:
        for container_id in list(self._interpreters):
            if len(self._interpreters) < MAX_INTERPRETERS:
                return
            if not self._interpreters[container_id].is_busy:
                await self.drop(container_id)


async def _fonts_made(sandbox: Sandbox) -> None:
    try:
        await make_fonts(sandbox)
    except (OSError, ToolcribError) as error:
        logger.warning("the font list could not be created: %s", error)


def installed(libraries: tuple[str, ...]) -> tuple[str, ...]:
    """The libraries that are installed on this machine."""
    from importlib.metadata import PackageNotFoundError, distribution

    names: list[str] = []
    for name in libraries:
        try:
            distribution(name)
        except PackageNotFoundError:
            continue
        names.append(name)
    return tuple(names)

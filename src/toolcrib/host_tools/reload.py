"""Hot reload: a changed file takes the place of the old set of tools in one step, or not at all."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterable, AsyncIterator, Callable
from dataclasses import dataclass
from hashlib import sha256
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from toolcrib.errors import InvalidTool
from toolcrib.host_tools.host_tools_file import (
    HostToolsFile,
    load_host_tools_file,
    modules_named,
)
from toolcrib.host_tools.python_modules import is_imported, loaded_anew, source_of

if TYPE_CHECKING:
    from toolcrib.host_tools.registrations import RegistryChange
    from toolcrib.host_tools.registry import HostToolRegistry

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Reload:
    """What came of a changed file: its tools are served now, or `fault` says why not, and those of
    before still are. `changes` are the tools that are not what they were.
    """

    file: str
    loaded: HostToolsFile | None
    changes: tuple[RegistryChange, ...] = ()
    fault: str | None = None


class HostToolsWatcher:
    """Keeps a registry up with a file and with the sources of the modules that it names.

    `load` it once. Then `poll` looks once, and `watch` looks at every tick. It compares contents,
    not times, so no edit is too quick for it.
    """

    def __init__(
        self,
        registry: HostToolRegistry,
        path: str | PathLike[str],
        *,
        on_reload: Callable[[Reload], None] | None = None,
    ) -> None:
        self._registry = registry
        self._path = Path(path)
        self._on_reload = on_reload or _log
        self._lock = threading.Lock()
        self._sources: dict[str, Path | None] = {}
        self._seen: dict[Path, str | None] = {}
        # Of which contents the modules are that handlers come from.
        self._running: dict[str, str | None] = {}

    async def load(self) -> HostToolsFile:
        """Read the file and register its tools, in the place of those it had. Raises
        `InvalidTool`, and then nothing has changed.
        """
        file, _ = self._load()
        return file

    async def poll(self) -> Reload | None:
        """Look once; None when nothing has changed since the last look."""
        # Loading a module may take long, and there are sessions to serve meanwhile.
        return await asyncio.to_thread(self._look)

    async def watch(self, ticks: AsyncIterable[object] | None = None) -> None:
        """Look at every tick, by default once a second, until cancelled or out of ticks."""
        async for _ in ticks or every(1.0):
            found = await self.poll()
            if found is not None:
                self._report(found)

    def _look(self) -> Reload | None:
        if self._digests() == self._seen:
            return None
        file = str(self._path)
        try:
            loaded, changes = self._load()
        except InvalidTool as error:
            return Reload(file, None, fault=str(error))
        return Reload(file, loaded, changes)

    def _load(self) -> tuple[HostToolsFile, tuple[RegistryChange, ...]]:
        with self._lock:
            named = modules_named(self._path)
            self._sources = {name: source_of(name) for name in {*named, *self._running}}
            # Before anything is read: what changes from here on is found at the next look.
            self._seen = self._digests()
            try:
                with loaded_anew(self._stale()):
                    file = load_host_tools_file(self._path)
                    changes = self._registry.swap(file.file, file.with_origins())
            except BaseException:
                self._note_imported(named)
                raise
            self._running = {}
            self._note_imported(named)
        return file, changes

    def _stale(self) -> list[str]:
        return [name for name, digest in self._running.items() if self._digest(name) != digest]

    def _note_imported(self, names: tuple[str, ...]) -> None:
        for name in names:
            if name not in self._running and is_imported(name):
                self._running[name] = self._digest(name)

    def _digest(self, module: str) -> str | None:
        source = self._sources.get(module)
        return None if source is None else self._seen[source]

    def _digests(self) -> dict[Path, str | None]:
        sources = [source for source in self._sources.values() if source is not None]
        return {path: _digest_of(path) for path in (self._path, *sources)}

    def _report(self, found: Reload) -> None:
        try:
            self._on_reload(found)
        except Exception:
            logger.exception("the report on reloaded host tools failed")


async def every(seconds: float) -> AsyncIterator[None]:
    """A tick after each pause of that length."""
    while True:
        await asyncio.sleep(seconds)
        yield


def _log(found: Reload) -> None:
    if found.fault is not None:
        logger.error("%s was not loaded, the tools of before stay:\n%s", found.file, found.fault)
    else:
        names = ", ".join(change.name for change in found.changes) or "none"
        logger.info("%s was loaded; changed tools: %s", found.file, names)


def _digest_of(path: Path) -> str | None:
    try:
        return sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None

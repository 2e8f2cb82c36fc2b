"""Hot reload: a changed file replaces its old set of tools in one step, or not at all.

`watchfiles` reports that a file changed; what changed is decided by comparing contents, so that
no edit is too quick to be seen and a touched file with the same content reloads nothing.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterable, AsyncIterator, Callable
from dataclasses import dataclass
from hashlib import sha256
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Final

from toolcrib.errors import InvalidTool, UsageError
from toolcrib.extras import install_command
from toolcrib.host_tools.host_tools_file import (
    HostToolsFile,
    load_host_tools_file,
    module_names,
)
from toolcrib.host_tools.python_modules import is_imported, reloaded, source_file

if TYPE_CHECKING:
    from toolcrib.host_tools.registrations import RegistryChange
    from toolcrib.host_tools.registry import HostToolRegistry

logger = logging.getLogger(__name__)

CHECK_SECONDS: Final = 1.0
"""The longest time between two looks at the files, for file systems that report no changes."""


@dataclass(frozen=True, slots=True)
class Reload:
    """The result of reloading a changed file.

    Either its tools are served now, and `changes` lists those that differ, or `fault` says why it
    was not loaded, and the old tools stay.
    """

    file: str
    loaded: HostToolsFile | None
    changes: tuple[RegistryChange, ...] = ()
    fault: str | None = None


class HostToolsWatcher:
    """Keeps a registry up to date with a file and the sources of the modules that it names.

    Call `load` once. Then `poll` looks at the files once, and `watch` looks whenever one of them
    changes.
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
        # The digest of the source that each imported module was loaded from.
        self._running: dict[str, str | None] = {}
        self._documents: tuple[Path, ...] = ()

    async def load(self) -> HostToolsFile:
        """Read the file and register its tools, in place of those it had before.

        Raises `InvalidTool`, and then nothing has changed.
        """
        file, _ = self._load()
        return file

    async def poll(self) -> Reload | None:
        """Look at the files once; None when nothing has changed since the last look."""
        # In a thread: importing a module may take long, and sessions are served meanwhile.
        return await asyncio.to_thread(self._reload_if_changed)

    async def watch(self, ticks: AsyncIterable[object] | None = None) -> None:
        """Reload whenever a file changes, until cancelled.

        With `ticks`, look at every tick instead, until there are no more. Without them, raises
        `UsageError` when `watchfiles` is not installed.
        """
        async for _ in file_changes(self._files) if ticks is None else ticks:
            reload = await self.poll()
            if reload is not None:
                self._report(reload)

    def _reload_if_changed(self) -> Reload | None:
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
            modules = module_names(self._path)
            self._sources = {name: source_file(name) for name in {*modules, *self._running}}
            # Before anything is read: what changes from here on is seen at the next look.
            self._seen = self._digests()
            try:
                with reloaded(self._stale_modules()):
                    file = load_host_tools_file(self._path)
                    changes = self._registry.swap(file.file, file.with_origins())
            except BaseException:
                self._note_imported(modules)
                raise
            self._running = {}
            self._note_imported(modules)
            self._documents = tuple(Path(each) for each in file.documents if "://" not in each)
            self._seen = {path: self._seen.get(path, digest_of(path)) for path in self._files()}
        return file, changes

    def _stale_modules(self) -> list[str]:
        return [name for name, digest in self._running.items() if self._digest(name) != digest]

    def _note_imported(self, modules: tuple[str, ...]) -> None:
        for name in modules:
            if name not in self._running and is_imported(name):
                self._running[name] = self._digest(name)

    def _digest(self, module: str) -> str | None:
        source = self._sources.get(module)
        return None if source is None else self._seen[source]

    def _files(self) -> frozenset[Path]:
        sources = [source for source in self._sources.values() if source is not None]
        return frozenset((self._path, *self._documents, *sources))

    def _digests(self) -> dict[Path, str | None]:
        return {path: digest_of(path) for path in self._files()}

    def _report(self, reload: Reload) -> None:
        try:
            self._on_reload(reload)
        except Exception:
            logger.exception("the report of reloaded host tools failed")


def _log(reload: Reload) -> None:
    if reload.fault is not None:
        logger.error("%s was not loaded, the old tools stay:\n%s", reload.file, reload.fault)
    else:
        names = ", ".join(change.name for change in reload.changes) or "none"
        logger.info("%s was loaded; changed tools: %s", reload.file, names)


def digest_of(path: Path) -> str | None:
    """The digest of a file's content; None when it cannot be read."""
    try:
        return sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None


async def file_changes(watched: Callable[[], frozenset[Path]]) -> AsyncIterator[object]:
    """Yield whenever one of the watched files may have changed, and at least once a second. Raises
    `UsageError` when `watchfiles` is not installed.
    """
    try:
        # Its stop event is also typed for trio, which may not be installed.
        from watchfiles import awatch  # pyright: ignore[reportUnknownVariableType]
    except ModuleNotFoundError:
        raise UsageError(f"hot reload needs watchfiles; run: {install_command('reload')}") from None
    while True:
        files = watched()
        # Folders, not files: an editor that saves by rename replaces the file itself.
        folders = sorted({file.parent for file in files if file.parent.is_dir()})
        if not folders:
            await asyncio.sleep(CHECK_SECONDS)
            yield None
            continue
        names = {file.name for file in files}
        async for changes in awatch(
            *folders,
            watch_filter=lambda _, path: Path(path).name in names,  # noqa: B023
            recursive=False,
            # An empty set after each timeout catches what changed before the watch began.
            yield_on_timeout=True,
            rust_timeout=int(CHECK_SECONDS * 1000),
        ):
            yield changes
            # A reload may have brought other modules.
            if watched() != files:
                break

"""Files of host tools that are loaded again when they change, and what is said about it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from toolcrib.cli.streams import note

if TYPE_CHECKING:
    from toolcrib.host_tools.host_tools_file import HostToolsFile
    from toolcrib.host_tools.registry import HostToolRegistry
    from toolcrib.host_tools.watching import Reload


@asynccontextmanager
async def watched(
    registry: HostToolRegistry, files: Sequence[HostToolsFile]
) -> AsyncGenerator[None]:
    """Keep a registry up with files that were loaded into it. A changed file takes the place of
    the old one in one step; one that is broken changes nothing.
    """
    from toolcrib.host_tools.watching import HostToolsWatcher

    report = _Report(files)
    watchers = [HostToolsWatcher(registry, each.file, on_reload=report.tell) for each in files]
    for watcher in watchers:
        await watcher.load()
    watching = [asyncio.create_task(watcher.watch()) for watcher in watchers]
    try:
        yield
    finally:
        for task in watching:
            task.cancel()
        await asyncio.gather(*watching, return_exceptions=True)


class _Report:
    def __init__(self, files: Sequence[HostToolsFile]) -> None:
        self._servers = {each.file: each.mcp_servers for each in files}

    def tell(self, found: Reload) -> None:
        """Say what came of a changed file."""
        if found.loaded is None:
            note(f"{found.file} was not loaded, the tools of before stay:", "red")
            note(found.fault or "", "red")
            return
        names = ", ".join(change.name for change in found.changes) or "none"
        note(f"{found.file} was loaded again; changed tools: {names}")
        if found.loaded.mcp_servers != self._servers[found.file]:
            note(f"{found.file}: mcp_servers takes effect when the command starts again", "yellow")

"""Files of host tools that are loaded again when they change, and what is said about it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from toolcrib.cli.extras import missing
from toolcrib.cli.streams import note
from toolcrib.errors import InvalidTool, Refused

if TYPE_CHECKING:
    from toolcrib.host_tools.host_tools_file import HostToolsFile
    from toolcrib.host_tools.watching import Reload
    from toolcrib.runtime.runtime import Runtime


@asynccontextmanager
async def watched(runtime: Runtime, files: Sequence[HostToolsFile]) -> AsyncGenerator[None]:
    """Keep a runtime up with files that were loaded for it. A changed file takes the place of
    the old one in one step; one that is broken changes nothing.
    """
    from toolcrib.host_tools.watching import HostToolsWatcher

    following = _Following(runtime, files)
    watchers = [
        HostToolsWatcher(runtime.registry, each.file, on_reload=following.hear) for each in files
    ]
    for watcher in watchers:
        await watcher.load()
    tasks = [asyncio.create_task(watcher.watch()) for watcher in watchers]
    try:
        yield
    finally:
        tasks += following.remounting
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _Following:
    def __init__(self, runtime: Runtime, files: Sequence[HostToolsFile]) -> None:
        self._runtime = runtime
        self._files = {each.file: each for each in files}
        self.remounting: set[asyncio.Task[None]] = set()

    def hear(self, found: Reload) -> None:
        """Say what came of a changed file, and mount the servers that it names now."""
        if found.loaded is None:
            note(f"{found.file} was not loaded, the tools of before stay:", "red")
            note(found.fault or "", "red")
            return
        names = ", ".join(change.name for change in found.changes) or "none"
        note(f"{found.file} was loaded again; changed tools: {names}")
        before, self._files[found.file] = self._files[found.file], found.loaded
        if found.loaded.mcp_servers != before.mcp_servers:
            task = asyncio.create_task(self._remount(found.file))
            self.remounting.add(task)
            task.add_done_callback(self.remounting.discard)

    async def _remount(self, file: str) -> None:
        from toolcrib.host_tools.loading import check_servers

        files = list(self._files.values())
        servers = [server for each in files for server in each.mcp_servers]
        try:
            check_servers(files)
            if servers and (lacking := missing("mcp")):
                raise InvalidTool(f"mcp_servers needs {', '.join(lacking)}")
            await self._runtime.service.remount_servers(servers)
        except InvalidTool as error:
            note(f"the servers of before stay: {error}", "red")
        except Refused:
            # The runtime is closing, and leaves its servers by itself.
            return
        else:
            note(f"{file}: its servers are mounted now: {_told(self._files[file])}")


def _told(file: HostToolsFile) -> str:
    return ", ".join(server.name for server in file.mcp_servers) or "none"

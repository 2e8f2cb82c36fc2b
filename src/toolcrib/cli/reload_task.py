"""`--reload`: host tools files of a runtime that are reloaded when they change."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from toolcrib.cli.extras import missing_packages, require_extra
from toolcrib.cli.output import show_note
from toolcrib.errors import InvalidTool, Refused

if TYPE_CHECKING:
    from toolcrib.host_tools.host_tools_file import HostToolsFile
    from toolcrib.host_tools.reload import Reload
    from toolcrib.runtime.runtime import Runtime


@asynccontextmanager
async def reload_task(runtime: Runtime, files: Sequence[HostToolsFile]) -> AsyncGenerator[None]:
    """Reload host tools files of a runtime when they change. A changed file replaces the old one
    in one step; a broken file changes nothing.
    """
    from toolcrib.host_tools.reload import HostToolsWatcher

    if files:
        require_extra("reload", "--reload")
    report = _ReloadReport(runtime, files)
    watchers = [
        HostToolsWatcher(runtime.registry, file.file, on_reload=report.on_reload) for file in files
    ]
    for watcher in watchers:
        await watcher.load()
    tasks = [asyncio.create_task(watcher.watch()) for watcher in watchers]
    try:
        yield
    finally:
        tasks += report.remount_tasks
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _ReloadReport:
    """Prints the result of each reload, and mounts the MCP servers that the file names now."""

    def __init__(self, runtime: Runtime, files: Sequence[HostToolsFile]) -> None:
        self._runtime = runtime
        self._files = {file.file: file for file in files}
        self.remount_tasks: set[asyncio.Task[None]] = set()

    def on_reload(self, reload: Reload) -> None:
        """Print the result, and remount the servers if they have changed."""
        if reload.loaded is None:
            show_note(f"{reload.file} was not loaded, the old tools stay:", "red")
            show_note(reload.fault or "", "red")
            return
        names = ", ".join(change.name for change in reload.changes) or "none"
        show_note(f"{reload.file} was reloaded; changed tools: {names}")
        before, self._files[reload.file] = self._files[reload.file], reload.loaded
        if reload.loaded.mcp_servers != before.mcp_servers:
            task = asyncio.create_task(self._remount(reload.file))
            self.remount_tasks.add(task)
            task.add_done_callback(self.remount_tasks.discard)

    async def _remount(self, file: str) -> None:
        from toolcrib.host_tools.loader import check_server_names

        files = list(self._files.values())
        servers = [server for loaded in files for server in loaded.mcp_servers]
        try:
            check_server_names(files)
            if servers and (missing := missing_packages("mcp")):
                raise InvalidTool(f"mcp_servers needs {', '.join(missing)}")
            await self._runtime.service.remount_servers(servers)
        except InvalidTool as error:
            show_note(f"the old servers stay: {error}", "red")
        except Refused:
            # The runtime is closing, and disconnects its servers itself.
            return
        else:
            show_note(f"{file}: the mounted servers are now: {_server_names(self._files[file])}")


def _server_names(file: HostToolsFile) -> str:
    return ", ".join(server.name for server in file.mcp_servers) or "none"

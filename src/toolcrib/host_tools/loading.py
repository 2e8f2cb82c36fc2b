"""All of a program's host tools at once: files, modules and plugins, whole or not at all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from toolcrib.errors import InvalidTool
from toolcrib.host_tools.host_tools_file import HostToolsFile, load_host_tools_file
from toolcrib.host_tools.module_tools import load_host_tools_module
from toolcrib.host_tools.plugins import Plugin, load_host_tools_plugins

if TYPE_CHECKING:
    from toolcrib.host_tools.mcp_servers import McpServerConfig
    from toolcrib.host_tools.registry import HostToolRegistry


@dataclass(frozen=True, slots=True)
class LoadedHostTools:
    """What was loaded, and from where. Plugins that are broken say so in `fault`."""

    files: tuple[HostToolsFile, ...]
    modules: tuple[str, ...]
    plugins: tuple[Plugin, ...]

    @property
    def mcp_servers(self) -> tuple[McpServerConfig, ...]:
        """The other servers that the files name."""
        return tuple(server for file in self.files for server in file.mcp_servers)


async def load_host_tools(
    registry: HostToolRegistry,
    *,
    files: Sequence[str | PathLike[str]] = (),
    modules: Iterable[str] = (),
    plugins: bool = False,
) -> LoadedHostTools:
    """Register the tools of files, then of modules, then of installed plugins.

    Naming one twice is the same as naming it once. Raises `InvalidTool` for whatever is wrong in a
    file or a module, and then the registry is as it was; a plugin that is broken is only reported.
    """
    with registry.all_or_nothing():
        paths = dict.fromkeys(str(Path(file)) for file in files)
        read = [load_host_tools_file(path) for path in paths]
        check_servers(read)
        for file in read:
            registry.add_all(file.with_origins())
        named = tuple(dict.fromkeys(modules))
        for name in named:
            await load_host_tools_module(name, registry)
        found = await load_host_tools_plugins(registry) if plugins else ()
    return LoadedHostTools(tuple(read), named, found)


def check_servers(files: Iterable[HostToolsFile]) -> None:
    """Raises `InvalidTool` when two files name a server alike."""
    homes: dict[str, str] = {}
    for file in files:
        for server in file.mcp_servers:
            if server.name in homes:
                raise InvalidTool(
                    f"{file.file}: mcp_servers.{server.name}: {homes[server.name]} has a server of "
                    "that name already"
                )
            homes[server.name] = file.file

"""Load host tools from files, modules and installed packages, all of them or none.

Installed packages declare their tools by entry points of the group `toolcrib.host_tools`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from toolcrib.errors import InvalidTool, describe_error
from toolcrib.host_tools.host_tools_file import HostToolsFile, load_host_tools_file
from toolcrib.host_tools.python_modules import load_host_tools_module, register_target
from toolcrib.host_tools.registrations import Origin

if TYPE_CHECKING:
    from toolcrib.host_tools.registry import HostToolRegistry
    from toolcrib.mcp_client.config import McpServerConfig


ENTRY_POINT_GROUP = "toolcrib.host_tools"
"""The entry point group of packages with host tools."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Plugin:
    """One entry point: the tools that it registered, or why there are none."""

    name: str
    package: str | None
    target: str
    """The module, or the object in it, that the entry point names."""
    tools: tuple[str, ...] = ()
    fault: str | None = None


async def load_host_tools_plugins(registry: HostToolRegistry) -> tuple[Plugin, ...]:
    """Register the tools of installed packages, in the order of their entry points' names.

    An entry point names a module, a setup function, a tool or a list of tools. A broken one is
    reported and registers nothing; the others are loaded.
    """
    points = sorted(
        entry_points(group=ENTRY_POINT_GROUP), key=lambda point: (point.name, point.value)
    )
    return tuple([await _load(point, registry) for point in points])


async def _load(point: EntryPoint, registry: HostToolRegistry) -> Plugin:
    package = point.dist.name if point.dist is not None else None
    try:
        tools = await register_target(point.load(), registry, Origin(f"plugin {point.name}"))
    except (Exception, SystemExit) as error:
        # The caller reports the fault; its traceback is for whoever looks for the cause.
        logger.info("the host tools plugin %r was not loaded", point.name, exc_info=True)
        return Plugin(point.name, package, point.value, fault=describe_error(error))
    return Plugin(point.name, package, point.value, tools)


@dataclass(frozen=True, slots=True)
class LoadedHostTools:
    """The loaded files, modules and plugins. A broken plugin has a `fault`."""

    files: tuple[HostToolsFile, ...]
    modules: tuple[str, ...]
    plugins: tuple[Plugin, ...]

    @property
    def mcp_servers(self) -> tuple[McpServerConfig, ...]:
        """The MCP servers that the files name."""
        return tuple(server for file in self.files for server in file.mcp_servers)


async def load_host_tools(
    registry: HostToolRegistry,
    *,
    files: Sequence[str | PathLike[str]] = (),
    modules: Iterable[str] = (),
    plugins: bool = False,
    needs_tools: bool = True,
) -> LoadedHostTools:
    """Register the tools of files, then of modules, then of installed plugins.

    A file or module named twice is loaded once. Raises `InvalidTool` for a fault in a file or a
    module, and then the registry is unchanged; a broken plugin is only reported. Without
    `needs_tools` a module may have no tools.
    """
    with registry.all_or_nothing():
        paths = dict.fromkeys(str(Path(file)) for file in files)
        loaded = [load_host_tools_file(path) for path in paths]
        check_server_names(loaded)
        for file in loaded:
            registry.add_all(file.with_origins())
        module_names = tuple(dict.fromkeys(modules))
        for name in module_names:
            await load_host_tools_module(name, registry, needs_tools=needs_tools)
        loaded_plugins = await load_host_tools_plugins(registry) if plugins else ()
    return LoadedHostTools(tuple(loaded), module_names, loaded_plugins)


def check_server_names(files: Iterable[HostToolsFile]) -> None:
    """Raise `InvalidTool` when two files use the same server name."""
    file_of: dict[str, str] = {}
    for file in files:
        for server in file.mcp_servers:
            if server.name in file_of:
                raise InvalidTool(
                    f"{file.file}: mcp_servers.{server.name}: {file_of[server.name]} has a server "
                    "of that name already"
                )
            file_of[server.name] = file.file

"""All of a program's host tools at once: files, modules and plugins, whole or not at all.

Host tools from installed packages, by the entry points they declare.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from toolcrib.errors import InvalidTool
from toolcrib.host_tools.host_tools_file import HostToolsFile, load_host_tools_file
from toolcrib.host_tools.python_modules import install, load_host_tools_module
from toolcrib.host_tools.registrations import Origin
from toolcrib.host_tools.visibility import describe

if TYPE_CHECKING:
    from toolcrib.host_tools.registry import HostToolRegistry
    from toolcrib.mcp_client.config import McpServerConfig


GROUP = "toolcrib.host_tools"
"""The entry point group of packages that bring host tools."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Plugin:
    """What came of one entry point: its tools, or why there are none."""

    name: str
    package: str | None
    target: str
    """The module, or the object in it, that the entry point names."""
    tools: tuple[str, ...] = ()
    fault: str | None = None


async def load_host_tools_plugins(registry: HostToolRegistry) -> tuple[Plugin, ...]:
    """Register what installed packages bring under the group `toolcrib.host_tools`, by name.

    An entry point names a module, a setup function, a tool or a list of tools. One that is broken
    is reported and leaves nothing behind; the others are loaded.
    """
    found = sorted(entry_points(group=GROUP), key=lambda point: (point.name, point.value))
    return tuple([await _load(point, registry) for point in found])


async def _load(point: EntryPoint, registry: HostToolRegistry) -> Plugin:
    package = point.dist.name if point.dist is not None else None
    try:
        tools = await install(point.load(), registry, Origin(f"plugin {point.name}"))
    except (Exception, SystemExit) as error:
        logger.exception("the host tools plugin %r was not loaded", point.name)
        return Plugin(point.name, package, point.value, fault=describe(error))
    return Plugin(point.name, package, point.value, tools)


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

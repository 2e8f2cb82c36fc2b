"""Host tools from installed packages, by the entry points they declare."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING

from toolcrib.host_tools.module_tools import install
from toolcrib.host_tools.offer import describe
from toolcrib.host_tools.registration import Origin

if TYPE_CHECKING:
    from toolcrib.host_tools.registry import HostToolRegistry

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

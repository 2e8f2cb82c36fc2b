"""The options that a tool's configuration sets to something other than the default."""

from __future__ import annotations

from dataclasses import MISSING, Field, fields
from typing import Any, cast

from toolcrib.toolkits.apply_patch.types import ApplyPatchConfig
from toolcrib.tools.code_interpreter import (
    AutoContainer,
    CodeInterpreterConfig,
    Container,
    ExistingContainer,
)
from toolcrib.tools.computer import ComputerConfig
from toolcrib.tools.file_search import FileSearchConfig
from toolcrib.tools.image_generation import ImageGenerationConfig
from toolcrib.tools.mcp import McpConfig, ToolFilter
from toolcrib.tools.shell import ContainerShellConfig, HandlerShellConfig
from toolcrib.tools.tool_search import HandlerToolSearchConfig
from toolcrib.tools.web_fetch import WebFetchConfig
from toolcrib.tools.web_search import DomainFilter, GeoHint, WebSearchConfig
from toolcrib.tools.x_search import XSearchConfig


def options_of(config: object) -> dict[str, Any]:
    """The options that a tool's configuration sets, under the names of the matrix."""
    match config:
        case WebSearchConfig():
            others = _changed(config, but=("domain_filter", "geo_hint"))
            return {**_domains(config.domain_filter), **_place(config.geo_hint), **others}
        case WebFetchConfig(domain_filter=domains):
            return {**_domains(domains), **_changed(config, but=("domain_filter",))}
        case CodeInterpreterConfig(container=container) | ContainerShellConfig(container=container):
            return {**_container(container), **_changed(config, but=("container",))}
        case FileSearchConfig(ranking=ranking):
            changed = _changed(ranking) if ranking is not None else {}
            return {**_changed(config, but=("ranking",)), **_named("ranking", changed)}
        case ImageGenerationConfig() | ComputerConfig() | XSearchConfig():
            return _changed(config)
        case McpConfig():
            return _mcp(config)
        case HandlerShellConfig() | HandlerToolSearchConfig():
            return {"local": True, **_named("local", _changed(config))}
        case ApplyPatchConfig():
            return _changed(config, but=("root", "max_bytes", "protected"))
        case _:
            return {}


def _domains(domains: DomainFilter | None) -> dict[str, Any]:
    if domains is None:
        return {}
    lists = _named("domain_filter", _changed(domains))
    return {**lists, "domain_filter.both": True} if len(lists) > 1 else lists


def _place(hint: GeoHint | None) -> dict[str, Any]:
    """An empty hint is an option too: it says that the user has no particular place."""
    if hint is None:
        return {}
    return _named("geo_hint", _changed(hint)) or {"geo_hint.empty": True}


def _container(container: Container) -> dict[str, Any]:
    match container:
        case ExistingContainer(id=container_id):
            return {"container.id": container_id}
        case AutoContainer():
            return _named("container", _changed(container))


def _mcp(config: McpConfig) -> dict[str, Any]:
    """Approval counts as set unless it is 'never': the default asks, which must not be dropped."""
    options = _changed(config, but=("server_label", "account", "allowed_tools", "require_approval"))
    if config.require_approval != "never":
        options["require_approval"] = config.require_approval
    match config.allowed_tools:
        case None:
            pass
        case ToolFilter(names=names, read_only=read_only):
            options |= {"allowed_tools": names} if names else {}
            options |= {} if read_only is None else {"allowed_tools.read_only": read_only}
        case names:
            options["allowed_tools"] = names
    return options


def _named(prefix: str, options: dict[str, Any]) -> dict[str, Any]:
    return {f"{prefix}.{name}": value for name, value in options.items()}


def _changed(config: Any, *, but: tuple[str, ...] = ()) -> dict[str, Any]:
    """The fields of a dataclass that differ from their defaults."""
    return {
        option.name: getattr(config, option.name)
        for option in fields(config)
        if option.name not in but and getattr(config, option.name) != _default(option)
    }


def _default(option: Field[Any]) -> Any:
    if option.default_factory is not MISSING:
        return option.default_factory()
    # Without a default this is MISSING, which equals no value: the option counts as set.
    return cast("Any", option.default)

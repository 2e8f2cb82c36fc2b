"""Which options of a tool are set: those that ask for something other than the default."""

from __future__ import annotations

from dataclasses import MISSING, Field, fields
from typing import Any, cast

from toolcrib.tools.code_interpreter import (
    AutoContainer,
    CodeInterpreterConfig,
    Container,
    ExistingContainer,
)
from toolcrib.tools.file_search import FileSearchConfig
from toolcrib.tools.image_generation import ImageGenerationConfig
from toolcrib.tools.mcp import McpConfig, ToolFilter
from toolcrib.tools.shell import ContainerShellConfig, HandlerShellConfig
from toolcrib.tools.tool_search import HandlerToolSearchConfig
from toolcrib.tools.web_fetch import WebFetchConfig
from toolcrib.tools.web_search import DomainFilter, GeoHint, WebSearchConfig


def options_of(config: object) -> dict[str, Any]:
    """The options that a tool's configuration sets, under the names that the matrix knows."""
    match config:
        case WebSearchConfig(domain_filter=domains, geo_hint=hint):
            found = {**_domains(domains), **_place(hint)}
            return found if config.allow_live_access else {**found, "allow_live_access": False}
        case WebFetchConfig(domain_filter=domains):
            return {**_domains(domains), **_set(config, but=("domain_filter",))}
        case CodeInterpreterConfig(container=container):
            return _container(container)
        case FileSearchConfig(ranking=ranking):
            inner = _set(ranking) if ranking is not None else {}
            found = {f"ranking.{name}": value for name, value in inner.items()}
            return {**_set(config, but=("ranking",)), **found}
        case ImageGenerationConfig():
            return _set(config)
        case McpConfig():
            return _mcp(config)
        case ContainerShellConfig(container=container):
            return {**_container(container), **_set(config, but=("container",))}
        case HandlerShellConfig():
            return {"local": True, **_named("local", _set(config))}
        case HandlerToolSearchConfig():
            return {"local": True}
        case _:
            return {}


def _domains(domains: DomainFilter | None) -> dict[str, Any]:
    if domains is None:
        return {}
    found = _named("domain_filter", _set(domains))
    return {**found, "domain_filter.both": True} if len(found) > 1 else found


def _place(hint: GeoHint | None) -> dict[str, Any]:
    """An empty hint is an option too: it says that the user is nowhere in particular."""
    if hint is None:
        return {}
    return _named("geo_hint", _set(hint)) or {"geo_hint.empty": True}


def _container(container: Container) -> dict[str, Any]:
    match container:
        case ExistingContainer(id=container_id):
            return {"container.id": container_id}
        case AutoContainer():
            return _named("container", _set(container))


def _mcp(config: McpConfig) -> dict[str, Any]:
    """Approval counts as set unless it is 'never': the default asks, so it must not be lost."""
    found = _set(config, but=("server_label", "allowed_tools", "require_approval"))
    if config.require_approval != "never":
        found["require_approval"] = config.require_approval
    match config.allowed_tools:
        case None:
            pass
        case ToolFilter(names=names, read_only=read_only):
            found |= {"allowed_tools": names} if names else {}
            found |= {} if read_only is None else {"allowed_tools.read_only": read_only}
        case names:
            found["allowed_tools"] = names
    return found


def _named(prefix: str, found: dict[str, Any]) -> dict[str, Any]:
    return {f"{prefix}.{name}": value for name, value in found.items()}


def _set(config: Any, *, but: tuple[str, ...] = ()) -> dict[str, Any]:
    """The fields of a dataclass that differ from their defaults."""
    return {
        each.name: getattr(config, each.name)
        for each in fields(config)
        if each.name not in but and getattr(config, each.name) != _default(each)
    }


def _default(each: Field[Any]) -> Any:
    if each.default_factory is not MISSING:
        return each.default_factory()
    # What has no default is always set.
    return cast("Any", each.default)

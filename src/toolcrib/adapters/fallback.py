"""The local tool that a hosted one names for providers that cannot do it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any, cast

from toolcrib.adapters.support import options_of
from toolcrib.errors import UsageError
from toolcrib.tools.fallback import AnyFallback, as_fallback, local_tool
from toolcrib.tools.hosted import HostedTool

if TYPE_CHECKING:
    from toolcrib.tools.tool import Tool


def fallback_of(tool: Tool[Any, Any], why: UsageError) -> Tool[Any, Any] | None:
    """The local tool to offer, because the provider cannot do this one; None when none is named.

    Raises `UsageError` when an option is set that the local tool would ignore.
    """
    given = fallback_given(tool)
    if given is None:
        return None
    fallback, config = as_fallback(given), cast("HostedTool[Any]", tool).config
    ignored = fallback.not_honoured(_options(config))
    if ignored:
        raise UsageError(
            f"{why}. The fallback of {tool.name!r} cannot take its place, because it does not "
            f"honour {', '.join(ignored)}; leave that out, or give a Fallback that honours it"
        )
    return local_tool(tool.name, fallback.make(config))


def fallback_given(tool: Tool[Any, Any]) -> AnyFallback[Any]:
    """What a tool names for providers that cannot do it."""
    return cast("HostedTool[Any]", tool).fallback if isinstance(tool, HostedTool) else None


def _options(config: Any) -> Mapping[str, Any]:
    """The options that are set. Of a kind that the matrix does not know, every field that is not
    as it is by default.
    """
    return options_of(config) or {
        each.name: getattr(config, each.name)
        for each in fields(config)
        if each.default is MISSING or getattr(config, each.name) != each.default
    }

"""Which capability of a provider's a tool is, and whose: what a policy can go by."""

from __future__ import annotations

from typing import Any, cast

from toolcrib.tools.hosted import HostedTool
from toolcrib.tools.native import NativeTool
from toolcrib.tools.provider import ProviderTool
from toolcrib.tools.tool import Tool


def kind_of(tool: Tool[Any, Any]) -> str | None:
    """The kind of capability, whatever the tool is called; None for a tool of our own.

    A native tool's capability is its name. A provider tool's follows from its options, and is its
    name where they say nothing.
    """
    if isinstance(tool, HostedTool):
        return cast("HostedTool[Any]", tool).kind
    if isinstance(tool, NativeTool):
        return tool.name
    if isinstance(tool, ProviderTool):
        told = getattr(cast("ProviderTool[Any, Any, Any]", tool).config, "kind", None)
        return told if isinstance(told, str) else tool.name
    return None


def provider_of(tool: Tool[Any, Any]) -> str | None:
    """The provider that a tool is bound to; None when it is bound to none."""
    if isinstance(tool, ProviderTool):
        return cast("ProviderTool[Any, Any, Any]", tool).provider
    return None

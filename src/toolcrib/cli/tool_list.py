"""The list of tools without a runtime, where the options name nothing but plain modules."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

from toolcrib.cli.output import redirected_stdout
from toolcrib.cli.runtime_options import ANCHOR_OPTIONS, CALLER_OPTIONS, RuntimeOptions

if TYPE_CHECKING:
    from toolcrib.tools.tool import Tool

_NOT_ABOUT_TOOLS: Final = frozenset(
    {
        *ANCHOR_OPTIONS,
        *CALLER_OPTIONS,
        "adapter",
        "allow_egress",
        "approve_own_calls",
        "approver",
        "approver_place",
        "bind_to",
        "drain_seconds",
        "expect_tool",
        "hooks",
        "instructions",
        "policy",
        "project",
        "reload",
        "store",
        "taken",
        "uses_model",
    }
)
"""Options that change nothing in a list of tools. An option that is not named here is left to a
runtime."""


def plain_list(options: RuntimeOptions, category: str | None) -> dict[str, Any] | None:
    """What the operation `tools.list` tells of the tools, without their schemas; None when only a
    runtime can tell it.
    """
    project = options.project
    if not options.host_tools_module or _has_other_sources(options):
        return None
    if project is not None:
        if project.mcp_servers or project.mcp_servers_file or project.hosted_tools:
            return None
        from toolcrib.host_tools.python_modules import make_folder_importable

        make_folder_importable(project.folder)
    from toolcrib.host_tools.plain_tools import plain_tools

    with redirected_stdout():
        tools = plain_tools(options.host_tools_module)
    if tools is None:
        return None
    listed = [_facts(tool) for tool in tools if category in (None, tool.category)]
    return {"tools": listed, "unavailable": {}}


def _has_other_sources(options: RuntimeOptions) -> bool:
    nothing = RuntimeOptions()
    return any(
        field.name not in {*_NOT_ABOUT_TOOLS, "host_tools_module"}
        and getattr(options, field.name) != getattr(nothing, field.name)
        for field in fields(options)
    )


def _facts(tool: Tool[Any, Any]) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "source": "host",
        "place": tool.place,
        "scope": "global",
        "version": tool.version,
        "requires_approval": tool.requires_approval,
        "is_read_only": tool.is_read_only,
        "is_idempotent": tool.is_idempotent,
        "category": tool.category,
        "timeout": tool.timeout,
        "deprecated": tool.deprecated,
        "uses": list(tool.uses),
        "presentation": None if tool.presentation is None else dict(tool.presentation),
    }

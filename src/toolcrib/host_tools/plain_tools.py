"""The `@tool` functions of modules that are certain to be served, for commands that only list them.

A schema takes pydantic to build, and pydantic takes longer to import than everything else that a
list needs. A function whose arguments are of plain types has a valid schema in any case. All other
tools are left to the registry.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from inspect import Parameter
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from toolcrib.errors import InvalidTool
from toolcrib.host_tools.python_modules import SETUP_FUNCTION, import_named, tools_of
from toolcrib.tools.decorator import FunctionTool
from toolcrib.tools.signature import Argument, read_signature, resolve_types
from toolcrib.tools.tool import Tool

_PLAIN = frozenset({str, int, float, bool, NoneType})
_COLLECTIONS = frozenset({list, dict, tuple, set, frozenset})


def plain_tools(modules: Iterable[str]) -> list[Tool[Any, Any]] | None:
    """The tools of the modules, in order; None when only a registry can tell what is served."""
    tools: list[Tool[Any, Any]] = []
    try:
        for name in dict.fromkeys(modules):
            module = import_named(name)
            members = tools_of(module)
            if not members or hasattr(module, SETUP_FUNCTION):
                return None
            for member in members:
                if not isinstance(member, FunctionTool) or not _is_plain(member.tool):
                    return None
                tools.append(member.tool)
    except InvalidTool:
        # The registry says it, with the place.
        return None
    has_namesakes = len({tool.name for tool in tools}) < len(tools)
    return None if has_namesakes or _is_registry_used() else tools


def _is_registry_used() -> bool:
    """Whether a module has added tools by itself to the default registry."""
    registry: Any = sys.modules.get("toolcrib.host_tools.registry")
    return registry is not None and bool(registry.host_tool_registry.names())


def _is_plain(tool: Tool[Any, Any]) -> bool:
    has_conditions = tool.requires or tool.available_when is not None
    if has_conditions or tool.examples or tool.deprecated or tool.place != "local":
        return False
    function: Any = tool.handler
    signature = read_signature(function, tool.name)
    types = resolve_types(function, signature, tool.name)
    return _is_plain_type(tool.result_type) and all(
        _is_plain_argument(argument, types[argument.name]) for argument in signature.arguments
    )


def _is_plain_argument(argument: Argument, annotation: Any) -> bool:
    has_plain_default = argument.default is Parameter.empty or type(argument.default) in _PLAIN
    return has_plain_default and not argument.name.startswith("_") and _is_plain_type(annotation)


def _is_plain_type(annotation: Any) -> bool:
    if annotation is None or annotation is Any or annotation is Ellipsis:
        return True
    origin = get_origin(annotation)
    if origin is None:
        return annotation in _PLAIN or annotation in _COLLECTIONS
    if origin is Literal:
        return all(type(choice) in _PLAIN for choice in get_args(annotation))
    if origin in _COLLECTIONS or origin in (Union, UnionType):
        return all(_is_plain_type(part) for part in get_args(annotation))
    return False

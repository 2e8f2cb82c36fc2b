"""`transform`: a tool under another name, with other words and other arguments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from toolcrib.errors import InvalidTool
from toolcrib.tools.argument_transform import ArgumentTransform
from toolcrib.tools.prepared_tool import as_tool, prepare

if TYPE_CHECKING:
    from toolcrib.tools.audience import Audience
    from toolcrib.tools.tool import Tool


def transform(
    tool: object,
    *,
    name: str | None = None,
    description: str | None = None,
    fixed: Mapping[str, Any] | None = None,
    hidden: tuple[str, ...] = (),
    renamed: Mapping[str, str] | None = None,
    described: Mapping[str, str] | None = None,
    visible_to: Audience | None = None,
) -> Tool[Any, Any]:
    """Return another tool with the handler of `tool`, which stays as it is.

    `fixed` arguments are not shown and always have these values; `hidden` ones are not shown and
    left to the default; `renamed` has new names, and `described` new descriptions, by the names of
    the arguments. Raises `InvalidTool` for an argument that the tool does not have, and for a fixed
    value that it does not take.
    """
    original = as_tool(tool)
    if original.argument_transform is not None:
        raise InvalidTool(f"tool {original.name!r} is transformed already; transform the first one")
    arguments = ArgumentTransform(
        fixed=fixed or {}, hidden=hidden, renamed=renamed or {}, described=described or {}
    )
    changed = replace(
        original,
        name=name or original.name,
        description=description or original.description,
        # They show arguments as the handler takes them.
        examples=(),
        argument_transform=arguments,
        visible_to=visible_to or original.visible_to,
    )
    prepare(changed)
    return changed

"""Provider-run calls in the types that their tool was declared with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from toolcrib.adapters.codec import Invocation
    from toolcrib.tools.tool import Tool


def as_declared(tool: Tool[Any, Any], invocation: Invocation) -> Invocation:
    """The invocation with params and value of the tool's own types, where it has some and they can
    be filled: by the names of their fields, and `raw` with the provider's item.
    """
    params = _cast(tool.params_type, invocation.params, invocation)
    value = invocation.value
    if value is not None:
        value = _cast(tool.result_type, value, invocation)
    return replace(invocation, params=params, value=value)


def _cast(wanted: type[Any] | None, found: Any, invocation: Invocation) -> Any:
    if wanted is None or not is_dataclass(wanted) or isinstance(found, wanted):
        return found
    known = {**_members(found), "raw": dict(invocation.raw)}
    names = {each.name for each in fields(wanted)}
    make: Callable[..., Any] = wanted
    try:
        return make(**{name: value for name, value in known.items() if name in names})
    except (TypeError, ValueError):
        # What the provider tells is not enough, or not right, for the type: better it than nothing.
        return found


def _members(found: Any) -> dict[str, Any]:
    if isinstance(found, dict):
        return dict(cast("dict[str, Any]", found))
    if not is_dataclass(found):
        return {}
    return {each.name: getattr(found, each.name) for each in fields(found)}

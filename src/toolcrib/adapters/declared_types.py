"""Provider-run calls in the types that their tool was declared with."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, Final, cast

from toolcrib.errors import UsageError
from toolcrib.tools.result import ToolRenderableResult

if TYPE_CHECKING:
    from toolcrib.adapters.codec import HostedToolCodec, Invocation
    from toolcrib.tools.tool import Tool

logger = logging.getLogger(__name__)

_ITEM: Final = frozenset({"payload", "raw"})
"""Fields of these names get the provider's item as it came."""


def check_declared(tool: Tool[Any, Any], codec: HostedToolCodec[Any, Any]) -> None:
    """Refuse types that ask for what no call of this kind tells. Raises `UsageError`."""
    for part in ("params_type", "result_type"):
        wanted, told = getattr(tool, part), getattr(codec, part, None)
        if told is None or not is_dataclass(wanted) or wanted is told:
            continue
        known = _names(told) | _ITEM
        lacking = sorted(_required(wanted) - known)
        if lacking:
            raise UsageError(
                f"tool {tool.name!r}: the {part} asks for {lacking[0]!r}, which a call of "
                f"{codec.kind} does not tell; give that field a default, or use what there is: "
                f"{', '.join(sorted(known))}"
            )


def as_declared(tool: Tool[Any, Any], invocation: Invocation) -> Invocation:
    """The invocation with params and value of the tool's own types, where it has some and they can
    be filled by the names of their fields. A value that renders itself says what the message is.
    """
    params = _cast(tool.params_type, invocation.params, invocation)
    value = invocation.value
    if value is not None:
        value = _cast(tool.result_type, value, invocation)
    message = invocation.message
    if value is not invocation.value and invocation.success:
        message = _rendered(value, message)
    return replace(invocation, params=params, value=value, message=message)


def _cast(wanted: type[Any] | None, found: Any, invocation: Invocation) -> Any:
    if wanted is None or not is_dataclass(wanted) or isinstance(found, wanted):
        return found
    make: Callable[..., Any] = wanted
    try:
        return make(**_told(found, fields(wanted), invocation))
    except (TypeError, ValueError):
        # What the provider tells is not enough, or not right, for the type: better it than nothing.
        return found


def _told(found: Any, wanted: Sequence[Field[Any]], invocation: Invocation) -> dict[str, Any]:
    """What there is for the fields of a type."""
    names = [each.name for each in wanted if each.init]
    item = {name: dict(invocation.raw) for name in names if name in _ITEM}
    if isinstance(found, dict):
        members = cast("dict[str, Any]", found)
        return item | {name: members[name] for name in names if name in members}
    known = _names(cast("type[Any]", type(found)))
    return item | {name: getattr(found, name) for name in names if name in known}


def _rendered(value: Any, message: str) -> str:
    if not isinstance(value, ToolRenderableResult):
        return message
    try:
        return value.render()
    except Exception:
        logger.exception("%s cannot be rendered", type(value).__name__)
        return message


def _names(told: type[Any]) -> set[str]:
    """What can be read off a value of this type: its fields, and what it works out from them."""
    listed = fields(told) if is_dataclass(told) else ()
    derived = (name for name, member in vars(told).items() if isinstance(member, property))
    return {*(each.name for each in listed), *derived}


def _required(wanted: Any) -> set[str]:
    return {
        each.name
        for each in fields(wanted)
        if each.init and each.default is MISSING and each.default_factory is MISSING
    }

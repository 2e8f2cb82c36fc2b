"""Provider-run calls in the types that their tool was declared with."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from pydantic_core import to_json

from toolcrib.adapters.fitting import (
    ITEM,
    adapter_of,
    arguments_of,
    misfit,
    told_names,
)
from toolcrib.errors import UsageError
from toolcrib.tools.prepared import prepare
from toolcrib.tools.result import ToolRenderableResult

if TYPE_CHECKING:
    from toolcrib.adapters.client_calls import AnyProviderTool, ClientCodec
    from toolcrib.adapters.codec import HostedToolCodec, Invocation
    from toolcrib.tools.tool import Tool

logger = logging.getLogger(__name__)


def check_declared(tool: Tool[Any, Any], codec: HostedToolCodec[Any, Any]) -> None:
    """Refuse types that ask for what no call of this kind tells, or that cannot hold what it does.
    Raises `UsageError`.
    """
    for part in ("params_type", "result_type"):
        wanted: type[Any] | None = getattr(tool, part)
        told: type[Any] | None = getattr(codec, part, None)
        if told is None or wanted is None or wanted is told or not is_dataclass(wanted):
            continue
        known = told_names(told) | ITEM
        lacking = sorted(_required(wanted) - known)
        if lacking:
            raise UsageError(
                f"tool {tool.name!r}: the {part} asks for {lacking[0]!r}, which a call of "
                f"{codec.kind} does not tell; give that field a default, or use what there is: "
                f"{', '.join(sorted(known))}"
            )
        wrong = misfit(wanted, told)
        if wrong is not None:
            raise UsageError(
                f"tool {tool.name!r}: the {part} {wanted.__name__} does not fit what a call of "
                f"{codec.kind} tells: {wrong}"
            )


def check_arguments(tool: AnyProviderTool, codec: ClientCodec) -> None:
    """Refuse a tool of ours that cannot take the calls of a kind whose shape the provider owns: all
    of them would fail. Raises `UsageError`.
    """
    told = codec.params_type
    if told is None or tool.params_type is told:
        return
    params = prepare(tool).params
    for arguments in arguments_of(told):
        try:
            params.parse(to_json(arguments))
        except ValueError as error:
            fault = params.faults(error)[0]
            raise UsageError(
                f"tool {tool.name!r}: its arguments do not fit a call of {codec.kind}, which has: "
                f"{', '.join(arguments)}; {fault.pointer or '/'}: {fault.message}"
            ) from None


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
    adapter = adapter_of(wanted)
    make: Callable[..., Any] = wanted
    try:
        told = _told(found, fields(wanted), invocation)
        return make(**told) if adapter is None else adapter.validate_python(told)
    except (TypeError, ValueError):
        # What the provider tells is not enough, or not right, for the type: better it than nothing.
        return found


def _told(found: Any, wanted: Sequence[Field[Any]], invocation: Invocation) -> dict[str, Any]:
    """What there is for the fields of a type."""
    names = [each.name for each in wanted if each.init]
    item = {name: dict(invocation.raw) for name in names if name in ITEM}
    if isinstance(found, dict):
        members = cast("dict[str, Any]", found)
        return item | {name: members[name] for name in names if name in members}
    known = told_names(cast("type[Any]", type(found)))
    return item | {name: getattr(found, name) for name in names if name in known}


def _rendered(value: Any, message: str) -> str:
    if not isinstance(value, ToolRenderableResult):
        return message
    try:
        return value.render()
    except Exception:
        logger.exception("%s cannot be rendered", type(value).__name__)
        return message


def _required(wanted: Any) -> set[str]:
    return {
        each.name
        for each in fields(wanted)
        if each.init and each.default is MISSING and each.default_factory is MISSING
    }

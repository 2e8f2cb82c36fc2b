"""Provider-run calls in the types that their tool was declared with.

Whether types can hold what a provider's calls tell, tried out with samples of all they tell.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass, replace
from functools import lru_cache
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Literal,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import PydanticUserError, TypeAdapter, ValidationError
from pydantic_core import to_json

from toolcrib.errors import UsageError
from toolcrib.tools.prepared_tool import prepare
from toolcrib.tools.result import ToolRenderableResult

if TYPE_CHECKING:
    from toolcrib.adapters.codec import HostedToolCodec, Invocation
    from toolcrib.adapters.tool_calls import AnyProviderTool, ClientCodec
    from toolcrib.tools.tool import Tool


ITEM: Final = frozenset({"payload", "raw"})
"""Fields of these names get the provider's item as it came."""

_PLAIN: Final[Mapping[Any, Any]] = {
    str: "text",
    int: 1,
    float: 1.5,
    bool: True,
    bytes: b"data",
    NoneType: None,
}


def adapter_of(wanted: Any) -> TypeAdapter[Any] | None:
    """What makes a value of a type from what is told; None for types that only Python knows."""
    try:
        return _adapter(wanted)
    except (PydanticUserError, NameError, TypeError):
        return None


@lru_cache(maxsize=256)
def _adapter(wanted: Any) -> TypeAdapter[Any]:
    return TypeAdapter(wanted)


def told_names(told: type[Any]) -> set[str]:
    """What can be read off a value of this type: its fields, and what it works out from them."""
    listed = fields(told) if is_dataclass(told) else ()
    derived = (name for name, member in vars(told).items() if isinstance(member, property))
    return {*(each.name for each in listed), *derived}


def misfit(wanted: type[Any], told: type[Any]) -> str | None:
    """Which field cannot hold what is told under its name, and why; None when all can."""
    for name, hint in _hints(wanted).items():
        for sample in _samples_of(told, name):
            why = _refusal(hint, sample)
            if why is not None:
                return f"{name!r} must take {sample!r} and the like, but: {why}"
    return None


def arguments_of(told: type[Any]) -> Iterator[dict[str, Any]]:
    """Arguments as calls may have them: all that there are, with each sort of each."""
    sorts = {name: _present(_samples_of(told, name)) for name in _hints(told)}
    whole = {name: samples[0] for name, samples in sorts.items() if samples}
    for name, samples in sorts.items():
        for sample in samples:
            yield {**whole, name: sample}


def _present(samples: list[Any]) -> list[Any]:
    """An argument that is None is left out of a call."""
    return [sample for sample in samples if sample is not None]


def _refusal(hint: Any, sample: Any) -> str | None:
    adapter = adapter_of(hint)
    try:
        if adapter is not None:
            adapter.validate_python(sample)
    except ValidationError as error:
        return error.errors(include_url=False)[0]["msg"]
    return None


def _samples_of(told: type[Any], name: str) -> list[Any]:
    """Values of every sort that is told under a name; none where any may be."""
    if name in ITEM:
        return [{"type": "call"}]
    member = vars(told).get(name)
    if isinstance(member, property):
        return list(_samples(get_type_hints(member.fget).get("return", Any)))
    return list(_samples(_hints(told).get(name, Any)))


def _samples(hint: Any) -> Iterator[Any]:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        for each in arguments:
            yield from _samples(each)
    elif origin is Literal:
        yield from arguments
    elif origin in (tuple, list):
        members = [each for each in arguments if each is not ...]
        yield origin(sample for each in members for sample in _samples(each))
    elif origin is not None and issubclass(origin, Mapping):
        yield {}
    elif hint in _PLAIN:
        yield _PLAIN[hint]
    elif is_dataclass(hint) and isinstance(hint, type):
        yield _filled(hint)


def _filled(made: type[Any]) -> Any:
    hints = _hints(made)
    required = [
        each.name
        for each in fields(made)
        if each.init and each.default is MISSING and each.default_factory is MISSING
    ]
    return made(**{name: next(_samples(hints[name]), None) for name in required})


def _hints(of: type[Any]) -> dict[str, Any]:
    """The types of the fields; of those that cannot be resolved, none."""
    try:
        hints = get_type_hints(of, include_extras=True)
    except NameError:
        return {}
    return {each.name: hints[each.name] for each in fields(of) if each.init}


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

"""Provider-run calls in the types that their tool declares.

Whether a type can hold the calls of a kind is tried with samples before anything is sent.
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
    from toolcrib.adapters.codec import HostedToolCodec, Invocation, RawItem
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
    """The adapter that builds values of a type; None for types that pydantic does not know."""
    try:
        return _adapter(wanted)
    except (PydanticUserError, NameError, TypeError):
        return None


@lru_cache(maxsize=256)
def _adapter(wanted: Any) -> TypeAdapter[Any]:
    return TypeAdapter(wanted)


def provided_names(provided: type[Any]) -> set[str]:
    """The names that can be read from a value of this type: its fields and its properties."""
    listed = fields(provided) if is_dataclass(provided) else ()
    derived = (name for name, member in vars(provided).items() if isinstance(member, property))
    return {*(member.name for member in listed), *derived}


def misfit(wanted: type[Any], provided: type[Any]) -> str | None:
    """Which field cannot hold what comes under its name, and why; None when all can."""
    for name, hint in _hints(wanted).items():
        for sample in _samples_of(provided, name):
            why = _refusal(hint, sample)
            if why is not None:
                return f"{name!r} must take {sample!r} and the like, but: {why}"
    return None


def arguments_of(provided: type[Any]) -> Iterator[dict[str, Any]]:
    """Arguments as calls may have them: all fields, with every sample of each."""
    sorts = {name: _present(_samples_of(provided, name)) for name in _hints(provided)}
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


def _samples_of(provided: type[Any], name: str) -> list[Any]:
    """Sample values of every type under a name; none where any value may come."""
    if name in ITEM:
        return [{"type": "call"}]
    member = vars(provided).get(name)
    if isinstance(member, property):
        return list(_samples(get_type_hints(member.fget).get("return", Any)))
    return list(_samples(_hints(provided).get(name, Any)))


def _samples(hint: Any) -> Iterator[Any]:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        for argument in arguments:
            yield from _samples(argument)
    elif origin is Literal:
        yield from arguments
    elif origin in (tuple, list):
        members = [argument for argument in arguments if argument is not ...]
        yield origin(sample for member in members for sample in _samples(member))
    elif origin is not None and issubclass(origin, Mapping):
        yield {}
    elif hint in _PLAIN:
        yield _PLAIN[hint]
    elif is_dataclass(hint) and isinstance(hint, type):
        yield _filled(hint)


def _filled(cls: type[Any]) -> Any:
    hints = _hints(cls)
    required = [
        member.name
        for member in fields(cls)
        if member.init and member.default is MISSING and member.default_factory is MISSING
    ]
    return cls(**{name: next(_samples(hints[name]), None) for name in required})


def _hints(of: type[Any]) -> dict[str, Any]:
    """The types of the fields; empty when they cannot be resolved."""
    try:
        hints = get_type_hints(of, include_extras=True)
    except NameError:
        return {}
    return {member.name: hints[member.name] for member in fields(of) if member.init}


logger = logging.getLogger(__name__)


def check_declared(tool: Tool[Any, Any], codec: HostedToolCodec[Any, Any]) -> None:
    """Refuse types with required fields that no call of this kind has, or that cannot hold its
    values. Raises `UsageError`.
    """
    for part in ("params_type", "result_type"):
        wanted: type[Any] | None = getattr(tool, part)
        provided: type[Any] | None = getattr(codec, part, None)
        if provided is None or wanted is None or wanted is provided or not is_dataclass(wanted):
            continue
        known = provided_names(provided) | ITEM
        lacking = sorted(_required(wanted) - known)
        if lacking:
            raise UsageError(
                f"tool {tool.name!r}: the {part} asks for {lacking[0]!r}, which a call of "
                f"{codec.kind} does not tell; give that field a default, or use what there is: "
                f"{', '.join(sorted(known))}"
            )
        wrong = misfit(wanted, provided)
        if wrong is not None:
            raise UsageError(
                f"tool {tool.name!r}: the {part} {wanted.__name__} does not fit what a call of "
                f"{codec.kind} tells: {wrong}"
            )


def check_arguments(tool: AnyProviderTool, codec: ClientCodec) -> None:
    """Refuse a client-run tool that cannot take the arguments that the provider defines: every call
    would fail. Raises `UsageError`.
    """
    provided = codec.params_type
    if provided is None or tool.params_type is provided:
        return
    params = prepare(tool).params
    for arguments in arguments_of(provided):
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
    params = cast_value(tool.params_type, invocation.params, invocation.raw)
    value = invocation.value
    if value is not None:
        value = cast_value(tool.result_type, value, invocation.raw)
    message = invocation.message
    if value is not invocation.value and invocation.success:
        message = _rendered(value, message)
    return replace(invocation, params=params, value=value, message=message)


def cast_value(wanted: type[Any] | None, value: Any, raw: RawItem) -> Any:
    """A value as one of a type, which is filled by the names of its fields; the value itself when
    it does not fit. Fields for the whole item get `raw`.
    """
    if wanted is None or not is_dataclass(wanted) or isinstance(value, wanted):
        return value
    adapter = adapter_of(wanted)
    make: Callable[..., Any] = wanted
    try:
        provided = _members(value, fields(wanted), raw)
        return make(**provided) if adapter is None else adapter.validate_python(provided)
    except (TypeError, ValueError):
        # The values do not fit the type: the provider's own value is better than none.
        return value


def _members(value: Any, wanted: Sequence[Field[Any]], raw: RawItem) -> dict[str, Any]:
    """The values for the fields of a type."""
    names = [member.name for member in wanted if member.init]
    item = {name: dict(raw) for name in names if name in ITEM}
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        return item | {name: members[name] for name in names if name in members}
    known = provided_names(cast("type[Any]", type(value)))
    return item | {name: getattr(value, name) for name in names if name in known}


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
        member.name
        for member in fields(wanted)
        if member.init and member.default is MISSING and member.default_factory is MISSING
    }

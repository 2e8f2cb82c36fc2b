"""Structured output: the schema of an answer, and the value parsed from it."""

from __future__ import annotations

from dataclasses import dataclass, is_dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Generic,
    Literal,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
)

from toolcrib.errors import InvalidPrompt, OutputMismatch
from toolcrib.tools.example import is_typed_dict
from toolcrib.tools.faults import HIDDEN, explain

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError

O_co = TypeVar("O_co", covariant=True)

_MOST_FAULTS = 5


WRAPPED = "value"
"""The only field of an answer whose type has no fields of its own: providers ask for an object."""


@dataclass(frozen=True, slots=True, eq=False)
class OutputSchema(Generic[O_co]):
    """The schema of a structured answer."""

    name: str
    schema: dict[str, Any]
    adapter: TypeAdapter[Any]
    is_wrapped: bool = False
    """Whether the answer is an object with the value in its one field."""

    def parse(self, text: str) -> O_co:
        """Parse an answer. Raises `OutputMismatch`."""
        from pydantic import ValidationError

        try:
            answer = self.adapter.validate_json(text)
        except ValidationError as error:
            what = "; ".join(_faults(error, self.schema)[:_MOST_FAULTS])
            raise OutputMismatch(f"the answer does not fit {self.name}: {what}") from None
        return getattr(answer, WRAPPED) if self.is_wrapped else answer


def check_output_type(output_type: object) -> None:
    """Refuse a type that no JSON answer can have."""
    cls = cast("Any", get_origin(output_type) or output_type)
    is_filled = bool(get_args(output_type)) and cls in _CONTAINERS
    is_plain = isinstance(output_type, type) and (
        output_type in _PLAIN or issubclass(output_type, Enum)
    )
    if has_fields(output_type) or is_filled or is_plain:
        return
    raise InvalidPrompt(
        "a prompt's output is a dataclass, a pydantic model, a TypedDict, a number, a bool, an "
        f"Enum, a Literal, a union, or a list, tuple or dict of such, not {output_type!r}; leave "
        "it out for plain text"
    )


_CONTAINERS: Final[tuple[Any, ...]] = (list, tuple, dict, set, frozenset, Union, UnionType, Literal)
_PLAIN: Final[tuple[Any, ...]] = (int, float, bool)


def has_fields(output_type: object) -> bool:
    """Whether a type is an object with named fields."""
    # A generic dataclass with its types filled in is no class, but is made from one.
    cls = cast("Any", get_origin(output_type) or output_type)
    # The attribute tells a pydantic model without importing pydantic.
    is_object = is_dataclass(cls) or hasattr(cls, "__pydantic_fields__") or is_typed_dict(cls)
    return isinstance(cls, type) and is_object


def output_schema(output_type: Any) -> OutputSchema[Any]:
    """Return the schema of an output type; one without fields is wrapped in an object."""
    from pydantic import PydanticUndefinedAnnotation, PydanticUserError, TypeAdapter

    check_output_type(output_type)
    name, is_wrapped = _name(output_type), not has_fields(output_type)
    try:
        asked = _wrapped(output_type) if is_wrapped else output_type
        adapter: TypeAdapter[Any] = TypeAdapter(asked)
        return OutputSchema(name, adapter.json_schema(), adapter, is_wrapped)
    except (PydanticUserError, PydanticUndefinedAnnotation) as error:
        why = error.message.partition("\n")[0]
        raise InvalidPrompt(f"the output type {name} has no JSON schema: {why}") from error


def _wrapped(output_type: Any) -> Any:
    from pydantic import create_model

    fields: dict[str, Any] = {WRAPPED: (output_type, ...)}
    return create_model("Answer", **fields)


def _name(output_type: Any) -> str:
    if isinstance(output_type, UnionType) or get_origin(output_type) is Union:
        return " | ".join(map(_name, get_args(output_type)))
    if output_type is NoneType:
        return "None"
    filled = ", ".join(map(_name, get_args(output_type)))
    name: str = getattr(output_type, "__name__", None) or str(output_type)
    return f"{name}[{filled}]" if filled else name


def _faults(error: ValidationError, schema: dict[str, Any]) -> list[str]:
    from pydantic_core.core_schema import ErrorType

    # Anything else comes from a validator of the type's own, whose words may quote the answer.
    known = {*get_args(ErrorType)} - {"value_error", "assertion_error"}
    kinds = [details["type"] for details in error.errors(include_url=False, include_input=False)]
    return [
        f"{fault.pointer}: {message}" if fault.pointer else message
        for kind, fault in zip(kinds, explain(error, schema), strict=True)
        for message in [fault.message if kind in known else HIDDEN]
    ]

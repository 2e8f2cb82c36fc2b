"""Structured output: the schema of an answer, and the value parsed from it."""

from __future__ import annotations

from dataclasses import dataclass, is_dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, get_args, get_origin

from toolcrib.errors import InvalidPrompt, OutputMismatch
from toolcrib.tools.faults import HIDDEN, explain

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError

O_co = TypeVar("O_co", covariant=True)

_MOST_FAULTS = 5


@dataclass(frozen=True, slots=True, eq=False)
class OutputSchema(Generic[O_co]):
    """The schema of a structured answer."""

    name: str
    schema: dict[str, Any]
    adapter: TypeAdapter[Any]

    def parse(self, text: str) -> O_co:
        """Parse an answer. Raises `OutputMismatch`."""
        from pydantic import ValidationError

        try:
            return self.adapter.validate_json(text)
        except ValidationError as error:
            what = "; ".join(_faults(error, self.schema)[:_MOST_FAULTS])
            raise OutputMismatch(f"the answer does not fit {self.name}: {what}") from None


def check_output_type(output_type: object) -> None:
    """Refuse a type without fields."""
    # A generic dataclass with its types filled in is no class, but is made from one.
    cls = cast("Any", get_origin(output_type) or output_type)
    # The attribute tells a pydantic model without importing pydantic.
    has_fields = is_dataclass(cls) or hasattr(cls, "__pydantic_fields__")
    if isinstance(cls, type) and has_fields:
        return
    raise InvalidPrompt(
        f"a prompt's output is a dataclass or a pydantic model, not {output_type!r}; "
        "leave it out for plain text"
    )


def output_schema(output_type: Any) -> OutputSchema[Any]:
    """Return the schema of a dataclass or a pydantic model."""
    from pydantic import PydanticUndefinedAnnotation, PydanticUserError, TypeAdapter

    check_output_type(output_type)
    name = _name(output_type)
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(output_type)
        return OutputSchema(name, adapter.json_schema(), adapter)
    except (PydanticUserError, PydanticUndefinedAnnotation) as error:
        why = error.message.partition("\n")[0]
        raise InvalidPrompt(f"the output type {name} has no JSON schema: {why}") from error


def _name(output_type: Any) -> str:
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

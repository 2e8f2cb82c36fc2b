"""Structured output: the schema a model must keep to, and the value made from its answer."""

from __future__ import annotations

from dataclasses import dataclass, is_dataclass
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from toolcrib.errors import InvalidPrompt

O_co = TypeVar("O_co", covariant=True)


class OutputMismatch(ValueError):
    """An answer that is not the JSON that was asked for; says where, without repeating it."""


@dataclass(frozen=True, slots=True, eq=False)
class OutputSchema(Generic[O_co]):
    """What the answer must look like."""

    name: str
    schema: dict[str, Any]
    adapter: TypeAdapter[Any]

    def parse(self, text: str) -> O_co:
        """The value in the answer. Raises `OutputMismatch`."""
        try:
            return self.adapter.validate_json(text)
        except ValidationError as error:
            faults = error.errors(include_input=False, include_url=False)
            where = "; ".join(
                f"/{'/'.join(str(part) for part in fault['loc'])}: {fault['msg']}"
                for fault in faults[:5]
            )
            raise OutputMismatch(f"the answer is not a {self.name}: {where}") from None


def output_schema(output_type: Any) -> OutputSchema[Any]:
    """The schema of a dataclass or a pydantic model."""
    is_type = isinstance(output_type, type)
    if not (is_type and (is_dataclass(output_type) or issubclass(output_type, BaseModel))):
        raise InvalidPrompt(
            f"a prompt's output is a dataclass or a pydantic model, not {output_type!r}; "
            "leave it out for plain text"
        )
    adapter: TypeAdapter[Any] = TypeAdapter(output_type)
    return OutputSchema(output_type.__name__, adapter.json_schema(), adapter)

"""Worked examples of a call, shown to the model in the text of a section."""

from __future__ import annotations

import types
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, Union, cast, get_args, get_origin

from toolcrib.errors import InvalidTool
from toolcrib.tools.type_arguments import TypeArguments

P = TypeVar("P")
R = TypeVar("R")

LONGEST_DESCRIPTION = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolExample(TypeArguments, Generic[P, R]):
    """One worked call: its purpose, its params and its result.

    The tool that carries the example checks that `input` and `output` have the tool's own types.
    """

    description: str
    input: P
    output: R

    def __post_init__(self) -> None:
        if not 1 <= len(self.description.strip()) <= LONGEST_DESCRIPTION:
            raise InvalidTool(
                f"a ToolExample needs a description of 1 to {LONGEST_DESCRIPTION} characters; "
                f"this one has {len(self.description)}"
            )


def fits(value: object, annotation: Any) -> bool:
    """Whether `value` has the type; `None` as a type means that there is no value."""
    if annotation is Any:
        return True
    if annotation is None or annotation is type(None):
        return value is None
    origin = get_origin(annotation)
    if origin in (Union, types.UnionType):
        return any(fits(value, choice) for choice in get_args(annotation))
    if is_typed_dict(annotation):
        return isinstance(value, dict)
    expected = origin or annotation
    # What is not a class (a Literal, a type variable) cannot be checked here, so it may pass.
    return not isinstance(expected, type) or isinstance(value, cast("type[object]", expected))


def is_typed_dict(annotation: Any) -> bool:
    """Whether a type is a TypedDict, from `typing` or from `typing_extensions`."""
    return isinstance(annotation, type) and hasattr(annotation, "__required_keys__")

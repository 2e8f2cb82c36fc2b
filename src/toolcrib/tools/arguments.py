"""A function's arguments as one validated object.

The validator is put together from the types of the parameters. A TypedDict made on the fly would
do the same, but takes pydantic three times as long to read.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, cast

from pydantic import AliasChoices, AliasPath, GetCoreSchemaHandler
from pydantic.fields import FieldInfo
from pydantic_core import core_schema

from toolcrib.errors import InvalidTool
from toolcrib.tools.docstring import argument_descriptions
from toolcrib.tools.signature import Argument, Signature, resolve_types

if TYPE_CHECKING:
    from pydantic_core import CoreSchema


@dataclass(frozen=True, slots=True)
class _Field:
    """One argument as pydantic takes it. `key` is what it is called in JSON."""

    argument: Argument
    annotation: Any
    key: str | None

    def schema(self, handler: GetCoreSchemaHandler) -> core_schema.TypedDictField:
        schema = handler.generate_schema(self.annotation)
        default = self.argument.default
        if not self.argument.is_required and not isinstance(default, FieldInfo):
            schema = core_schema.with_default_schema(schema, default=default)
        is_required = schema["type"] != "default"
        return core_schema.typed_dict_field(schema, required=is_required, validation_alias=self.key)


class FunctionArguments:
    """What pydantic reads in place of a type: an object with one key for each argument."""

    def __init__(self, function: Callable[..., Any], signature: Signature, tool: str) -> None:
        types = resolve_types(function, signature, tool)
        self._function = function
        self._fields = [
            _field(tool, argument, types[argument.name]) for argument in signature.arguments
        ]

    def describe(self, schema: dict[str, Any]) -> None:
        """Add what the docstring says to each argument that has no description of its own."""
        described = argument_descriptions(self._function)
        for field in self._fields if described else ():
            text = described.get(field.argument.name)
            if text:
                property = schema["properties"][field.key or field.argument.name]
                property.setdefault("description", text)

    def __get_pydantic_core_schema__(self, _: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        fields = {field.argument.name: field.schema(handler) for field in self._fields}
        # Said here again: fields that are no types of their own take their rules from nowhere else.
        config = core_schema.CoreConfig(strict=True, allow_inf_nan=False)
        return core_schema.typed_dict_schema(fields, extra_behavior="forbid", config=config)


def _field(tool: str, argument: Argument, annotation: Any) -> _Field:
    own = list(cast("tuple[Any, ...]", getattr(annotation, "__metadata__", ())))
    plain = annotation.__origin__ if own else annotation
    if isinstance(argument.default, FieldInfo):
        own.append(argument.default)
    key = _key(tool, argument.name, own)
    notes = [_without_alias(note) for note in own]
    typed = Annotated[(plain, *notes)] if notes else plain
    return _Field(argument, typed, key)


def _key(tool: str, name: str, notes: list[Any]) -> str | None:
    aliases = [note.validation_alias for note in notes if isinstance(note, FieldInfo)]
    alias = next((found for found in reversed(aliases) if found is not None), None)
    if isinstance(alias, AliasPath | AliasChoices):
        raise InvalidTool(
            f"tool {tool!r}: parameter {name!r} has more than one place in the arguments; "
            "give it one alias, as text"
        )
    return alias


def _without_alias(note: Any) -> Any:
    # pydantic warns of an alias where it would have no effect; here the key takes care of it.
    if not isinstance(note, FieldInfo) or note.validation_alias is None:
        return note
    plain = copy.copy(note)
    plain.alias = plain.validation_alias = plain.serialization_alias = None
    return plain

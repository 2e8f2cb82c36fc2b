"""The params of a tool: the JSON Schema that the model reads and the parser of what it sends.

Validation is strict: nothing is coerced, and unknown keys are faults unless the type allows them.
The validator of a function is assembled from the types of its parameters: a TypedDict made on the
fly would do the same, but takes pydantic three times as long to read.
"""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, cast

from pydantic import AliasChoices, AliasPath, ConfigDict, GetCoreSchemaHandler, TypeAdapter
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import CoreSchema, SchemaError, SchemaValidator, core_schema, to_json
from typing_extensions import TypeAliasType, TypedDict

from toolcrib.errors import InvalidTool
from toolcrib.tools.argument_names import ArgumentNames
from toolcrib.tools.canonical import Canonical, Dump, canonical_of
from toolcrib.tools.faults import explain
from toolcrib.tools.json_schema import cost_of, input_parser
from toolcrib.tools.secrets import is_secret
from toolcrib.tools.signature import (
    Argument,
    Signature,
    argument_descriptions,
    read_signature,
    resolve_types,
)

if TYPE_CHECKING:
    from toolcrib.failures import Fault
    from toolcrib.tools.schema_cost import SchemaCost
    from toolcrib.tools.tool import Tool


@dataclass(frozen=True, slots=True)
class _Field:
    """One argument as pydantic needs it. `key` is its name in JSON."""

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
    """The arguments of a function in a form that pydantic reads like a type: an object with one key
    per argument.
    """

    def __init__(self, function: Callable[..., Any], signature: Signature, tool: str) -> None:
        types = resolve_types(function, signature, tool)
        self._function = function
        self._fields = [
            _field(tool, argument, types[argument.name]) for argument in signature.arguments
        ]

    def describe(self, schema: dict[str, Any]) -> None:
        """Add the description in the docstring to each argument that has none of its own."""
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
    alias = next((alias for alias in reversed(aliases) if alias is not None), None)
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


STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
"""The default configuration of argument types: "5" is no number, unknown keys are faults, and NaN,
which JSON lacks, is refused."""

_JSON_SCALARS = frozenset({str, int, bool, type(None)})

# Not a type alias to a type checker: it is made from a value.
_alias: Any = TypeAliasType

_TIGHT: dict[str, Any] = {
    "strict": True,
    "extra_fields_behavior": "forbid",
    "allow_inf_nan": False,
}


@dataclass(frozen=True, slots=True)
class StrictType:
    """A type prepared for JSON: `parse` validates text or bytes, `schema` describes them, and
    `canonical` writes what `parse` returned.
    """

    parse: Callable[[bytes | str], Any]
    schema: dict[str, Any]
    canonical: Canonical


def strict_type(tool: str, annotation: Any) -> StrictType:
    """Prepare a dataclass, model or TypedDict. Its own configuration, if any, takes precedence."""
    adapter = _adapter(annotation)
    generator = _ArgumentsSchema()
    schema = _inlined(generator.generate(adapter.core_schema, mode="validation"))
    validator = adapter.validator
    if generator.saw_own_config:
        # Without this, classes with a validator of their own would keep using it.
        rebuild = functools.partial(SchemaValidator, _use_prebuilt=False)
        validator = rebuild(cast("CoreSchema", _tightened(adapter.core_schema)))
    canonical = canonical_of(tool, adapter.core_schema)
    parse = validator.validate_json
    if canonical.is_by_name:
        # The schema shows names where an alias is a path, so they must be taken.
        parse = functools.partial(parse, by_alias=True, by_name=True)
    return StrictType(parse, schema, canonical)


def _adapter(annotation: Any) -> TypeAdapter[Any]:
    if not isinstance(annotation, type):
        return TypeAdapter(annotation, config=STRICT)
    # pydantic refuses a configuration for such a type itself, yet takes it for an alias of it and
    # passes it down to every dataclass and TypedDict that has none.
    return TypeAdapter(_alias("Arguments", annotation), config=STRICT)


class _ArgumentsSchema(GenerateJsonSchema):
    """The schema that a model reads: without generated titles, and closed where extra keys are
    refused.
    """

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012
    saw_own_config = False

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def sort(self, value: JsonSchemaValue, parent_key: str | None = None) -> JsonSchemaValue:
        return value

    def encode_default(self, dft: Any) -> Any:
        # pydantic builds a serializer for each default; these need none.
        is_plain = type(dft) in _JSON_SCALARS or (type(dft) is float and math.isfinite(dft))
        return dft if is_plain else super().encode_default(dft)

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        described = super().default_schema(schema)
        if any(is_secret(node) for node in (described, *described.get("anyOf", ()))):
            described.pop("default", None)
        return described

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        return self._closed(schema, super().model_schema(schema))

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonSchemaValue:
        return self._closed(schema, super().dataclass_schema(schema))

    def typed_dict_schema(self, schema: core_schema.TypedDictSchema) -> JsonSchemaValue:
        return self._closed(schema, super().typed_dict_schema(schema))

    def _closed(self, schema: Any, described: JsonSchemaValue) -> JsonSchemaValue:
        config: dict[str, Any] = schema.get("config") or {}
        if "cls" in schema and not _TIGHT.keys() <= config.keys():
            self.saw_own_config = True
        if described.get("title") == getattr(schema.get("cls"), "__name__", None):
            described.pop("title", None)
        if "properties" in described and "extra_fields_behavior" not in config:
            described.setdefault("additionalProperties", False)
        return described


def _tightened(schema: Any) -> Any:
    """Return a copy in which every type that leaves strictness open is strict."""
    if isinstance(schema, list):
        return [_tightened(item) for item in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    node = cast("dict[str, Any]", schema)
    # Where the keys are field names, they are the user's, and may be a schema's own words.
    opaque = _OPAQUE if isinstance(node.get("type"), str) else frozenset[str]()
    copy = {key: value if key in opaque else _tightened(value) for key, value in node.items()}
    if node.get("type") in ("model", "dataclass", "typed-dict"):
        copy["config"] = _TIGHT | (node.get("config") or {})
    return copy


_OPAQUE = frozenset({"default", "default_factory", "metadata", "config", "cls", "expected"})
"""Parts of a core schema that hold the user's own values, which must stay the same objects."""


def _inlined(schema: dict[str, Any]) -> dict[str, Any]:
    # A type that contains itself is described by reference; providers want an object on top.
    reference: str | None = schema.get("$ref")
    if reference is None:
        return schema
    target = schema["$defs"][reference.removeprefix("#/$defs/")]
    return {**target, "$defs": schema["$defs"]}


@dataclass(frozen=True, slots=True)
class PreparedParams:
    """The params of a tool: `parse` turns arguments in JSON into what the handler takes, and `dump`
    turns that into canonical JSON.

    `parse` raises `ValueError` for invalid arguments, and `faults` explains the error. `dump`
    raises `ValueError` for params that JSON cannot hold.
    """

    schema: dict[str, Any]
    parse: Callable[[bytes | str], Any]
    dump: Dump = to_json
    names: ArgumentNames | None = None
    """The other names of arguments, where there are any."""
    cost: SchemaCost | None = None
    """What `parse` costs, for a foreign schema; None for a schema of the host."""

    def faults(self, error: Exception) -> tuple[Fault, ...]:
        """Return the faults behind an error that `parse` raised."""
        return explain(error, self.schema)


def build_params(tool: Tool[Any, Any], signature: Signature | None = None) -> PreparedParams:
    """Prepare the params of a tool from its JSON Schema, its function or its params type."""
    match tool.calling:
        case "input":
            schema = cast("Mapping[str, Any]", tool.json_schema)
            return params_of_schema(tool.name, schema, is_foreign=tool.is_foreign)
        case "keywords":
            function = cast("Callable[..., Any]", tool.handler)
            return params_of_function(tool.name, function, signature)
        case "params":
            return params_of_type(tool.name, tool.params_type)


def params_of_schema(
    name: str, schema: Mapping[str, Any], *, is_foreign: bool = False
) -> PreparedParams:
    """Prepare a handler that takes plain JSON input, described by a JSON Schema."""
    cost = cost_of(name, schema) if is_foreign else None
    return PreparedParams(schema=dict(schema), parse=input_parser(name, schema, cost), cost=cost)


def params_of_type(name: str, params_type: Any) -> PreparedParams:
    """Prepare a handler that takes one object: a dataclass, a pydantic model or a TypedDict."""
    if params_type is None:
        return _no_params(name)
    ready = _strict(name, params_type)
    if ready.schema.get("type") != "object":
        raise InvalidTool(
            f"tool {name!r}: {params_type!r} does not describe an object; "
            "put its value in a field of a dataclass"
        )
    return _prepared(ready)


def params_of_function(
    name: str, function: Callable[..., Any], signature: Signature | None = None
) -> PreparedParams:
    """Prepare a function that takes its arguments by name; `parse` returns them as a dict."""
    signature = signature or read_signature(function, name)
    arguments = FunctionArguments(function, signature, name)
    ready = _strict(name, arguments)
    arguments.describe(ready.schema)
    return _prepared(ready)


def _prepared(ready: StrictType) -> PreparedParams:
    spellings = ready.canonical.spellings
    names = ArgumentNames(ready.schema, spellings) if spellings else None
    return PreparedParams(ready.schema, ready.parse, ready.canonical.dump, names)


def _no_params(name: str) -> PreparedParams:
    ready = _strict(name, _Nothing)

    def parse(raw: bytes | str) -> None:
        ready.parse(raw)

    return PreparedParams(ready.schema, parse, lambda _: b"{}")


class _Nothing(TypedDict):
    pass


def _strict(name: str, annotation: Any) -> StrictType:
    try:
        return strict_type(name, annotation)
    except (PydanticUserError, SchemaError, NameError) as error:
        raise InvalidTool(
            f"tool {name!r}: its arguments have a type that cannot be read from JSON: "
            f"{str(error).splitlines()[0]}"
        ) from error

"""Builds the validator and the JSON Schema for a type, so that nothing is silently coerced."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from pydantic import ConfigDict, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import CoreSchema, SchemaValidator, core_schema
from typing_extensions import TypeAliasType

from toolcrib.tools.secrets import is_secret

STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
"""What an argument type gets unless it says otherwise: "5" is no number, unknown keys are faults,
and NaN, which JSON does not have, is refused."""

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
    """A type ready for JSON: `parse` validates text or bytes, `schema` describes what it takes."""

    parse: Callable[[bytes | str], Any]
    schema: dict[str, Any]


def strict_type(annotation: Any) -> StrictType:
    """Prepare a dataclass, model or TypedDict whose own configuration, if any, wins."""
    adapter = _adapter(annotation)
    generator = _ArgumentsSchema()
    schema = _inlined(generator.generate(adapter.core_schema, mode="validation"))
    validator = adapter.validator
    if generator.saw_own_config:
        # Without this, classes with a validator of their own would keep using it.
        rebuild = functools.partial(SchemaValidator, _use_prebuilt=False)
        validator = rebuild(cast("CoreSchema", _tightened(adapter.core_schema)))
    return StrictType(parse=validator.validate_json, schema=schema)


def _adapter(annotation: Any) -> TypeAdapter[Any]:
    if not isinstance(annotation, type):
        return TypeAdapter(annotation, config=STRICT)
    # pydantic refuses a configuration for such a type itself, yet takes it for an alias of it and
    # passes it down to every dataclass and TypedDict that has none.
    return TypeAdapter(_alias("Arguments", annotation), config=STRICT)


class _ArgumentsSchema(GenerateJsonSchema):
    """The schema a model reads: without made-up titles, and closed where extras are refused."""

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
    """A copy in which every type that leaves strictness open is strict."""
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

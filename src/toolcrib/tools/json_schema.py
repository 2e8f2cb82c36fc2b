"""JSON Schemas written by hand (draft 2020-12): checked once, then used to validate plain JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

from toolcrib.errors import InvalidTool, NotJson, SchemaMismatch

DRAFT = "https://json-schema.org/draft/2020-12/schema"

# The words that stand for the input in messages, because messages must not repeat it.
_MASK = "the value"


def check_schema(name: str, schema: object) -> dict[str, Any]:
    """Return a copy of `schema` after checking that it is a JSON Schema of an object."""
    copy = _copied(name, schema, "parameters")
    if copy.get("type") != "object":
        raise InvalidTool(
            f"tool {name!r}: parameters must describe an object; "
            'write {"type": "object", "properties": {...}}'
        )
    return _checked(name, copy, "parameters")


def check_output_schema(name: str, schema: object) -> dict[str, Any]:
    """Return a copy of `schema` after checking that it is a JSON Schema."""
    return _checked(name, _copied(name, schema, "output_schema"), "output_schema")


def input_parser(name: str, schema: Mapping[str, Any]) -> Callable[[bytes | str], Any]:
    """Return a function from JSON text to plain input, with the schema's defaults filled in. It
    raises `ValueError` for invalid input.
    """
    from pydantic_core import from_json

    from toolcrib.tools.schema_defaults import filler_of

    validator = _compile(name, dict(schema))
    fill = filler_of(name, schema)
    is_valid, iter_errors = validator.is_valid, validator.iter_errors

    def parse(raw: bytes | str) -> Any:
        try:
            data = from_json(raw, allow_inf_nan=False)
        except ValueError as error:
            raise NotJson(str(error)) from None
        # Checked again with the defaults: the tool gets them as if they had been sent.
        if is_valid(data) and (fill is None or not fill(data) or is_valid(data)):
            return data
        raise SchemaMismatch(tuple(iter_errors(data)))

    return parse


def output_check(name: str, schema: Mapping[str, Any]) -> Callable[[Any], None]:
    """Return a function that raises `SchemaMismatch` for plain JSON that does not fit."""
    validator = _compile(name, dict(schema), "output_schema")

    def check(value: Any) -> None:
        if not validator.is_valid(value):
            raise SchemaMismatch(tuple(validator.iter_errors(value)))

    return check


def _checked(name: str, copy: dict[str, Any], what: str) -> dict[str, Any]:
    draft = copy.get("$schema", DRAFT)
    if not isinstance(draft, str) or draft.rstrip("#") != DRAFT:
        raise InvalidTool(
            f"tool {name!r}: {what} must be JSON Schema draft 2020-12, not {draft}; "
            "convert it, then drop $schema"
        )
    _refuse_outside_references(name, copy, what)
    _compile(name, copy, what)
    return copy


def _compile(name: str, schema: dict[str, Any], what: str = "parameters") -> Any:
    from jsonschema_rs import Draft202012Validator, ValidationError

    try:
        return Draft202012Validator(schema, mask=_MASK, retriever=_refuse_retrieval)
    except ValidationError as error:
        where = "/".join(str(part) for part in error.instance_path)
        raise InvalidTool(
            f"tool {name!r}: {what}: no valid JSON Schema at /{where}: {error.message}"
        ) from error


def _refuse_retrieval(uri: str) -> Any:
    raise ValueError(f"{uri} is outside the schema")


def _copied(name: str, schema: object, what: str) -> dict[str, Any]:
    from pydantic_core import PydanticSerializationError, from_json, to_json

    if not isinstance(schema, Mapping):
        raise InvalidTool(
            f"tool {name!r}: {what} must be a JSON Schema as a dict, not {type(schema).__name__}"
        )
    try:
        return from_json(to_json(dict(cast("Mapping[str, Any]", schema))))
    except (PydanticSerializationError, ValueError) as error:
        raise InvalidTool(f"tool {name!r}: {what}: this is not JSON: {error}") from error


def _refuse_outside_references(name: str, schema: dict[str, Any], what: str) -> None:
    # Secrets are found by following references, so each one must lead to a place in this schema.
    for node in _nodes(schema):
        outside = next((value for value in _outside(node, is_root=node is schema)), None)
        if outside is not None:
            raise InvalidTool(
                f"tool {name!r}: {what}: it refers to {outside!r}; "
                "only references like '#/$defs/Name' into the same schema are followed"
            )


def _outside(node: dict[str, Any], *, is_root: bool) -> Iterator[str]:
    # A value that is no text is a property that happens to have the keyword's name.
    for keyword in ("$ref", "$dynamicRef", "$recursiveRef", "$id"):
        value = node.get(keyword)
        is_local = keyword == "$ref" and (value == "#" or str(value).startswith("#/"))
        if isinstance(value, str) and not is_local and not (keyword == "$id" and is_root):
            yield value


def _nodes(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        node = cast("dict[str, Any]", schema)
        yield node
        children: Any = node.values()
    else:
        children = cast("list[Any]", schema) if isinstance(schema, list) else ()
    for child in children:
        yield from _nodes(child)

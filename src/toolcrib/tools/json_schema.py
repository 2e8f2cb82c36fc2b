"""JSON Schemas written by hand (draft 2020-12): checked once, then used to validate plain JSON."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from toolcrib.errors import InvalidTool, NotJson, SchemaMismatch

if TYPE_CHECKING:
    from toolcrib.tools.schema_cost import SchemaCost

DRAFT = "https://json-schema.org/draft/2020-12/schema"

# The words that stand for the input in messages, because messages must not repeat it.
_MASK = "the value"
_MAX_SHAPES = 2_000
_MAX_KEPT_BYTES = 8_000_000


def check_schema(name: str, schema: object, *, is_foreign: bool = False) -> dict[str, Any]:
    """Return a copy of `schema` after checking that it is a JSON Schema of an object. One that is
    foreign, written by nobody the host trusts, must also be cheap to check data against.
    """
    copy = _copied(name, schema, "parameters")
    if copy.get("type") != "object":
        raise InvalidTool(
            f"tool {name!r}: parameters must describe an object; "
            'write {"type": "object", "properties": {...}}'
        )
    return _checked(name, copy, "parameters", is_foreign)


def check_output_schema(name: str, schema: object, *, is_foreign: bool = False) -> dict[str, Any]:
    """Return a copy of `schema` after checking that it is a JSON Schema."""
    return _checked(name, _copied(name, schema, "output_schema"), "output_schema", is_foreign)


def input_parser(
    name: str, schema: Mapping[str, Any], cost: SchemaCost | None = None
) -> Callable[[bytes | str], Any]:
    """Return a function from JSON text to plain input, with the schema's defaults filled in. It
    raises `ValueError` for invalid input, and with `cost` for input that would take too long to
    check.
    """
    from pydantic_core import from_json

    from toolcrib.tools.schema_defaults import filler_of

    validator = _compile(name, dict(schema), is_foreign=cost is not None)
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

    def parse_bounded(raw: bytes | str) -> Any:
        assert cost is not None
        try:
            data = from_json(raw, allow_inf_nan=False)
        except ValueError as error:
            raise NotJson(str(error)) from None
        if not cost.is_small(raw):
            cost.estimate(data)
        if is_valid(data) and (fill is None or not fill(data) or is_valid(data)):
            return data
        raise cost.explain(validator, data)

    return parse if cost is None else parse_bounded


def output_check(
    name: str, schema: Mapping[str, Any], cost: SchemaCost | None = None
) -> Callable[[Any], None]:
    """Return a function that raises `SchemaMismatch` for plain JSON that does not fit."""
    validator = _compile(name, dict(schema), "output_schema", is_foreign=cost is not None)

    def check(value: Any) -> None:
        if not validator.is_valid(value):
            raise SchemaMismatch(tuple(validator.iter_errors(value)))

    def check_bounded(value: Any) -> None:
        assert cost is not None
        cost.estimate(value)
        if not validator.is_valid(value):
            raise cost.explain(validator, value)

    return check if cost is None else check_bounded


def cost_of(name: str, schema: Mapping[str, Any], what: str = "parameters") -> SchemaCost:
    """The cost of checks against a foreign schema. Raises `InvalidTool` when it is too high."""
    return _foreign(name, dict(schema), what)[1]


def _checked(name: str, copy: dict[str, Any], what: str, is_foreign: bool) -> dict[str, Any]:
    draft = copy.get("$schema", DRAFT)
    if not isinstance(draft, str) or draft.rstrip("#") != DRAFT:
        raise InvalidTool(
            f"tool {name!r}: {what} must be JSON Schema draft 2020-12, not {draft}; "
            "convert it, then drop $schema"
        )
    _refuse_outside_references(name, copy, what)
    if is_foreign:
        cost_of(name, copy, what)
    _compile(name, copy, what, is_foreign=is_foreign)
    return copy


def _compile(
    name: str, schema: dict[str, Any], what: str = "parameters", *, is_foreign: bool
) -> Any:
    return _foreign(name, schema, what)[0] if is_foreign else _validator(name, schema, what)


def _validator(name: str, schema: dict[str, Any], what: str, **options: Any) -> Any:
    from jsonschema_rs import Draft202012Validator, ValidationError

    try:
        return Draft202012Validator(schema, mask=_MASK, retriever=_refuse_retrieval, **options)
    except ValidationError as error:
        where = "/".join(str(part) for part in error.instance_path)
        raise InvalidTool(
            f"tool {name!r}: {what}: no valid JSON Schema at /{where}: {error.message}"
        ) from error


_foreign_schemas = OrderedDict[bytes, "tuple[Any, SchemaCost]"]()
_foreign_lock = threading.Lock()


def _foreign(name: str, schema: dict[str, Any], what: str) -> tuple[Any, SchemaCost]:
    """The validator of a foreign schema and what it costs. Kept for a while: a thread takes the
    schema in, and what the event loop does with it afterwards must be quick.
    """
    from jsonschema_rs import FancyRegexOptions
    from pydantic_core import to_json

    from toolcrib.tools.schema_cost import BACKTRACK_LIMIT, PATTERN_BYTES, SchemaCost
    from toolcrib.tools.secrets import shape_of

    key = to_json(schema)
    if (known := _foreign_schemas.get(key)) is not None:
        return known
    try:
        cost = SchemaCost(schema)
        shape_of(schema, max_shapes=_MAX_SHAPES)
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deep" if isinstance(error, RecursionError) else error
        raise InvalidTool(f"tool {name!r}: {what}: the schema is too costly: {reason}") from None
    options = FancyRegexOptions(backtrack_limit=BACKTRACK_LIMIT, size_limit=PATTERN_BYTES)
    measured = _validator(name, schema, what, pattern_options=options), cost
    with _foreign_lock:
        _foreign_schemas[key] = measured
        while sum(map(len, _foreign_schemas)) > _MAX_KEPT_BYTES:
            _foreign_schemas.popitem(last=False)
    return measured


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

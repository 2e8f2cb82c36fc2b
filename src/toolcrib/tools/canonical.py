"""The canonical form of arguments: the JSON of what validation made of them.

Rules, approvers, digests, records and the handler must speak of one value. So validated params are
written back as JSON under the keys that the tool's schema shows, with defaults filled in and
transformations applied. The serializers of the user's own types are not trusted with that: one that
masks, rounds or leaves out a field would hide what runs. They are used only for values that have no
other way back to JSON.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, is_dataclass
from decimal import Decimal
from functools import lru_cache, partial
from typing import Any, Final, cast

from pydantic import BaseModel, Secret, SecretBytes, SecretStr, TypeAdapter
from pydantic_core import (
    CoreConfig,
    CoreSchema,
    PydanticSerializationError,
    SchemaError,
    SchemaSerializer,
    core_schema,
    from_json,
    to_json,
    to_jsonable_python,
)

from toolcrib.errors import InvalidTool

Dump = Callable[[Any], bytes]
"""Writes validated params as canonical JSON. It raises `ValueError` for what JSON cannot hold."""

Node = dict[str, Any]

_KINDS: Final = {"str": str, "int": int, "float": float, "bool": bool, "none": type(None)}
_SCALARS: Final = frozenset({str, int, float, bool, type(None)})
_STRUCTURES: Final = frozenset({"model", "dataclass", "typed-dict", "definition-ref"})
_FREE: Final = frozenset({"function-after", "function-wrap", "function-plain"})
"""Nodes whose value comes out of a function, so that it may be anything."""
_EXCLUSIONS: Final = frozenset({"serialization_exclude", "serialization_exclude_if"})
_OPAQUE: Final = frozenset(
    {
        "cls",
        "config",
        "computed_fields",
        "default",
        "default_factory",
        "expected",
        "function",
        "members",
        "metadata",
        "serialization",
    }
)
"""Parts of a core schema that hold the user's own values, or describe no part of the params."""


@dataclass(slots=True)
class Canonical:
    """How the params of one tool are written as canonical JSON.

    `spellings` has the names, other than the key in the schema, that an argument goes by: the
    field's own and further aliases. `is_by_name` says that the schema shows a key which the type
    accepts only as the name of a field.
    """

    dump: Dump = to_json
    spellings: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    is_by_name: bool = False

    def spell(self, name: str, key: str) -> None:
        """Note that the argument under `key` is also called `name`."""
        keys = self.spellings.get(name, ())
        if name != key and key not in keys:
            self.spellings[name] = (*keys, key)


def canonical_of(tool: str, schema: CoreSchema) -> Canonical:
    """Read how values of a core schema are written; raises `InvalidTool` where that is in doubt."""
    canonical = Canonical()
    node = cast("Node", schema)
    if _is_plain_object(node):
        # Most functions: their params are a dict that JSON can hold as it is.
        return canonical
    is_free = _has(node, _is_free)
    reader = _Faithful(tool, canonical, is_free=is_free)
    write = _serializer(reader.read(node, {})).to_json
    if is_free or reader.saw_json:
        canonical.dump = lambda params: write(params, warnings="error", round_trip=True)
    else:
        # Every value is of the type of its field, and "error" takes longer than all the rest.
        canonical.dump = lambda params: write(params, warnings=False)
    return canonical


def _serializer(schema: Node) -> SchemaSerializer:
    # Without this, classes with a serializer of their own would keep using it.
    build = partial(SchemaSerializer, _use_prebuilt=False)
    return build(cast("CoreSchema", schema), cast("CoreConfig", _writing_config({})))


def _is_plain_object(node: Node) -> bool:
    return node["type"] == "typed-dict" and all(
        "validation_alias" not in member and _is_plain(member["schema"])
        for member in node["fields"].values()
    )


def _is_plain(node: Node) -> bool:
    """Whether `to_json` writes every value of a node as it is."""
    if "serialization" in node:
        return False
    match node["type"]:
        case "literal":
            return all(type(value) in _SCALARS for value in node["expected"])
        case "nullable":
            return _is_plain(node["schema"])
        case "default":
            return type(node.get("default", node)) in _SCALARS and _is_plain(node["schema"])
        case "list":
            return "items_schema" not in node or _is_plain(node["items_schema"])
        case "dict":
            parts = (node.get("keys_schema"), node.get("values_schema"))
            return all(part is None or _is_plain(part) for part in parts)
        case kind:
            return kind in _KINDS


class _Faithful:
    """Copies a core schema into one whose serializer writes what is there, under the keys that the
    JSON Schema shows.
    """

    def __init__(self, tool: str, canonical: Canonical, *, is_free: bool) -> None:
        self._tool = tool
        self._canonical = canonical
        self.saw_json = False
        """Whether there is JSON within the JSON, which has to become text again."""
        self._is_free = is_free
        """Whether functions give values, so that not every object is of the class of its field."""

    def read(self, node: Node, config: Mapping[str, Any]) -> Node:
        """Return the copy of a node; `config` is that of the nearest type around it."""
        config = node.get("config") or config
        copy = {key: self._part(key, part, config) for key, part in node.items()}
        self.saw_json |= node["type"] == "json"
        copy.pop("computed_fields", None)
        if node["type"] == "default":
            self._check_default(node)
        if isinstance(node.get("fields"), dict):
            copy["fields"] = {
                name: self._field(name, member, config) for name, member in copy["fields"].items()
            }
        if node["type"] == "dataclass-args":
            copy["fields"] = [
                self._field(member["name"], member, config) for member in copy["fields"]
            ]
        if node.get("config"):
            copy["config"] = _writing_config(node["config"])
        copy.pop("serialization", None)
        serialization = self._serialization(node, config)
        if serialization is not None:
            copy["serialization"] = serialization
        elif node["type"] == "default" and not _is_of_its_type(node.get("default"), copy["schema"]):
            write_default = partial(_write_default, node.get("default"))
            serialization = core_schema.wrap_serializer_function_ser_schema(write_default)
            copy["serialization"] = serialization
        return copy

    def _part(self, key: str, part: Any, config: Mapping[str, Any]) -> Any:
        if key in _OPAQUE:
            return part
        if isinstance(part, dict):
            inner = cast("Node", part)
            if isinstance(inner.get("type"), str):
                return self.read(inner, config)
            return {name: self._part("", member, config) for name, member in inner.items()}
        if isinstance(part, list):
            return [self._part("", member, config) for member in cast("list[Any]", part)]
        return part

    def _field(self, name: str, member: Node, config: Mapping[str, Any]) -> Node:
        if member.get("init_only"):
            raise InvalidTool(
                f"tool {self._tool!r}: {name!r} is an InitVar, which is gone once the object is "
                "made; make it a field, so that rules and approvers can see it"
            )
        alias = member.get("validation_alias")
        if config.get("validate_by_alias") is False:
            alias = None
        key = alias if isinstance(alias, str) else next(_choices(alias), name)
        for spelling in (name, *_choices(alias)):
            self._canonical.spell(spelling, key)
        if alias is not None and key == name and key not in _choices(alias):
            self._canonical.is_by_name |= not config.get("validate_by_name")
        written = {part: value for part, value in member.items() if part not in _EXCLUSIONS}
        written["serialization_alias"] = key
        if member.get("init") is False:
            # Not an argument: the object makes it for itself.
            written["serialization_exclude"] = True
        return written

    def _serialization(self, node: Node, config: Mapping[str, Any]) -> Any:
        """Return how the values of a node are written, where that is not by the node's own type."""
        if node["type"] in ("set", "frozenset"):
            return core_schema.wrap_serializer_function_ser_schema(_write_in_order)
        if node["type"] == "decimal":
            return core_schema.plain_serializer_function_ser_schema(_write)
        if self._is_free and node["type"] in ("model", "dataclass"):
            check = partial(_write_exactly, node["cls"])
            return core_schema.wrap_serializer_function_ser_schema(check)
        own: Node | None = node.get("serialization")
        if _has(node, _is_structure):
            if own is None or not _is_of_pydantic(own):
                return None
            return {key: self._part(key, part, config) for key, part in own.items()}
        if own is None and node["type"] not in _FREE:
            return None
        write = _write
        if own is not None and not own.get("is_field_serializer"):
            rest = _serializer({"type": "any", "serialization": own})
            write = partial(_write_by, rest, is_first=_is_of_pydantic(own))
        return core_schema.plain_serializer_function_ser_schema(write)

    def _check_default(self, node: Node) -> None:
        default = node.get("default")
        if type(default) in _SCALARS or "serialization" in node["schema"]:
            return
        try:
            _write(default)
        except ValueError:
            raise InvalidTool(
                f"tool {self._tool!r}: a default of type {type(default).__name__} cannot be "
                "written as JSON, so no rule and no approver could see it; write None, or give the "
                "type a serializer (pydantic.PlainSerializer)"
            ) from None


def _choices(alias: Any) -> Iterator[str]:
    """Yield the aliases that are a plain key, the one in the schema first."""
    for path in cast("list[Any]", alias) if isinstance(alias, list) else ():
        if isinstance(path, list) and len(cast("list[Any]", path)) == 1:
            yield from (key for key in cast("list[Any]", path) if isinstance(key, str))


def _writing_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration that writes values as the same configuration reads them."""
    kept = {key: value for key, value in config.items() if not key.startswith("ser_json_")}
    return {
        **kept,
        "serialize_by_alias": True,
        "ser_json_inf_nan": "constants",
        "ser_json_bytes": config.get("val_json_bytes", "utf8"),
    }


def _has(node: Any, is_meant: Callable[[Node], bool]) -> bool:
    """Whether a node, or one within it, is meant."""
    if isinstance(node, list):
        return any(_has(part, is_meant) for part in cast("list[Any]", node))
    if not isinstance(node, dict):
        return False
    parts = cast("Node", node)
    is_node = isinstance(parts.get("type"), str)
    return (is_node and is_meant(parts)) or any(
        _has(part, is_meant) for key, part in parts.items() if not is_node or key not in _OPAQUE
    )


def _is_structure(node: Node) -> bool:
    """Whether a node describes objects of known fields, which know their keys."""
    return node["type"] in _STRUCTURES


def _is_free(node: Node) -> bool:
    return node["type"] in _FREE or "default_factory" in node


def _is_of_pydantic(serialization: Node) -> bool:
    return getattr(serialization.get("function"), "__module__", "").startswith("pydantic.")


def _write_by(serializer: SchemaSerializer, value: Any, *, is_first: bool) -> Any:
    """Write a value that has a serializer. pydantic's own belong to the type and come first; the
    user's come last.
    """
    if isinstance(value, SecretStr | SecretBytes | Secret):
        return _write(value)
    if not is_first:
        try:
            return _write(value)
        except ValueError:
            pass
    return serializer.to_python(value, mode="json", round_trip=True, warnings="error")


def _write_default(default: Any, value: Any, write: Callable[[Any], Any]) -> Any:
    is_default = type(value) is type(default) and value == default
    return _write(value) if is_default else write(value)


def _write_exactly(cls: type[Any], value: Any, write: Callable[[Any], Any]) -> Any:
    # The serializer of a model writes an object of another class as {}.
    return write(value) if type(value) is cls else _write(value)


def _is_of_its_type(default: Any, written: Node) -> bool:
    """Whether a default has the type of its field. Nothing else checks it: `limit: float = 1`."""
    kind = written["type"]
    if isinstance(default, BaseModel) or is_dataclass(default):
        return False
    if type(default) is _KINDS.get(kind) or (default is None and kind in ("nullable", "any")):
        return True
    try:
        _serializer(written).to_json(default, warnings="error")
    except PydanticSerializationError:
        return False
    except SchemaError:
        # It refers to a type around it, which it cannot be the default of.
        return True
    return True


def _number(value: Decimal) -> float | str:
    """A decimal as a number, so that rules can compare it, or as text where that would round it."""
    number = float(value)
    return number if math.isfinite(number) and Decimal(repr(number)) == value else str(value)


def _write(value: Any) -> Any:
    """Return a value of any type as JSON data; raises `ValueError` when it has no JSON form."""
    if type(value) in _SCALARS:
        return value
    match value:
        case Decimal():
            return _number(value)
        case SecretStr() | SecretBytes() | Secret():
            return _write(cast("Any", value).get_secret_value())
        case dict():
            members = cast("dict[Any, Any]", value).items()
            return {key: _write(member) for key, member in members}
        case list() | tuple():
            return [_write(element) for element in cast("list[Any]", value)]
        case set() | frozenset():
            return _write_in_order(cast("set[Any]", value), _write_all)
        case _ if isinstance(value, BaseModel) or is_dataclass(value):
            return from_json(_dump_of(cast("type[Any]", type(value)))(value))
        case _:
            return to_jsonable_python(value, inf_nan_mode="constants")


def _write_all(values: Any) -> list[Any]:
    return [_write(value) for value in values]


def _write_in_order(values: Any, write: Callable[[Any], Any]) -> list[Any]:
    # The order of a set differs between processes, and the digest must not.
    return sorted(write(values), key=to_json)


@lru_cache(maxsize=256)
def _dump_of(cls: type[Any]) -> Dump:
    adapter: TypeAdapter[Any] = TypeAdapter(cls)
    return canonical_of(cls.__name__, adapter.core_schema).dump

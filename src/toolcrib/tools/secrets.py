"""Secret arguments: the mark that makes one, and where a JSON Schema has them.

An `ArgumentShape` folds references, unions and conditions of a schema together, so it says what may
stand at each place. A place that one branch of a union calls secret is secret.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from pydantic import GetJsonSchemaHandler
    from pydantic_core import CoreSchema


SECRET = "[secret]"
"""Replaces a secret in records."""


class Secret:
    """Marks an argument as secret: `token: Annotated[str, Secret()]`.

    The handler gets the value; ledger, events, logs and approval requests get `[secret]`. In the
    JSON Schema it is `writeOnly`, which is also how a host tool marks a secret.
    """

    __slots__ = ()

    # A class method, so that `Annotated[str, Secret]` without the call is not silently ignored.
    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {**handler(schema), "writeOnly": True}

    def __repr__(self) -> str:
        return "Secret()"


def is_secret(schema: Any) -> bool:
    """Whether a JSON Schema marks its value as secret."""
    if not isinstance(schema, dict):
        return False
    node = cast("dict[str, Any]", schema)
    return node.get("writeOnly") is True or node.get("format") == "password"


_BRANCHES = ("anyOf", "oneOf")
_PARTS = ("allOf",)
_CONDITIONS = ("if", "then", "else")
_OTHER_MEMBERS = ("additionalProperties", "unevaluatedProperties")
_ELEMENTS = ("items", "contains", "unevaluatedItems")


class ArgumentShape:
    """What may stand at one place in the arguments."""

    __slots__ = (
        "elements",
        "has_secrets",
        "is_closed",
        "is_secret",
        "is_union",
        "others",
        "prefix",
        "properties",
    )

    def __init__(self, *, is_secret: bool, is_union: bool, is_closed: bool) -> None:
        self.is_secret = is_secret
        self.is_union = is_union
        self.is_closed = is_closed
        """True when an object here accepts only the listed properties."""
        self.has_secrets = is_secret
        """True when this place or any place below it is secret."""
        self.properties: dict[str, ArgumentShape] = {}
        self.others: ArgumentShape | None = None
        self.prefix: list[ArgumentShape] = []
        self.elements: ArgumentShape | None = None

    def member(self, key: str | int) -> ArgumentShape | None:
        """Return the shape of a property or an element, or `None` when the schema has none."""
        if isinstance(key, str):
            return self.properties.get(key, self.others)
        return self.prefix[key] if 0 <= key < len(self.prefix) else self.elements

    @property
    def is_object(self) -> bool:
        """Whether an object may stand here."""
        return bool(self.properties) or self.others is not None or self.is_closed

    @property
    def is_array(self) -> bool:
        """Whether an array may stand here."""
        return bool(self.prefix) or self.elements is not None

    def members(self) -> list[ArgumentShape]:
        """Return the shapes directly below this one."""
        members = [*self.properties.values(), *self.prefix, self.others, self.elements]
        return [shape for shape in members if shape is not None]


def shape_of(schema: Mapping[str, Any], max_shapes: int | None = None) -> ArgumentShape:
    """Return the shape of arguments of this schema. Raises `ValueError` for more than `max_shapes`
    places: combinations of alternatives can be as many as the subsets of a schema's parts.
    """
    reader = _Reader(dict(schema), max_shapes)
    shape = reader.read([reader.root])
    _spread_secrets(reader.shapes.values())
    return shape


def property_names(shape: ArgumentShape) -> frozenset[str]:
    """Return every property name in the schema, at any depth."""
    seen: set[int] = set()
    names: set[str] = set()
    waiting = [shape]
    while waiting:
        current = waiting.pop()
        if id(current) not in seen:
            seen.add(id(current))
            names |= current.properties.keys()
            waiting += current.members()
    return frozenset(names)


class _Reader:
    """Reads a schema once. Subschemas that may apply together become one shape."""

    def __init__(self, root: dict[str, Any], max_shapes: int | None) -> None:
        self.root = root
        self._max_shapes = max_shapes
        self.shapes: dict[frozenset[int], ArgumentShape] = {}

    def read(self, schemas: Iterable[Any]) -> ArgumentShape:
        nodes, is_union = self._folded(schemas)
        key = frozenset(map(id, nodes))
        known = self.shapes.get(key)
        if known is not None:
            return known
        shape = ArgumentShape(
            is_secret=any(is_secret(node) for node in nodes),
            is_union=is_union,
            is_closed=any(node.get("additionalProperties") is False for node in nodes),
        )
        if self._max_shapes is not None and len(self.shapes) >= self._max_shapes:
            raise ValueError(f"its alternatives combine in more than {self._max_shapes} ways")
        # Entered before it is filled, so that a schema that contains itself comes to an end.
        self.shapes[key] = shape
        self._fill(shape, nodes)
        return shape

    def _fill(self, shape: ArgumentShape, nodes: list[dict[str, Any]]) -> None:
        names = {name: None for node in nodes for name in node.get("properties", ())}
        for name in names:
            shape.properties[name] = self.read(_flatten(_member(node, name) for node in nodes))
        others = _flatten(_other_members(node) for node in nodes)
        shape.others = self.read(others) if others else None
        length = max((len(node.get("prefixItems", ())) for node in nodes), default=0)
        for index in range(length):
            shape.prefix.append(self.read(_flatten(_element(node, index) for node in nodes)))
        elements = _flatten(_values(node, _ELEMENTS) for node in nodes)
        shape.elements = self.read(elements) if elements else None

    def _folded(self, schemas: Iterable[Any]) -> tuple[list[dict[str, Any]], bool]:
        waiting = list(schemas)
        nodes: dict[int, dict[str, Any]] = {}
        is_union = False
        while waiting:
            node = waiting.pop()
            if not isinstance(node, dict) or id(node) in nodes:  # pyright: ignore[reportUnknownArgumentType]
                continue
            node = cast("dict[str, Any]", node)
            nodes[id(node)] = node
            is_union = is_union or any(key in node for key in _BRANCHES)
            waiting += self._applied(node)
        return list(nodes.values()), is_union

    def _applied(self, node: dict[str, Any]) -> list[Any]:
        schemas = _values(node, _CONDITIONS)
        for key in (*_BRANCHES, *_PARTS):
            schemas += node.get(key, ())
        schemas += node.get("dependentSchemas", {}).values()
        if isinstance(node.get("$ref"), str):
            schemas.append(self._target(node["$ref"]))
        return schemas

    def _target(self, reference: str) -> Any:
        node: Any = self.root
        for part in reference.split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            node = node[int(key) if isinstance(node, list) else key]
        return node


def _spread_secrets(shapes: Iterable[ArgumentShape]) -> None:
    waiting = list(shapes)
    is_changed = True
    while is_changed:
        is_changed = False
        for shape in waiting:
            if not shape.has_secrets and any(member.has_secrets for member in shape.members()):
                shape.has_secrets = is_changed = True


def _member(node: dict[str, Any], name: str) -> list[Any]:
    named = node.get("properties", {}).get(name)
    if named is None:
        return _other_members(node)
    return [named, *node.get("patternProperties", {}).values()]


def _other_members(node: dict[str, Any]) -> list[Any]:
    # Which keys a pattern matches is not worked out: its schema is taken to apply to all of them.
    return [*_values(node, _OTHER_MEMBERS), *node.get("patternProperties", {}).values()]


def _element(node: dict[str, Any], index: int) -> list[Any]:
    listed = node.get("prefixItems", ())
    return [listed[index]] if index < len(listed) else _values(node, _ELEMENTS)


def _values(node: dict[str, Any], keys: tuple[str, ...]) -> list[Any]:
    return [node[key] for key in keys if isinstance(node.get(key), dict)]


def _flatten(groups: Iterable[list[Any]]) -> list[Any]:
    return [schema for group in groups for schema in group]

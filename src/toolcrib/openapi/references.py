"""The references of an OpenAPI document, and its schemas as JSON Schemas of draft 2020-12."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, Literal, cast

from toolcrib.errors import InvalidTool

Direction = Literal["request", "response"]
"""Which way data goes: what only a response has is no part of a request, and the reverse."""

_MAX_DEPTH: Final = 60
_MAX_REFERENCES: Final = 30
_NAMED: Final = frozenset({"properties", "patternProperties", "dependentSchemas"})
_VALUES: Final = frozenset(
    {"const", "default", "enum", "examples", "required", "dependentRequired"}
)
_DROPPED: Final = frozenset(
    {"discriminator", "xml", "externalDocs", "example", "nullable", "readOnly", "$schema", "$id"}
)
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_.-]")


class References:
    """Finds what the references of one document lead to. Those that leave it are refused."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document
        self._is_older = str(document.get("openapi", "")).startswith("3.0")

    def resolved(self, value: Any, what: str) -> dict[str, Any]:
        """The object that a value is or refers to. Raises `InvalidTool`."""
        for _ in range(_MAX_REFERENCES):
            if not isinstance(value, Mapping):
                raise InvalidTool(f"{what} is no object")
            node = cast("Mapping[str, Any]", value)
            reference = node.get("$ref")
            if reference is None:
                return dict(node)
            value = self._at(reference)
        raise InvalidTool(f"{what} refers to itself")

    def schema(self, value: Any, direction: Direction) -> dict[str, Any]:
        """A schema that stands for itself: what it refers to is in its `$defs`. Raises
        `InvalidTool`.
        """
        found: dict[str, str] = {}
        definitions: dict[str, Any] = {}
        whole = self._converted(value, direction, found, 0)
        while waiting := [reference for reference in found if found[reference] not in definitions]:
            for reference in waiting:
                definitions[found[reference]] = {}
                target = self._at(reference)
                definitions[found[reference]] = self._converted(target, direction, found, 0)
        return {**whole, "$defs": definitions} if definitions else whole

    def _at(self, reference: Any) -> Any:
        if not isinstance(reference, str) or not reference.startswith("#/"):
            shown = str(reference)[:120]
            raise InvalidTool(
                f"it refers to {shown!r}, outside of the document; put that into the document"
            )
        node: Any = self._document
        for part in reference[2:].split("/"):
            key = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(node, Mapping) or key not in node:
                raise InvalidTool(f"it refers to {reference[:120]!r}, which is not in the document")
            node = cast("Mapping[str, Any]", node)[key]
        return node

    def _converted(
        self, value: Any, direction: Direction, found: dict[str, str], depth: int
    ) -> dict[str, Any]:
        if depth > _MAX_DEPTH:
            raise InvalidTool("its schema is nested too deep")
        if isinstance(value, bool):
            return {} if value else {"not": {}}
        if not isinstance(value, Mapping):
            raise InvalidTool("its schema is no object")
        node = dict(cast("Mapping[str, Any]", value))
        if "$ref" in node:
            reference = node.pop("$ref")
            self._at(reference)
            name = _definition_name(reference, found)
            # A version 3.0 ignores what stands beside a reference.
            beside = {} if self._is_older else node
            return {**self._members(beside, direction, found, depth), "$ref": f"#/$defs/{name}"}
        return self._members(node, direction, found, depth)

    def _members(
        self, node: dict[str, Any], direction: Direction, found: dict[str, str], depth: int
    ) -> dict[str, Any]:
        def convert(inner: Any) -> Any:
            if isinstance(inner, list):
                return [convert(item) for item in cast("list[Any]", inner)]
            if isinstance(inner, Mapping):
                return self._converted(inner, direction, found, depth + 1)
            return inner

        node = self._without_other_direction(node, direction)
        members: dict[str, Any] = {}
        for key, member in node.items():
            if key in _VALUES:
                members[key] = member
            elif key in _NAMED and isinstance(member, Mapping):
                named = cast("Mapping[str, Any]", member)
                members[key] = {name: convert(inner) for name, inner in named.items()}
            elif key not in _DROPPED and not key.startswith("x-"):
                members[key] = convert(member)
        if members.get("format") == "password":
            members["writeOnly"] = True
        return self._newer(members, is_nullable=node.get("nullable") is True)

    def _without_other_direction(
        self, node: dict[str, Any], direction: Direction
    ) -> dict[str, Any]:
        """Without the properties that only the other direction has."""
        mark = "readOnly" if direction == "request" else "writeOnly"
        properties = node.get("properties")
        if not isinstance(properties, Mapping):
            return node
        named = cast("Mapping[str, Any]", properties)
        other = {
            name
            for name, inner in named.items()
            if isinstance(inner, Mapping) and cast("Mapping[str, Any]", inner).get(mark) is True
        }
        if not other:
            return node
        kept = {name: inner for name, inner in named.items() if name not in other}
        required = [name for name in node.get("required", ()) if name not in other]
        return {**node, "properties": kept, "required": required}

    def _newer(self, members: dict[str, Any], *, is_nullable: bool) -> dict[str, Any]:
        """The keywords of version 3.0 as those of JSON Schema."""
        if not self._is_older:
            return members
        for bound, limit in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
            is_flag = isinstance(members.get(bound), bool)
            if is_flag and members.pop(bound) and limit in members:
                members[bound] = members.pop(limit)
        if not is_nullable:
            return members
        if "enum" in members and None not in members["enum"]:
            members["enum"] = [*members["enum"], None]
        if isinstance(members.get("type"), str):
            members["type"] = [members["type"], "null"]
            return members
        return {"anyOf": [members, {"type": "null"}]} if members else members


def _definition_name(reference: str, found: dict[str, str]) -> str:
    if reference not in found:
        name = _NOT_IN_NAMES.sub("_", reference.rpartition("/")[2]) or "schema"
        taken = set(found.values())
        number = 2
        unique = name
        while unique in taken:
            unique, number = f"{name}_{number}", number + 1
        found[reference] = unique
    return found[reference]

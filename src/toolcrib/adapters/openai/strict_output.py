"""The schema of a typed answer in the dialect that strict mode takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

_NAMED: Final = frozenset({"properties", "$defs"})
_VALUES: Final = frozenset({"enum", "const", "examples"})
_IMPOSSIBLE: Final = frozenset({"prefixItems", "patternProperties", "allOf", "not", "if"})


class NotStrict(ValueError):
    """A schema that strict mode cannot take."""


def strict_schema(schema: dict[str, Any]) -> dict[str, Any] | None:
    """The schema with every object closed and every property required.

    None when that is impossible: an object with free keys cannot be closed.
    """
    try:
        return _Strict(schema).node(schema)
    except NotStrict:
        return None


class _Strict:
    def __init__(self, root: Mapping[str, Any]) -> None:
        self._definitions: Mapping[str, Any] = root.get("$defs", {})
        self._inlining: set[str] = set()

    def node(self, node: dict[str, Any]) -> dict[str, Any]:
        """One schema, strict."""
        if _IMPOSSIBLE & node.keys():
            raise NotStrict("a keyword that strict mode does not know")
        if "$ref" in node and len(node) > 1:
            return self._inlined(node)
        made = {
            # Any of them may be meant: that only one is, nobody could promise.
            "anyOf" if key == "oneOf" else key: self._member(key, value)
            for key, value in node.items()
            if key not in ("default", "discriminator")
        }
        return self._closed(made) if node.get("type") == "object" else made

    def _member(self, key: str, value: Any) -> Any:
        if key in _VALUES:
            return value
        if isinstance(value, list):
            listed = cast("list[Any]", value)
            return [self._member("", each) for each in listed]
        if not isinstance(value, dict):
            return value
        found = cast("dict[str, Any]", value)
        if key in _NAMED:
            return {name: self.node(each) for name, each in found.items()}
        return self.node(found)

    def _closed(self, node: dict[str, Any]) -> dict[str, Any]:
        if node.get("additionalProperties") not in (None, False):
            raise NotStrict("an object with free keys")
        properties: dict[str, Any] = node.get("properties", {})
        return {**node, "additionalProperties": False, "required": list(properties)}

    def _inlined(self, node: dict[str, Any]) -> dict[str, Any]:
        """Nothing may stand beside a reference, so what it refers to is put in its place."""
        ref = str(node["$ref"])
        beside = {key: value for key, value in node.items() if key not in ("$ref", "default")}
        target = self._definitions.get(ref.removeprefix("#/$defs/"))
        if not beside or ref in self._inlining or target is None:
            return {"$ref": ref}
        self._inlining.add(ref)
        made = self.node({**target, **beside})
        self._inlining.discard(ref)
        return made

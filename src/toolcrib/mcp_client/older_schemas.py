"""Schemas of older JSON Schema drafts, as draft 2020-12 writes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

_OLDER: Final = (
    "http://json-schema.org/draft-04/schema",
    "http://json-schema.org/draft-06/schema",
    "http://json-schema.org/draft-07/schema",
    "https://json-schema.org/draft/2019-09/schema",
)
_DEEPEST: Final = 100

# Below these stand schemas by name, and a name may be any word.
_NAMED: Final = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
)
# Below these stand values, whatever they look like.
_VALUES: Final = frozenset({"const", "default", "enum", "examples"})


def up_to_date(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema in today's words, if it says that it is of an older draft. Raises ValueError
    when it is too deep to look at.
    """
    draft = schema.get("$schema")
    if not isinstance(draft, str):
        return dict(schema)
    if (
        draft.replace("https://json-schema.org/draft-", "http://json-schema.org/draft-").rstrip("#")
        not in _OLDER
    ):
        return dict(schema)
    return _schema({key: value for key, value in schema.items() if key != "$schema"}, 0)


def _schema(found: Any, depth: int) -> Any:
    if depth > _DEEPEST:
        raise ValueError("its schema is too deep")
    if not isinstance(found, dict):
        return found
    node = cast("dict[str, Any]", found)
    items = node.get("items")
    made = {key: _member(key, value, depth + 1) for key, value in node.items()}
    if isinstance(items, list):
        made["prefixItems"] = made.pop("items")
        if "additionalItems" in made:
            made["items"] = made.pop("additionalItems")
    return _without_dependencies(made)


def _member(key: str, value: Any, depth: int) -> Any:
    if key in _VALUES:
        return value
    if isinstance(value, list):
        return [_schema(each, depth) for each in cast("list[Any]", value)]
    if key in (*_NAMED, "dependencies") and isinstance(value, dict):
        named = cast("dict[str, Any]", value)
        return {name: _schema(each, depth) for name, each in named.items()}
    return _schema(value, depth)


def _without_dependencies(node: dict[str, Any]) -> dict[str, Any]:
    found = node.pop("dependencies", None)
    if isinstance(found, dict):
        for name, needed in cast("dict[str, Any]", found).items():
            keyword = "dependentRequired" if isinstance(needed, list) else "dependentSchemas"
            node.setdefault(keyword, {})[name] = needed
    return node

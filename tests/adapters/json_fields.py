"""Fields of recorded JSON, read without any code of the package: what is expected of the adapters
must not come from them.
"""

from __future__ import annotations

from typing import Any, cast

Json = dict[str, Any]


def text_of(node: Any, key: str) -> str:
    """A text; empty when it is missing or something else."""
    value = node.get(key)
    return value if isinstance(value, str) else ""


def mapping_of(node: Any, key: str) -> Json:
    """A copy of an object; empty when it is missing or something else."""
    value: Any = node.get(key)
    return dict(cast("Json", value)) if isinstance(value, dict) else {}


def mappings_of(node: Any, key: str) -> list[Json]:
    """Copies of the objects of a list."""
    return [dict(cast("Json", each)) for each in members_of(node, key) if isinstance(each, dict)]


def texts_of(node: Any, key: str) -> list[str]:
    """The texts of a list."""
    return [each for each in members_of(node, key) if isinstance(each, str)]


def members_of(node: Any, key: str) -> list[Any]:
    """The members of a list; none when it is missing or something else."""
    value: Any = node.get(key)
    return cast("list[Any]", value) if isinstance(value, list) else []


def count_of(node: Any, key: str) -> int:
    """A whole number; zero when it is missing or something else."""
    value = node.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0

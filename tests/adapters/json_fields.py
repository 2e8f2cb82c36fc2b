"""Fields of recorded JSON, read without any code of the package: what is expected of the adapters
must not come from them.
"""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


def text_of(node: Any, key: str) -> str:
    """A text; empty when it is missing or something else."""
    value = node.get(key)
    return value if isinstance(value, str) else ""


def mapping_of(node: Any, key: str) -> Json:
    """A copy of an object; empty when it is missing or something else."""
    value = node.get(key)
    return dict(value) if isinstance(value, dict) else {}


def mappings_of(node: Any, key: str) -> list[Json]:
    """Copies of the objects of a list."""
    value = node.get(key)
    members = value if isinstance(value, list) else []
    return [dict(each) for each in members if isinstance(each, dict)]


def texts_of(node: Any, key: str) -> list[str]:
    """The texts of a list."""
    value = node.get(key)
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def count_of(node: Any, key: str) -> int:
    """A whole number; zero when it is missing or something else."""
    value = node.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0

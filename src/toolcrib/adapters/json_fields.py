"""Fields of a provider's JSON, read without trusting it.

SDKs give objects of the wrong class for types they do not know, and nothing about an item is
certain but its `type`. So everything is read from plain JSON, and nothing here raises.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast


def plain(item: Any) -> dict[str, Any]:
    """An item as plain JSON, whether the SDK gave a model or a mapping."""
    if isinstance(item, Mapping):
        return dict(cast("Mapping[str, Any]", item))
    dump = getattr(item, "model_dump", None)
    if not callable(dump):
        return {}
    # What the SDK did not expect is no reason to warn whoever asked.
    dumped = dump(mode="json", by_alias=True, exclude_unset=True, warnings=False)
    return cast("dict[str, Any]", dumped) if isinstance(dumped, dict) else {}


def text_of(item: Mapping[str, Any], key: str) -> str:
    """A text field; empty when it is missing or something else."""
    value = item.get(key)
    return value if isinstance(value, str) else ""


def maybe_text(item: Mapping[str, Any], key: str) -> str | None:
    """A text field; None when it is missing or something else."""
    value = item.get(key)
    return value if isinstance(value, str) else None


def maybe_int(item: Mapping[str, Any], key: str) -> int | None:
    """A whole number; None when it is missing or something else."""
    value = item.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def maybe_float(item: Mapping[str, Any], key: str) -> float | None:
    """A number; None when it is missing or something else."""
    value = item.get(key)
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def mapping_of(item: Mapping[str, Any], key: str) -> dict[str, Any]:
    """An object field; empty when it is missing or something else."""
    value = item.get(key)
    return dict(cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else {}


def mappings_of(item: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    """The objects of a list field; what is no object is passed over."""
    value = item.get(key)
    if not isinstance(value, Sequence) or isinstance(value, str):
        return []
    dumped = cast("Sequence[Any]", value)
    return [
        dict(cast("Mapping[str, Any]", member)) for member in dumped if isinstance(member, Mapping)
    ]


def texts_of(item: Mapping[str, Any], key: str) -> list[str]:
    """The texts of a list field; what is no text is passed over."""
    value = item.get(key)
    if not isinstance(value, Sequence) or isinstance(value, str):
        return []
    return [member for member in cast("Sequence[Any]", value) if isinstance(member, str)]


def json_object_of(item: Mapping[str, Any], key: str) -> dict[str, Any]:
    """An object that a text field spells out as JSON; empty when it is anything else."""
    try:
        return mapping_of({"read": json.loads(text_of(item, key))}, "read")
    except (ValueError, RecursionError):
        return {}

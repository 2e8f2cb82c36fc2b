"""What is inside the data of an event, which may have been deleted from the ledger."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast


def object_in(data: Mapping[str, Any], name: str) -> dict[str, Any]:
    """An object; empty when there is none."""
    found = data.get(name)
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def list_in(data: Mapping[str, Any], name: str) -> list[Any]:
    """A list; empty when there is none."""
    found = data.get(name)
    return cast("list[Any]", found) if isinstance(found, list) else []


def text_in(data: Mapping[str, Any], name: str) -> str:
    """A text; empty when there is none."""
    found = data.get(name)
    return found if isinstance(found, str) else ""

"""Checks of a tool's options. Each says which option is wrong and what it may be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from toolcrib.errors import InvalidTool


def check_choice(option: str, value: object, choices: Sequence[str]) -> None:
    """None, or one of a few words."""
    if value is not None and value not in choices:
        raise InvalidTool(f"{option} must be None or one of {', '.join(choices)}, not {value!r}")


def check_count(option: str, value: object, low: int, high: int) -> None:
    """None, or a whole number between two others."""
    is_count = isinstance(value, int) and not isinstance(value, bool)
    if value is not None and not (is_count and low <= cast("int", value) <= high):
        raise InvalidTool(
            f"{option} must be None or a whole number from {low} to {high}, not {value!r}"
        )


def check_text(option: str, value: object) -> None:
    """None, or a text that says something."""
    if value is not None and (not isinstance(value, str) or not value.strip()):
        raise InvalidTool(f"{option} must be None or a text, not {value!r}")


def check_named(option: str, value: object) -> None:
    """A text that says something."""
    if value is None:
        raise InvalidTool(f"{option} must be a text, not None")
    check_text(option, value)


def check_names(option: str, value: object) -> None:
    """A tuple of texts; a lone text is a common slip."""
    if not isinstance(value, tuple):
        raise InvalidTool(f"{option} must be a tuple of texts, not {value!r}")
    for name in cast("tuple[Any, ...]", value):
        check_named(f"each of {option}", name)


def check_flag(option: str, value: object) -> None:
    """None, True or False."""
    if not isinstance(value, bool | None):
        raise InvalidTool(f"{option} must be None, True or False, not {value!r}")

"""Checks of the options of hosted kinds. Each names the option and the values it accepts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, cast, get_args

from toolcrib.errors import InvalidTool

ToolCaller: TypeAlias = Literal["direct", "programmatic"]
"""Who may call a tool: the model itself, or a program that the model writes."""


def check_callers(option: str, value: object) -> None:
    """Accept `None` or a tuple of at least one caller, each once."""
    if value is None:
        return
    names = cast("tuple[Any, ...]", value) if isinstance(value, tuple) else ()
    if not names or len(set(names)) < len(names) or not set(names) <= set(get_args(ToolCaller)):
        raise InvalidTool(
            f"{option} must be None or a tuple of {' and '.join(get_args(ToolCaller))}, "
            f"not {value!r}"
        )


def check_choice(option: str, value: object, choices: Sequence[str]) -> None:
    """Accept `None` or one of the choices."""
    if value is not None and value not in choices:
        raise InvalidTool(f"{option} must be None or one of {', '.join(choices)}, not {value!r}")


def check_count(option: str, value: object, low: int, high: int) -> None:
    """Accept `None` or a whole number from `low` to `high`."""
    is_count = isinstance(value, int) and not isinstance(value, bool)
    if value is not None and not (is_count and low <= cast("int", value) <= high):
        raise InvalidTool(
            f"{option} must be None or a whole number from {low} to {high}, not {value!r}"
        )


def check_text(option: str, value: object) -> None:
    """Accept `None` or a text that is not blank."""
    if value is not None and (not isinstance(value, str) or not value.strip()):
        raise InvalidTool(f"{option} must be None or a text, not {value!r}")


def check_named(option: str, value: object) -> None:
    """Accept a text that is not blank."""
    if value is None:
        raise InvalidTool(f"{option} must be a text, not None")
    check_text(option, value)


def check_names(option: str, value: object) -> None:
    """Accept a tuple of texts; a single text is a common mistake."""
    if not isinstance(value, tuple):
        raise InvalidTool(f"{option} must be a tuple of texts, not {value!r}")
    for name in cast("tuple[Any, ...]", value):
        check_named(f"each of {option}", name)


def check_flag(option: str, value: object) -> None:
    """Accept `None`, `True` or `False`."""
    if not isinstance(value, bool | None):
        raise InvalidTool(f"{option} must be None, True or False, not {value!r}")


LONGEST_DOMAIN = 253
_LABEL = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?")


def check_domains(field: str, domains: object) -> None:
    """Accept a tuple of bare domain names such as `docs.example.org`."""
    if not isinstance(domains, tuple):
        raise InvalidTool(f"{field} must be a tuple of domains, not {type(domains).__name__}")
    for domain in domains:  # pyright: ignore[reportUnknownVariableType]
        if not isinstance(domain, str) or not _is_domain(domain):
            raise InvalidTool(
                f"{field}: {domain!r} is not a domain; write the bare name, like 'example.org', "
                "without protocol, port, path or spaces, and no address or top-level domain alone"
            )


def _is_domain(domain: str) -> bool:
    try:
        # Names in other scripts are checked in the form in which they are looked up.
        wire = domain.encode("idna").decode("ascii")
    except UnicodeError:
        return False
    labels = wire.split(".")
    # One label alone is a whole top-level domain, and no top-level domain is a number.
    is_within = len(labels) > 1 and not labels[-1].isdigit()
    return is_within and len(wire) <= LONGEST_DOMAIN and all(map(_LABEL.fullmatch, labels))

"""Templates: `$name` is replaced by a value and `$$` by a dollar. Errors name their section."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from string import Template
from typing import Any

from toolcrib.errors import InvalidPrompt, InvalidTool


def placeholders(text: str) -> frozenset[str]:
    """Return the names in a template. Refuses a `$` that starts no name."""
    names: set[str] = set()
    for match in Template.pattern.finditer(text):
        if match["invalid"] is not None:
            line = text.count("\n", 0, match.start()) + 1
            raise InvalidPrompt(
                f"the '$' in line {line} of the text starts no name; write '$$' for a dollar"
            )
        names.update(filter(None, (match["named"], match["braced"])))
    return frozenset(names)


def fill(text: str, values: Mapping[str, Any]) -> str:
    """Replace the placeholders of a template. Values are not templates themselves."""
    missing = sorted(placeholders(text).difference(values))
    if missing:
        named = ", ".join(f"${name}" for name in missing)
        arguments = ", ".join(f"{name}=..." for name in missing)
        raise InvalidPrompt(f"no value for {named}; bind it: prompt.bind({arguments})")
    return Template(text).substitute(values)


def check_placeholders(text: str, params_type: type[Any] | None) -> frozenset[str]:
    """Return the names in a template. With params, each must be one of their fields."""
    names = placeholders(text)
    if params_type is None:
        return names
    known = {field.name for field in fields(params_type)}
    unknown = sorted(names - known)
    if unknown:
        raise InvalidPrompt(
            f"the text uses ${unknown[0]}, but {params_type.__name__} has only: "
            f"{', '.join(sorted(known)) or 'no fields'}"
        )
    return names


@contextmanager
def located(where: str) -> Generator[None, None, None]:
    """Prefix errors about a prompt or its tools with `where`."""
    try:
        yield
    except (InvalidPrompt, InvalidTool) as error:
        raise InvalidPrompt(f"{where}: {error}") from error

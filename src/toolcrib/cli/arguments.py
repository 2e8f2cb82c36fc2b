"""Arguments of a call on the command line: JSON, or `key=value` words read by the tool's schema."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

import typer


def read_arguments(text: str) -> dict[str, Any]:
    """Read `--arguments`; anything but a JSON object is wrong use of the command."""
    from pydantic_core import from_json

    try:
        arguments = from_json(text, allow_inf_nan=False)
    except ValueError as error:
        raise typer.BadParameter(f"--arguments is not JSON: {error}") from None
    if not isinstance(arguments, dict):
        raise typer.BadParameter("--arguments is not a JSON object; write '{...}'")
    return cast("dict[str, Any]", arguments)


def parse_arguments(
    words: Iterable[str], text: str | None, parameters: Mapping[str, Any]
) -> dict[str, Any]:
    """Read the arguments from JSON (`text`) or from words. Raises `typer.BadParameter` for
    malformed arguments; the call itself validates them against the schema.
    """
    words = list(words)
    if text is not None:
        if words:
            raise typer.BadParameter("give the arguments as key=value or as --arguments, not both")
        return read_arguments(text)
    values: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not name or not equals:
            raise typer.BadParameter(f"{word!r} is not key=value; or use --arguments '{{...}}'")
        if name in values:
            raise typer.BadParameter(f"{name!r} is there twice; remove one")
        values[name] = read_value(value, _schema_of(parameters, name))
    return values


def read_value(text: str, schema: Any) -> Any:
    """Read the text of one argument by its schema. Text that is no JSON stays text."""
    return _read(text, _types(schema))


def _schema_of(parameters: Mapping[str, Any], name: str) -> Any:
    properties = cast("Mapping[str, Any]", parameters.get("properties") or {})
    return properties.get(name)


def _types(schema: Any) -> frozenset[str]:
    if not isinstance(schema, dict):
        return frozenset()
    facts = cast("dict[str, Any]", schema)
    named: Any = facts.get("type")
    if isinstance(named, str):
        return frozenset({named})
    if isinstance(named, list):
        return frozenset(cast("list[str]", named))
    if (values := facts.get("enum")) and all(isinstance(value, str) for value in values):
        return frozenset({"string"})
    choices = [
        *cast("list[Any]", facts.get("anyOf") or []),
        *cast("list[Any]", facts.get("oneOf") or []),
    ]
    return frozenset[str]().union(*(_types(choice) for choice in choices))


def _read(value: str, types: frozenset[str]) -> Any:
    """Text stays text where the schema takes it: a version such as 1.0 is no number."""
    from pydantic_core import from_json

    if "string" in types and "null" not in types:
        return value
    try:
        parsed = from_json(value, allow_inf_nan=False)
    except ValueError:
        return value
    return value if "string" in types and parsed is not None else parsed

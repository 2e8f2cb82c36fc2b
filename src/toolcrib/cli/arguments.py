"""Arguments of a call, as given on the command line."""

from __future__ import annotations

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

"""Commands that are imported when they are named, so that each starts as fast as it can."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar, cast

import typer
from typer.core import TyperGroup


class LazyGroup(TyperGroup):
    """A group whose commands are `MODULE:NAME`, of a function or of a `typer.Typer`."""

    places: ClassVar[Mapping[str, str]] = {}

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        # Only the names: among these Typer looks for what a mistyped command may have meant.
        self.commands = cast("Any", dict.fromkeys(self.places))

    def list_commands(self, ctx: Any) -> list[str]:
        """The names, in the order of the table."""
        return [*self.places]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of that name, imported now; None when there is none."""
        place = self.places.get(cmd_name)
        if place is None:
            return None
        command = typer.main.get_command(_typer(place))
        command.name = cmd_name
        return command


def _typer(place: str) -> typer.Typer:
    module, _, name = place.partition(":")
    command = getattr(import_module(module), name)
    if isinstance(command, typer.Typer):
        return command
    alone = typer.Typer(add_completion=False)
    alone.command()(command)
    return alone

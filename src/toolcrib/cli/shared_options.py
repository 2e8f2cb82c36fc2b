"""Options that several commands share: each gets all of them as one parameter."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from inspect import Parameter, Signature, signature
from typing import Any, get_type_hints

Command = Callable[..., None]


def option(name: str, annotation: Any, default: object = None) -> Parameter:
    """One option: its name, its annotation for Typer, and its default."""
    return Parameter(name, Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def takes_options(
    into: str, options: Sequence[Parameter], gather: Callable[[dict[str, Any]], object]
) -> Callable[[Command], Command]:
    """Add options to a command, which gets what `gather` makes of their values as its parameter
    `into`.
    """

    def decorate(command: Command) -> Command:
        hints = get_type_hints(command, include_extras=True)
        own = [
            parameter.replace(annotation=hints[parameter.name], kind=Parameter.KEYWORD_ONLY)
            for parameter in signature(command).parameters.values()
            if parameter.name != into
        ]

        @functools.wraps(command)
        def with_options(**values: Any) -> None:
            taken = {each.name: values.pop(each.name) for each in options}
            command(**{into: gather(taken)}, **values)

        # Typer reads a command's options from its signature and its annotations.
        parameters = [*own, *options]
        described: Any = with_options
        described.__signature__ = Signature(parameters)
        described.__annotations__ = {each.name: each.annotation for each in parameters}
        return with_options

    return decorate

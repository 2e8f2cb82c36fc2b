"""Values of options without a schema library: most are text, paths, choices or nothing at all.

Since 0.29, Typer makes a pydantic adapter for each option, also for one that was not given, and to
import pydantic takes longer than most commands run.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import typer


def read_plainly(parameters: Iterable[Any]) -> None:
    """Have each parameter read by itself what needs no adapter, and by Typer everything else."""
    for parameter in parameters:
        # Versions before 0.29 have no adapters to avoid.
        adapter = getattr(parameter, "get_runtime_param", None)
        if adapter is not None and not isinstance(adapter, _PlainValue):
            parameter.get_runtime_param = _PlainValue(adapter)


class _PlainValue:
    """Takes the place of a parameter's adapter."""

    def __init__(self, adapter: Callable[[], Any]) -> None:
        self._adapter = adapter

    def __call__(self) -> _PlainValue:
        return self

    def coerce(self, value: Any, *, param: Any, ctx: Any) -> Any:
        """The value as the command takes it. Raises `typer.BadParameter`."""
        is_many = param.multiple or param.nargs == -1
        if value is None:
            return () if is_many else None
        kind, rules = param.type_descriptor.annotation, param.type_descriptor.parameter_info
        if rules.parser is not None and not is_many:
            return _parsed(value, rules.parser, param, ctx)
        if is_many:
            [kind] = get_args(kind) or (kind,)
        texts: list[Any] = list(value) if is_many else [value]
        if all(_is_plain(text, kind, rules) for text in texts):
            values = [Path(text) if kind is Path else text for text in texts]
            return values if is_many else values[0]
        return self._adapter().coerce(value, param=param, ctx=ctx)


def _parsed(value: Any, parser: Callable[[Any], Any], param: Any, ctx: Any) -> Any:
    try:
        return parser(value)
    except typer.BadParameter as error:
        error.param, error.ctx = param, ctx
        raise


def _is_plain(text: Any, kind: Any, rules: Any) -> bool:
    """Whether the text is the value, or its path. What may be refused is left to Typer."""
    if rules.parser is not None:
        return False
    if get_origin(kind) is Literal:
        return text in get_args(kind)
    if kind is Path and not (rules.exists or rules.resolve_path or rules.allow_dash):
        return _is_any_path(text, rules)
    return kind is str and isinstance(text, str)


def _is_any_path(text: Any, rules: Any) -> bool:
    takes_all = rules.file_okay and rules.dir_okay and not rules.writable
    return takes_all and (not os.path.exists(text) or os.access(text, os.R_OK))

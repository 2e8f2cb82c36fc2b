"""What every provider can do, and the error when it is asked for more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolcrib.adapters.support.cell import Cell, Kind
from toolcrib.adapters.support.matrix import MATRIX, PROVIDERS
from toolcrib.adapters.support.options import options_of
from toolcrib.errors import UnsupportedOption, UsageError

__all__ = ["MATRIX", "PROVIDERS", "Cell", "Kind", "check", "options_of", "supports"]


def check(provider: str, kind: str, options: Mapping[str, Any]) -> None:
    """Raise `UnsupportedOption` for the first thing that the provider cannot do: the kind of tool
    itself, or one of the options that are set (see `options_of`).
    """
    row = _row(provider, kind)
    refusal = row.cell(provider).refusal(None)
    if refusal is not None:
        raise UnsupportedOption(kind, "anything", provider, refusal)
    for option, value in options.items():
        refusal = row.cell(provider, option).refusal(value)
        if refusal is not None:
            raise UnsupportedOption(kind, option, provider, refusal)


def supports(provider: str, kind: str, options: Mapping[str, Any] | None = None) -> bool:
    """Whether the provider can do all of it."""
    try:
        check(provider, kind, options or {})
    except UnsupportedOption:
        return False
    return True


def _row(provider: str, kind: str) -> Kind:
    if provider not in PROVIDERS:
        raise UsageError(
            f"{provider!r} is no provider of the matrix; it has {', '.join(PROVIDERS)}"
        )
    if kind not in MATRIX:
        why = f"nothing is known about this kind; known are {', '.join(MATRIX)}"
        raise UnsupportedOption(kind, "anything", provider, why)
    return MATRIX[kind]

"""The support matrix: what every provider can do, and the check of a tool against it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolcrib.adapters.support.matrix import MATRIX
from toolcrib.adapters.support.options import options_of
from toolcrib.adapters.support.table import PROVIDERS, Cell, KindSupport
from toolcrib.errors import UnsupportedOption, UsageError

__all__ = ["MATRIX", "PROVIDERS", "Cell", "KindSupport", "check", "options_of", "supports"]


def check(provider: str, kind: str, options: Mapping[str, Any]) -> None:
    """Raise `UnsupportedOption` when the provider lacks the kind of tool, or for the first option
    that it does not take. `options` are those that differ from their defaults (see `options_of`).
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
    """Whether the provider has the tool and takes all of the options."""
    try:
        check(provider, kind, options or {})
    except UnsupportedOption:
        return False
    return True


def _row(provider: str, kind: str) -> KindSupport:
    if provider not in PROVIDERS:
        raise UsageError(f"unknown provider {provider!r}; the matrix has {', '.join(PROVIDERS)}")
    if kind not in MATRIX:
        why = f"unknown kind; the matrix has {', '.join(MATRIX)}"
        raise UnsupportedOption(kind, "anything", provider, why)
    return MATRIX[kind]

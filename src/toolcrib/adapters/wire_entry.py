"""The wire entry of a tool: what its codec writes, with the fields of `extra` added."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from toolcrib.errors import UsageError

if TYPE_CHECKING:
    from toolcrib.adapters.codec import Contribution


def with_extra(contribution: Contribution, extra: Mapping[str, Any], name: str) -> Contribution:
    """What a tool adds to a request, with the fields of `extra` in its first entry."""
    if not extra or not contribution.tools:
        return contribution
    first, *others = contribution.tools
    return replace(contribution, tools=(merged(first, extra, name), *others))


def merged(entry: Mapping[str, Any], extra: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The entry with further fields, objects within objects.

    Raises `UsageError` for a field that the entry has already: two places that say one thing would
    be a riddle, and a policy saw only one of them.
    """
    return _merged(entry, extra, name, "")


def _merged(
    entry: Mapping[str, Any], extra: Mapping[str, Any], name: str, above: str
) -> dict[str, Any]:
    whole = dict(entry)
    for field, value in extra.items():
        path = f"{above}{field}"
        if field not in whole:
            whole[field] = value
        elif isinstance(whole[field], Mapping) and isinstance(value, Mapping):
            inner = cast("Mapping[str, Any]", whole[field])
            whole[field] = _merged(inner, cast("Mapping[str, Any]", value), name, f"{path}.")
        else:
            raise UsageError(
                f"tool {name!r}: extra has {path!r}, which its options write already; set it in "
                "config, and leave it out of extra"
            )
    return whole

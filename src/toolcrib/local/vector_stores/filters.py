"""Filters on the attributes of files."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from toolcrib.local.faults import invalid

Attributes = Mapping[str, str | float | bool]
Filter = Callable[[Attributes], bool]

_DEEPEST: Final = 16
_ORDERS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}


def read_filter(told: object, param: str, depth: int = 0) -> Filter:
    """What a filter lets through. Raises `ApiFault` naming what is wrong with it."""
    if told is None:
        return lambda attributes: True
    if not isinstance(told, dict) or depth > _DEEPEST:
        raise invalid("A filter must be an object, and not too deep.", param)
    facts = cast(dict[str, Any], told)
    if facts.get("type") in ("and", "or"):
        return _compound(facts, param, depth)
    return _comparison(facts, param)


def _compound(facts: Mapping[str, Any], param: str, depth: int) -> Filter:
    members = facts.get("filters")
    if not isinstance(members, list) or not members:
        raise invalid("A compound filter needs a list of filters.", f"{param}.filters")
    listed = cast(list[object], members)
    filters = [
        read_filter(each, f"{param}.filters[{at}]", depth + 1) for at, each in enumerate(listed)
    ]
    combine = all if facts["type"] == "and" else any
    return lambda attributes: combine(each(attributes) for each in filters)


def _comparison(facts: Mapping[str, Any], param: str) -> Filter:
    kind, key, value = facts.get("type"), facts.get("key"), facts.get("value")
    if not isinstance(key, str):
        raise invalid("A comparison needs a key.", f"{param}.key")
    match kind:
        case "eq" | "ne":
            _check_scalar(value, f"{param}.value")
            return lambda attributes: _equal(attributes.get(key), value) == (kind == "eq")
        case "in" | "nin":
            if not isinstance(value, list):
                raise invalid("'in' and 'nin' need a list.", f"{param}.value")
            listed = cast(list[Any], value)
            return lambda attributes: (
                any(_equal(attributes.get(key), each) for each in listed) == (kind == "in")
            )
        case "gt" | "gte" | "lt" | "lte":
            _check_scalar(value, f"{param}.value")
            return lambda attributes: _ordered(_ORDERS[kind], attributes.get(key), value)
        case _:
            raise invalid(f"Unknown type of filter: {str(kind)[:80]!r}.", f"{param}.type")


def _check_scalar(value: object, param: str) -> None:
    if not isinstance(value, str | int | float | bool):
        raise invalid("The value must be text, a number or a boolean.", param)


def _equal(have: Any, value: Any) -> bool:
    """Without taking true for 1."""
    return isinstance(have, bool) == isinstance(value, bool) and have == value


def _ordered(compare: Callable[[Any, Any], bool], have: Any, value: Any) -> bool:
    """A file without the attribute, or with one of another type, is not let through."""
    if isinstance(have, bool) or isinstance(value, bool):
        return False
    if isinstance(have, str) != isinstance(value, str) or have is None:
        return False
    return compare(have, value)

"""Hypothesis strategies for every event, drawn from the events' own types."""

import types
from dataclasses import fields, is_dataclass
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from toolcrib.approval.quorum import Quorum
from toolcrib.ledger.event_kinds import ALL_EVENTS
from toolcrib.ledger.events import Event

NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | NUMBERS | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)
SIMPLE: dict[object, st.SearchStrategy[Any]] = {
    Any: JSON,
    str: st.text(max_size=12),
    int: st.integers(),
    float: NUMBERS,
    bool: st.booleans(),
    type(None): st.none(),
    Quorum: st.builds(
        Quorum, st.integers(1, 20), st.lists(st.text("abc", min_size=1), max_size=3).map(tuple)
    ),
}


def drawn_from(hint: Any) -> st.SearchStrategy[Any]:
    """Values of a type as an event's field declares it."""
    if hint in SIMPLE:
        return SIMPLE[hint]
    arguments = get_args(hint)
    match get_origin(hint):
        case origin if origin is Literal:
            return st.sampled_from(arguments)
        case origin if origin in (Union, types.UnionType):
            return st.one_of([drawn_from(each) for each in arguments])
        case origin if origin is tuple and ... not in arguments:
            return st.tuples(*map(drawn_from, arguments))
        case origin if origin is tuple:
            return st.lists(drawn_from(arguments[0]), max_size=3).map(tuple)
        case origin if origin is frozenset:
            return st.frozensets(drawn_from(arguments[0]), max_size=3)
        case origin if origin is list:
            return st.lists(drawn_from(arguments[0]), max_size=3)
        case origin if origin is dict:
            return st.dictionaries(drawn_from(arguments[0]), drawn_from(arguments[1]), max_size=3)
        case _:
            return facts(hint)


def facts(kind: type[Any]) -> st.SearchStrategy[Any]:
    """Instances of a dataclass, every field drawn."""
    assert is_dataclass(kind), kind
    hints = get_type_hints(kind)
    return st.builds(kind, **{each.name: drawn_from(hints[each.name]) for each in fields(kind)})


def all_events() -> st.SearchStrategy[Event]:
    """Events of every kind."""
    return st.one_of([facts(kind) for kind in ALL_EVENTS])

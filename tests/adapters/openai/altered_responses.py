"""Responses as a later version of a provider may send them: changed, but still responses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from hypothesis import strategies as st

from tests.adapters.openai.scripted_provider import Json

NEW_TYPES: Final = (
    "aura",
    "dream_call",
    "dream_call_output",
    "Ünsinn 2.0_call",
    "x" * 90 + "_call",
)
"""Types of items that nobody knows; some are calls by their name."""

_KEPT: Final = frozenset({"type", "id", "call_id"})
_NEWS: Final[st.SearchStrategy[Any]] = st.none() | st.integers() | st.text(max_size=5)


@st.composite
def altered(draw: st.DrawFn, item: Json) -> Json:
    """The item with fields left out, set to null, given a value nobody knows, or added; sometimes
    it has another type.
    """
    found = draw(_changed(item))
    if draw(st.integers(0, 5)) == 0:
        found["type"] = draw(st.sampled_from(NEW_TYPES))
    return found


@st.composite
def _changed(draw: st.DrawFn, facts: Mapping[str, Any]) -> Json:
    found: Json = {}
    for key, value in facts.items():
        how = "kept" if key in _KEPT else draw(_HOW)
        if how != "left out":
            found[key] = None if how == "null" else draw(_value(value, how))
    if draw(st.integers(0, 3)) == 0:
        found["novelty"] = draw(_NEWS)
    return found


_HOW: Final = st.sampled_from(["kept"] * 12 + ["left out", "null", "new"])


def _value(value: Any, how: str) -> st.SearchStrategy[Any]:
    if isinstance(value, dict):
        return _changed(cast("Json", value))
    if isinstance(value, list):
        return st.tuples(*(_value(each, how) for each in cast("list[Any]", value))).map(list)
    return st.just("novel" if how == "new" and isinstance(value, str) else value)

"""Items are read without being trusted."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.adapters.openai.response_samples import JSON_VALUES, sdk_items
from toolcrib.adapters import items
from toolcrib.adapters.openai.items import read_message

ITEMS = st.dictionaries(st.sampled_from(["a", "content", "type"]), JSON_VALUES)


@given(ITEMS)
def test_no_reader_raises(item: dict[str, Any]) -> None:
    """E4: whatever a field holds, a reader gives something of its own type."""
    assert isinstance(items.text_of(item, "a"), str)
    assert isinstance(items.maybe_text(item, "a"), str | None)
    assert isinstance(items.maybe_int(item, "a"), int | None)
    assert isinstance(items.maybe_float(item, "a"), float | None)
    assert isinstance(items.mapping_of(item, "a"), dict)
    assert isinstance(items.mappings_of(item, "a"), list)
    assert isinstance(items.texts_of(item, "a"), list)
    assert isinstance(items.json_object_of(item, "a"), dict)
    assert isinstance(read_message(item).text, str)
    assert items.plain(item) == item


def test_a_bool_is_no_number() -> None:
    """`true` where a number belongs is a mistake of the server's, not the number one."""
    assert items.maybe_int({"n": True}, "n") is None
    assert items.maybe_float({"n": True}, "n") is None


def test_a_number_beyond_floats_is_none() -> None:
    """JSON knows larger numbers than floats do."""
    assert items.maybe_float({"n": 10**400}, "n") is None


def test_items_of_the_sdk_are_read_as_they_were_sent() -> None:
    """The SDK gives objects of the wrong class for types it does not know; nothing is lost."""
    sent = [{"type": "dream_call", "id": "dr_1", "sheep": [1, {"name": None}]}]

    assert [items.plain(each) for each in sdk_items(sent)] == sent


def test_what_is_no_item_is_an_empty_one() -> None:
    """Readers need not ask first."""
    assert items.plain(None) == {}
    assert items.plain("text") == {}
    assert items.plain(7) == {}

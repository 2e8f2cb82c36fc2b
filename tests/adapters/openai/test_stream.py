"""What a stream of events comes to, however a server tells it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.adapters.openai.response_samples import fixture, fixture_names
from tests.adapters.openai.scripted_provider import (
    ENDINGS,
    Json,
    call,
    events_of,
    message,
    response,
)
from toolcrib.adapters.openai.stream import Streamed
from toolcrib.errors import ReplyBroken

SEARCH = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
ITEMS = [SEARCH, call("add"), message("Fine.")]
BODIES = [response(*ITEMS), *(response(*fixture(name)) for name in fixture_names())]


def body_of(events: Iterable[Json]) -> Json:
    streamed = Streamed()
    for event in events:
        streamed.add(event)
    return streamed.body()


def done(item: Json, place: int | None = None) -> Json:
    where = {} if place is None else {"output_index": place}
    return {"type": "response.output_item.done", "item": item, **where}


def ended(*items: Json, **fields: Any) -> Json:
    return {"type": "response.completed", "response": response(*items, **fields)}


@st.composite
def retold(draw: st.DrawFn, body: Json) -> list[Json]:
    """The stream of a response, told out of order, with repetitions, and with news in between."""
    *events, ending = events_of(body)
    again = draw(st.lists(st.sampled_from(events), max_size=4))
    news = [{"type": f"response.news_{number}.told", "news": number} for number in range(3)]
    return [*draw(st.permutations([*events, *again, *news])), ending]


@pytest.mark.parametrize("is_empty", [True, False], ids=["empty", "whole"])
@given(st.data())
def test_order_repetition_and_news_change_nothing(is_empty: bool, data: st.DataObject) -> None:
    """E4: what comes of a stream is the response, also when its end has no items."""
    body = data.draw(st.sampled_from(BODIES))
    events = data.draw(retold(body))
    if is_empty:
        events[-1] = {**events[-1], "response": {**body, "output": []}}

    assert body_of(events) == body


@given(st.data())
def test_an_item_that_the_end_leaves_out_is_kept(data: st.DataObject) -> None:
    """E4: what an event told of is not lost, and stands in its place."""
    body = data.draw(st.sampled_from(BODIES))
    kept = data.draw(
        st.lists(st.booleans(), min_size=len(body["output"]), max_size=len(body["output"]))
    )
    *events, _ = events_of(body)
    short = [item for item, is_kept in zip(body["output"], kept, strict=True) if is_kept]

    assert body_of([*events, ended(*short)])["output"] == body["output"]


def test_items_without_a_place_stay_in_the_order_they_came() -> None:
    """E4: a server need not number its items."""
    assert body_of([*map(done, ITEMS), ended()])["output"] == ITEMS


def test_items_without_an_id_are_not_mixed_up() -> None:
    """E4: without an id, what is the same in the same place is one item."""
    bare = [{**item, "id": None} for item in ITEMS]
    events = [done(item, place) for place, item in enumerate([*bare, bare[0]])]

    assert body_of([*events, *events, ended()])["output"] == [*bare, bare[0]]
    assert body_of([*map(done, bare), ended(*bare[:2])])["output"] == bare


def test_ids_that_change_with_every_event_make_no_new_items() -> None:
    """E4: some servers give an item another id whenever they tell of it."""
    events = [done({**item, "id": f"other_{place}"}, place) for place, item in enumerate(ITEMS)]

    assert body_of([*events, ended(*ITEMS)])["output"] == ITEMS


@pytest.mark.parametrize("kind", ENDINGS)
@pytest.mark.parametrize("final", [None, [], {"status": None}])
def test_the_last_event_says_how_it_ended(kind: str, final: Any) -> None:
    """E5: a failure without a response is not taken for an answer."""
    body = body_of([done(message("Fine.")), {"type": kind, "response": final}])

    assert body == {"status": kind.removeprefix("response."), "output": [message("Fine.")]}


def test_a_stream_without_an_end_is_broken() -> None:
    """E5: items alone are no response."""
    with pytest.raises(ReplyBroken, match="before the response was complete"):
        body_of(map(done, ITEMS))


@pytest.mark.parametrize(
    ("event", "told"), [({"message": "overload"}, "overload"), ({}, "does not say why")]
)
def test_an_error_among_the_events_breaks_it(event: Json, told: str) -> None:
    """E5: whatever came before, and whatever would come."""
    with pytest.raises(ReplyBroken, match=told):
        body_of([*map(done, ITEMS), {"type": "error", **event}, ended(*ITEMS)])


@pytest.mark.parametrize("item", [None, [], "text", {}])
def test_what_is_no_item_is_passed_over(item: Any) -> None:
    """E4: an event may tell nothing."""
    assert body_of([done(item, 0), done(SEARCH, 1), ended()])["output"] == [SEARCH]

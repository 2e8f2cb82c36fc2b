"""Calls that no other codec knows: recorded as they came, and counted."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.adapters.openai.loopback_adapter import add, ask, bench, happened
from tests.adapters.openai.response_samples import JSON_VALUES
from tests.adapters.openai.scripted_provider import Json, call, message, response
from toolcrib import Session, ToolInvoked
from toolcrib.adapters.openai.unknown_calls import OpenAIUnknownCodec, is_any_call, kind_of
from toolcrib.adapters.tool_declarations import undeclared
from toolcrib.errors import UsageError

CODEC = OpenAIUnknownCodec("dream")
TOOL = undeclared("dream")
ANSWER = message("Fine.")


def dream(**fields: Any) -> Json:
    return {"type": "dream_call", "id": "dr_1", "status": "completed", **fields}


def custom(name: str) -> Json:
    fields = {"call_id": "ct_1", "name": name, "input": '{"query": "tides"}'}
    return {"type": "custom_tool_call", "id": "ctc_1", "status": "completed", **fields}


def test_what_was_asked_is_told_by_the_usual_fields() -> None:
    """E4: arguments are read where they are JSON, and stay a text where they are not."""
    item = dream(name="deep", arguments='{"sheep": 3}', mood="good", query="")

    found = CODEC.invocation(item, [item], TOOL)

    assert found.params == {"name": "deep", "arguments": {"sheep": 3}}
    assert (found.kind, found.item_id, found.raw) == ("dream", "dr_1", item)
    assert CODEC.invocation(dream(arguments="{broken"), [], TOOL).params == {"arguments": "{broken"}


@pytest.mark.parametrize(
    ("fields", "value", "text"),
    [
        ({"result": "a tide"}, "a tide", "a tide"),
        ({"output": "a wave"}, "a wave", "a wave"),
        ({"output": [1]}, None, "completed"),
        ({"status": "searching"}, None, "searching"),
    ],
)
def test_what_came_of_it_is_told_where_it_is_a_text(fields: Json, value: Any, text: str) -> None:
    """E4: anything else is in the raw item only."""
    found = CODEC.invocation(dream(**fields), [], TOOL)

    assert (found.value, found.message, found.success) == (value, text, True)


def test_a_failure_is_told() -> None:
    """E5: a call that failed is no success, whatever else it says."""
    item = dream(status="failed", error={"code": "nightmare"}, result="half a dream")

    found = CODEC.invocation(item, [], TOOL)

    assert found.error == "dream_call failed: nightmare"
    assert (found.value, found.success) == (None, False)


@pytest.mark.parametrize(
    ("item_type", "kind"),
    [
        ("x_search_call", "x_search"),
        ("program", "program"),
        ("program_output", "program"),
        ("Ünsinn call_call", "unknown"),
        ("_call", "unknown"),
        ("a" * 70 + "_call", "unknown"),
    ],
)
def test_a_kind_is_named_by_its_type(item_type: str, kind: str) -> None:
    """E4: a name that no tool may have is not made up."""
    assert is_any_call({"type": item_type})
    assert kind_of({"type": item_type}) == kind
    assert undeclared(kind).name == kind


def test_it_cannot_be_declared() -> None:
    """H42: there is nothing to send for a kind that nobody knows."""
    with pytest.raises(UsageError, match="no codec knows 'dream'"):
        CODEC.serialize(TOOL)
    assert CODEC.parse_output([dream()], TOOL) is None


@given(
    st.dictionaries(st.sampled_from(["id", "status", "error", "arguments", "result"]), JSON_VALUES)
)
def test_no_item_breaks_the_reader(fields: Json) -> None:
    """E4: whatever the fields are, the call is one invocation."""
    item = {**fields, "type": "dream_call"}

    assert [each.raw for each in CODEC.invocations([item], TOOL)] == [item]


def test_an_unknown_call_is_counted_and_recorded() -> None:
    """E4: the ledger has the call as it came; an item that is no call is only counted."""
    session = Session()
    with bench(response(dream(mood="good"), {"type": "aura", "id": "au_1"}, ANSWER)) as (
        adapter,
        _,
    ):
        found = adapter.evaluate(ask(), session=session)

    [event] = happened(session, ToolInvoked)
    assert (event.name, event.capability, event.origin) == ("dream", "dream", "provider")
    assert event.raw == dream(mood="good")
    assert [name for name, _ in found.invocations] == ["dream"]
    assert found.skipped == {"dream_call": 1, "aura": 1}


def test_a_program_is_recorded_with_its_result_and_its_calls_are_answered() -> None:
    """E2, E4: a program of the provider's calls our tools, and ends in a later response."""
    program = {"type": "program", "id": "cm_1", "call_id": "call_p", "code": "tools.add(...)"}
    caller = {"type": "program", "caller_id": "call_p"}
    ended = {"type": "program_output", "id": "cmo_1", "call_id": "call_p", "result": "3"}
    asking = {**call("add", {"a": 1, "b": 2}), "caller": caller, "status": "in_progress"}
    session = Session()
    with bench(response(program, asking), response(ended, ANSWER)) as (adapter, provider):
        found = adapter.evaluate(ask(add), session=session)

    assert provider.bodies[1]["input"] == [
        {"type": "function_call_output", "call_id": "call_1", "output": "3", "caller": caller}
    ]
    assert [event.raw for event in happened(session, ToolInvoked) if event.raw] == [program, ended]
    assert [ran.params for _, ran in found.invocations] == [{"code": "tools.add(...)"}, {}]
    assert found.invocations[1][1].value == "3"


def test_a_custom_tool_of_the_providers_own_is_not_answered() -> None:
    """N24: a model that went on to its answer waits for nothing."""
    session = Session()
    with bench(response(custom("their_search"), ANSWER)) as (adapter, provider):
        found = adapter.evaluate(ask(add), session=session)

    [event] = happened(session, ToolInvoked)
    assert (found.text, len(provider.requests)) == ("Fine.", 1)
    assert (event.origin, event.raw) == ("provider", custom("their_search"))


@pytest.mark.parametrize("items", [[custom("add"), ANSWER], [custom("no_such_tool")]])
def test_a_custom_call_that_waits_is_answered(items: list[Json]) -> None:
    """N24: one of our names is ours; one of nobody's waits when the model says nothing more."""
    with bench(response(*items), response(ANSWER)) as (adapter, provider):
        adapter.evaluate(ask(add))

    [answer] = provider.bodies[1]["input"]
    assert (answer["type"], answer["call_id"]) == ("custom_tool_call_output", "ct_1")


def test_a_call_that_the_provider_answered_is_recorded_as_its_own() -> None:
    """E4: its output is in the same response, so nobody waits for ours."""
    theirs = call("their_function", {"a": 1})
    output = {"type": "function_call_output", "call_id": "call_1", "output": "1"}
    session = Session()
    with bench(response(theirs, output, ANSWER)) as (adapter, provider):
        adapter.evaluate(ask(add), session=session)

    [event] = happened(session, ToolInvoked)
    assert (event.name, event.origin, event.raw) == ("function", "provider", theirs)
    assert len(provider.requests) == 1

"""The provider's search for tools, to and from the Responses API."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from tests.adapters.openai.response_samples import (
    Items,
    fixture,
    mangled,
    only_objects,
    recorded_outputs,
    recordings,
    sdk_items,
)
from tests.adapters.openai.typed_tools import assert_typed
from toolcrib.adapters.openai.codecs.tool_search import OpenAIToolSearchCodec
from toolcrib.tools.tool_search import FoundTool, ToolSearchResult, tool_search_tool

CODEC = OpenAIToolSearchCodec()
TOOL = tool_search_tool()


def call(call_id: str | None = None, **fields: Any) -> dict[str, Any]:
    whole = {"type": "tool_search_call", "status": "completed", "execution": "server"}
    return {**whole, "call_id": call_id, "arguments": {}, **fields}


def output(*names: str, call_id: str | None = None, **fields: Any) -> dict[str, Any]:
    tools = [{"type": "function", "name": name} for name in names]
    whole = {"type": "tool_search_output", "status": "completed", "execution": "server"}
    return {**whole, "call_id": call_id, "tools": tools, **fields}


def names(items: Items) -> list[list[str] | None]:
    found = CODEC.invocations(items, TOOL)
    return [each.value and [tool.name for tool in each.value.tools] for each in found]


def test_the_provider_searches() -> None:
    """H30: execution is said, though it is the default."""
    entry = CODEC.serialize(TOOL)

    assert_typed(entry)
    assert entry == {"type": "tool_search", "execution": "server"}


def test_a_search_can_be_forced() -> None:
    """N18: through `allowed_tools`, because it is no tool choice of its own."""
    from openai.types.responses import ToolChoiceAllowedParam
    from pydantic import TypeAdapter

    TypeAdapter(ToolChoiceAllowedParam).validate_python(CODEC.choice(TOOL), extra="forbid")
    assert CODEC.choice(TOOL)["tools"] == [{"type": "tool_search"}]


def _call(raw: Any) -> dict[str, Any]:
    return {key: value for key, value in raw.items() if key != "answer"}


def test_search_and_findings_are_one_invocation() -> None:
    """N16, N24: paired in order, since they share no id; groups are opened."""
    items = fixture("tool_search")

    first, second = CODEC.invocations(items, TOOL)

    assert (_call(first.raw), _call(second.raw)) == (items[0], items[2])
    assert first.raw["answer"] in items
    assert (first.item_id, first.kind, first.success) == ("tsc_1", "tool_search", True)
    assert first.params == {"paths": ["weather"]}
    assert first.value == ToolSearchResult(
        (
            FoundTool(
                "get_weather",
                "The weather somewhere.",
                {"type": "object", "properties": {"place": {"type": "string"}}},
            ),
            FoundTool("route", namespace="maps"),
        )
    )
    assert first.message == "get_weather\nroute"
    assert second.value == ToolSearchResult((FoundTool("library"),))


def test_the_output_has_all_findings() -> None:
    """H30, E3: over all searches."""
    result = CODEC.parse_output(fixture("tool_search"), TOOL)

    assert result is not None
    assert [tool.name for tool in result.tools] == ["get_weather", "route", "library"]


def test_pairing_prefers_ids_and_skips_failures() -> None:
    """P1: ids where there are any, else order; a failed search takes nobody's findings."""
    assert names([call("a"), call("b"), output("y", call_id="b"), output("x", call_id="a")]) == [
        ["x"],
        ["y"],
    ]
    assert names([call(), call(), output("x"), output("y")]) == [["x"], ["y"]]
    assert names([call(status="incomplete"), call(), output("x")]) == [[], ["x"]]


@pytest.mark.parametrize(
    ("items", "why"),
    [
        ([call()], "tool_search_call has no output"),
        ([call(status="incomplete")], "tool_search_call incomplete"),
        ([call(), output("x", status="incomplete")], "tool_search_output incomplete"),
    ],
)
def test_a_search_without_findings_has_failed(items: Items, why: str) -> None:
    """N17, X9, E5, H44: and its value says why."""
    (found,) = CODEC.invocations(items, TOOL)

    assert (found.success, found.value.tools, found.error) == (False, (), why)
    assert (found.value.status != "completed", found.value.error) == (True, why)


def test_an_equal_copy_of_the_item_finds_the_same() -> None:
    """E4: an item read again is told by its id."""
    items = fixture("tool_search")

    assert CODEC.invocation(dict(items[2]), items, TOOL).value.tools[0].name == "library"


def test_searches_for_this_process_are_not_the_providers() -> None:
    """P3: nobody has made them yet."""
    items = [call("a", execution="client"), output("x", call_id="a", execution="client")]

    assert CODEC.invocations(items, TOOL) == []
    assert CODEC.parse_output(items, TOOL) is None


def test_objects_of_the_sdk_parse_like_plain_json() -> None:
    """E4: the client gives objects."""
    items = fixture("tool_search")

    assert CODEC.parse_output(sdk_items(items), TOOL) == CODEC.parse_output(items, TOOL)


@given(mangled(fixture("tool_search")))
def test_no_item_breaks_the_reader(items: Any) -> None:
    """E4: whatever is missing or of the wrong type, every search is counted."""
    found = CODEC.invocations(only_objects(items), TOOL)

    assert (CODEC.parse_output(items, TOOL) is None) == (not found)
    assert all(each.success == (each.value.error is None) for each in found)


@pytest.mark.parametrize("path", recordings("openai", "azure", "xai"))
def test_recorded_traffic_is_read(path: Path) -> None:
    """H48, N24: in real traffic each search of the provider's is one invocation with findings."""
    for items in recorded_outputs(path):
        searches = [item for item in items if item["type"] == "tool_search_call"]
        calls = [item for item in searches if item["execution"] == "server"]
        found = CODEC.invocations(items, TOOL)

        assert [_call(each.raw) for each in found] == calls
        assert all(each.success and each.value.tools for each in found)

"""A search for tools that runs here, to and from the Responses API."""

from typing import Any

import pytest

from tests.adapters.openai.codecs.client_tools import ITEMS, SEARCH, call_of, find, run
from tests.adapters.openai.typed_items import untyped_in_item
from toolcrib.tools.tool_search import (
    FoundTool,
    ToolQuery,
    ToolSearchResult,
    handler_tool_search_tool,
)


def test_a_search_shows_its_own_description_and_parameters() -> None:
    """Facts 1.9: both are the client's to choose."""
    entry = SEARCH.serialize(handler_tool_search_tool(find, description="Look here."))

    assert (entry["type"], entry["execution"]) == ("tool_search", "client")
    assert entry["description"] == "Look here."
    assert entry["parameters"]["required"] == ["queries"]


async def test_found_tools_are_answered_with_their_declarations() -> None:
    """Facts 2.2: what the model may call from now on, groups together."""
    schema: dict[str, Any] = {"type": "object", "properties": {}}

    def found(params: ToolQuery) -> ToolSearchResult:
        return ToolSearchResult(
            (
                FoundTool("a", "Does a.", schema),
                FoundTool("b", namespace="maps"),
                FoundTool("c"),
                FoundTool("d", namespace="maps"),
            )
        )

    answered = await run(SEARCH, ITEMS["call_f"], handler_tool_search_tool(found))

    assert untyped_in_item(answered) == []
    assert (answered["execution"], answered["status"]) == ("client", "completed")
    first, group, last = answered["tools"]
    assert first == {
        "type": "function",
        "name": "a",
        "description": "Does a.",
        "parameters": schema,
        "strict": False,
        "defer_loading": True,
    }
    assert (group["type"], group["name"]) == ("namespace", "maps")
    assert [tool["name"] for tool in group["tools"]] == ["b", "d"]
    assert last["name"] == "c"


def test_findings_read_back_from_a_ledger_count() -> None:
    """The answer may be given in another process."""
    call = call_of(SEARCH, ITEMS["call_f"])
    parameters: dict[str, Any] = {}
    tool = {"name": "a", "description": "x", "parameters": parameters, "namespace": None}
    stored = {"tools": [tool]}

    typed = SEARCH.output_item(
        call, "", success=True, value=ToolSearchResult((FoundTool("a", "x"),))
    )

    assert SEARCH.output_item(call, "", success=True, value=stored) == typed


@pytest.mark.parametrize("value", [None, "text", 5, {"tools": 5}])
def test_a_failed_search_finds_nothing(value: Any) -> None:
    """There is no place for a reason; incomplete is what can be said."""
    call = call_of(SEARCH, ITEMS["call_f"])

    failed = SEARCH.output_item(
        call, "no", success=False, value=ToolSearchResult((FoundTool("a"),))
    )

    assert (failed["status"], failed["tools"]) == ("incomplete", [])
    assert untyped_in_item(failed) == []
    assert SEARCH.output_item(call, "", success=True, value=value)["tools"] == []


def test_arguments_of_a_search_may_be_spelt_as_text() -> None:
    """E4: other providers of this API send them like a function call's."""
    item = {**ITEMS["call_f"], "arguments": '{"queries": ["a"]}'}

    assert call_of(SEARCH, item).arguments == {"queries": ["a"]}

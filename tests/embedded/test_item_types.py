"""Every item and event of every hosted tool is what the official SDK's types say."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.embedded.full_provider import Json, workshop
from tests.embedded.scripted_provider import served
from tests.embedded.sdk_types import check_event, check_input_item, check_item, check_response
from toolcrib.embedded import (
    BackendOutput,
    BackendReasoning,
    BackendRequest,
    BackendText,
    ProposedCall,
)

pytestmark = pytest.mark.wire


async def test_every_hosted_tool_makes_typed_items(tmp_path: Path) -> None:
    """One response with all of them: each item validates, and has no field that is not known."""
    async with workshop(tmp_path) as at:
        body = await at.body()
    check_response(body)
    assert body["status"] == "completed"
    assert {item["type"] for item in body["output"]} == {
        "reasoning",
        "web_search_call",
        "file_search_call",
        "code_interpreter_call",
        "shell_call",
        "shell_call_output",
        "mcp_list_tools",
        "mcp_call",
        "message",
    }
    assert {item.get("status", "completed") for item in body["output"]} == {"completed"}


async def test_every_hosted_tool_tells_typed_events(tmp_path: Path) -> None:
    """A stream with all of them; what the events add up to is the response at its end."""
    async with workshop(tmp_path) as at:
        events = await at.events()
    for event in events:
        check_event(event)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    done = [e["item"] for e in events if e["type"] == "response.output_item.done"]
    added = [e["item"]["id"] for e in events if e["type"] == "response.output_item.added"]
    output = events[-1]["response"]["output"]
    assert [item["id"] for item in done] == added == [item["id"] for item in output]
    assert done == output
    check_deltas(events, output)


def check_deltas(events: Sequence[Json], output: Sequence[Json]) -> None:
    """Pieces of text, code and arguments make up what the items say."""
    pieces: dict[str, str] = {}
    for event in events:
        if isinstance(event.get("delta"), str) and "item_id" in event:
            pieces[event["item_id"]] = pieces.get(event["item_id"], "") + event["delta"]
    for item in output:
        match item["type"]:
            case "message":
                assert pieces[item["id"]] == item["content"][0]["text"]
            case "code_interpreter_call":
                assert pieces[item["id"]] == item["code"]
            case "mcp_call":
                assert pieces[item["id"]] == item["arguments"]
            case _:
                pass


async def test_citations_of_all_kinds_are_typed_and_right(tmp_path: Path) -> None:
    """A page is cited by the span of its link, a file at its place, a made file by its name."""
    async with workshop(tmp_path) as at:
        body = await at.body()
    part = body["output"][-1]["content"][0]
    notes = {note["type"]: note for note in part["annotations"]}
    assert notes.keys() == {"url_citation", "file_citation", "container_file_citation"}
    page = notes["url_citation"]
    shown = part["text"][page["start_index"] : page["end_index"]]
    assert shown == "[Opening hours](https://shop.example/hours.html)"
    assert notes["file_citation"]["filename"] == "returns.md"
    assert notes["container_file_citation"]["filename"] == "sum.txt"


async def test_an_approval_is_asked_for_and_answered_in_typed_items(tmp_path: Path) -> None:
    """The request for it ends the response; after the yes the call is made, under its id."""
    async with workshop(tmp_path, approval="always") as at:
        asked = await at.events(tools=[at.tools[4]])
        for event in asked:
            check_event(event)
        first = asked[-1]["response"]
        request = first["output"][-1]
        assert request["type"] == "mcp_approval_request"
        yes = {
            "type": "mcp_approval_response",
            "approval_request_id": request["id"],
            "approve": True,
        }
        second = await at.body(tools=[at.tools[4]], input=[yes], previous_response_id=first["id"])
    check_response(second)
    [call] = [item for item in second["output"] if item["type"] == "mcp_call"]
    assert (call["approval_request_id"], call["output"]) == (request["id"], "42")


@pytest.mark.parametrize(
    ("choice", "offered"),
    [
        ({"type": "mcp", "server_label": "desk", "name": "add"}, {"desk__add"}),
        ({"type": "mcp", "server_label": "desk"}, {"desk__add"}),
        ({"type": "code_interpreter"}, {"python"}),
        ({"type": "shell"}, {"shell"}),
        ({"type": "file_search"}, {"file_search"}),
        (
            {"type": "allowed_tools", "mode": "required", "tools": [{"type": "web_search"}]},
            {"web_search", "open_page"},
        ),
    ],
)
async def test_each_hosted_tool_can_be_chosen(
    choice: Json, offered: set[str], tmp_path: Path
) -> None:
    """The backend is first offered that tool alone, and has to call it."""
    async with workshop(tmp_path) as at:
        await at.body(tool_choice=choice)
    first = at.puppet.requests[0]
    assert ({tool.name for tool in first.tools}, first.tool_choice) == (offered, "required")


async def test_nothing_is_included_that_was_not_asked_for(tmp_path: Path) -> None:
    """Sources, results and outputs come with `include` alone."""
    async with workshop(tmp_path) as at:
        without, asked = await at.body(include=[]), await at.body()
    kinds = {item["type"]: item for item in without["output"]}
    assert "sources" not in kinds["web_search_call"]["action"]
    assert kinds["file_search_call"]["results"] is None
    assert kinds["code_interpreter_call"]["outputs"] is None
    kinds = {item["type"]: item for item in asked["output"]}
    assert kinds["web_search_call"]["action"]["sources"]
    assert kinds["file_search_call"]["results"]
    assert kinds["code_interpreter_call"]["outputs"] == [{"type": "logs", "logs": "42\n"}]


async def test_what_went_in_is_listed_in_the_official_form(tmp_path: Path) -> None:
    """However short the input was written, its items are listed whole, and a whole conversation's
    items are typed.
    """
    async with workshop(tmp_path) as at:
        first = await at.body()
        second = await at.body(input="again", tools=[], previous_response_id=first["id"])
        raw = await at.client.responses.input_items.with_raw_response.list(
            second["id"], order="asc", limit=100
        )
        listed: list[Json] = raw.http_response.json()["data"]
    for item in listed:
        check_input_item(item)
    assert listed[0]["content"] == [{"type": "input_text", "text": "when?"}]
    assert [item["id"] for item in listed[1:-1]] == [item["id"] for item in first["output"]]


async def test_calls_that_the_client_runs_are_typed() -> None:
    """Functions and free-form tools, blocking and streamed, and what comes back for them."""

    def script(request: BackendRequest) -> Sequence[BackendOutput]:
        if len(request.history) > 1:
            return [BackendText("done")]
        return [
            BackendReasoning("hm"),
            ProposedCall("look", "{}"),
            ProposedCall("write", "anything at all"),
        ]

    tools: Any = [
        {"type": "function", "name": "look", "parameters": {"type": "object"}, "strict": False},
        {"type": "custom", "name": "write"},
    ]
    async with served(script) as (client, _):
        stream = await client.responses.create(model="puppet", input="x", tools=tools, stream=True)
        events: list[Any] = [event.to_dict() async for event in stream]
        for event in events:
            check_event(event)
        calls = events[-1]["response"]["output"][1:]
        outputs: Any = [
            {"type": f"{call['type']}_output", "call_id": call["call_id"], "output": "ok"}
            for call in calls
        ]
        done = await client.responses.create(
            model="puppet", input=outputs, previous_response_id=events[-1]["response"]["id"]
        )
        raw = await client.responses.input_items.with_raw_response.list(done.id, order="asc")
    for call in calls:
        check_item(call)
    for item in raw.http_response.json()["data"]:
        check_input_item(item)
    assert done.output_text == "done"

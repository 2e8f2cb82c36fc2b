"""Remote MCP servers, to and from the Responses API."""

import json
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
from toolcrib.adapters.openai.codecs.mcp import CONNECTORS, OpenAIMcpCodec
from toolcrib.adapters.tool_declarations import undeclared
from toolcrib.errors import UnsupportedOption
from toolcrib.tools.mcp import (
    ApprovalFilter,
    McpCall,
    McpCallResult,
    McpConfig,
    McpResult,
    McpTool,
    ToolFilter,
    mcp_tool,
)

CODEC = OpenAIMcpCodec()
URL = "https://books.example.org/mcp"
TOKEN = "tok-8f3a91c2d4"
TOOL = mcp_tool(McpConfig(server_label="library", server_url=URL))
LOCKED = mcp_tool(
    McpConfig(
        server_label="library",
        server_url=f"{URL}?key=query-secret-77",
        authorization=TOKEN,
        headers={"X-Api-Key": "Key header-secret-1", "X-Short": "ab"},
    )
)


def serialized(**options: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {"server_label": "library", "server_url": URL, **options}
    entry = CODEC.serialize(mcp_tool(McpConfig(**fields)))
    assert_typed(entry)
    return entry


def call(**fields: Any) -> dict[str, Any]:
    whole = {"id": "mcp_1", "type": "mcp_call", "status": "completed", "server_label": "library"}
    return {**whole, "name": "find", "arguments": "{}", "output": "ok", "error": None, **fields}


def test_approval_is_required_unless_told_otherwise() -> None:
    """Facts 1.6: always is the default, and said aloud."""
    assert serialized() == {
        "type": "mcp",
        "server_label": "library",
        "server_url": URL,
        "require_approval": "always",
    }


def test_every_option_has_its_place() -> None:
    """H30: none is dropped."""
    assert serialized(
        description="Books",
        authorization=TOKEN,
        headers={"X-Team": "a"},
        allowed_tools=("find", "lend"),
        require_approval="never",
        defer_loading=True,
    ) == {
        "type": "mcp",
        "server_label": "library",
        "server_url": URL,
        "server_description": "Books",
        "authorization": TOKEN,
        "headers": {"X-Team": "a"},
        "allowed_tools": ["find", "lend"],
        "require_approval": "never",
        "defer_loading": True,
    }


def test_filters_pick_tools() -> None:
    """H30: by name, by whether they only read, for use and for approval."""
    entry = serialized(
        allowed_tools=ToolFilter(read_only=False),
        require_approval=ApprovalFilter(
            always=ToolFilter(("lend",)), never=ToolFilter(("find",), read_only=True)
        ),
    )

    assert entry["allowed_tools"] == {"read_only": False}
    assert entry["require_approval"] == {
        "always": {"tool_names": ["lend"]},
        "never": {"tool_names": ["find"], "read_only": True},
    }


@pytest.mark.parametrize("connector", CONNECTORS)
def test_a_connector_takes_the_place_of_an_address(connector: str) -> None:
    """Facts 1.6: the API's list, which the SDK types."""
    entry = serialized(server_url=None, connector_id=connector)

    assert "server_url" not in entry
    assert entry["connector_id"] == connector


def test_a_tunnel_takes_the_place_of_an_address() -> None:
    """Facts 1.6: a tunnel has an id of a certain form."""
    tunnel = "tunnel_" + "a1" * 16

    assert serialized(server_url=None, tunnel_id=tunnel)["tunnel_id"] == tunnel


@pytest.mark.parametrize("options", [{"connector_id": "connector_fax"}, {"tunnel_id": "tunnel_1"}])
def test_what_openai_cannot_reach_is_refused(options: dict[str, str]) -> None:
    """H30: kind, option and provider are named before any request."""
    with pytest.raises(UnsupportedOption) as refused:
        serialized(server_url=None, **options)

    found = refused.value
    assert (found.kind, found.option, found.provider) == ("mcp", *options, "openai")


def test_a_server_can_be_forced() -> None:
    """N18: by its label."""
    from openai.types.responses import ToolChoiceMcpParam
    from pydantic import TypeAdapter

    assert CODEC.choice(TOOL) == {"type": "mcp", "server_label": "library"}
    TypeAdapter(ToolChoiceMcpParam).validate_python(CODEC.choice(TOOL), extra="forbid")


def test_every_call_of_this_server_is_one_invocation() -> None:
    """N16, N21, N24: what was asked, what came of it, and the item itself, in order."""
    items = fixture("mcp")

    found, on_loan, down = CODEC.invocations(items, TOOL)

    assert [each.raw for each in (found, on_loan, down)] == items[1:4]
    assert (found.item_id, found.kind) == ("mcp_1", "mcp")
    assert found.params == McpCall("library", "find_book", {"title": "Emma"})
    assert found.value == McpCallResult("find_book", "shelf 12", arguments={"title": "Emma"})
    assert (found.message, found.success, found.error) == ("shelf 12", True, None)
    assert down.params == McpCall("library", "find_book", {})


def test_a_listed_tool_keeps_what_the_server_says_of_its_effects() -> None:
    """Finding 19: annotations are told, with the read-only hint where there is one."""
    tools: list[dict[str, Any]] = [
        {"name": "find", "input_schema": {}, "annotations": {"readOnlyHint": True}},
        {"name": "lend", "input_schema": {}},
    ]
    listing: dict[str, Any] = {"type": "mcp_list_tools", "server_label": "library", "tools": tools}

    result = CODEC.parse_output([listing, *fixture("mcp")], TOOL)

    assert result is not None
    by_name = {entry.name: entry for entry in result.tools}
    assert by_name["find"].annotations == {"readOnlyHint": True}
    assert [by_name[name].is_read_only for name in ("find", "lend")] == [True, None]


def test_a_tool_that_fails_keeps_its_answer() -> None:
    """X9: an execution failure has a value; its message is told."""
    _, on_loan, _ = CODEC.invocations(fixture("mcp"), TOOL)

    assert (on_loan.success, on_loan.error) == (
        False,
        "mcp_call failed: mcp_tool_execution_error: It is on loan.",
    )
    assert on_loan.value == McpCallResult(
        "lend_book", "", on_loan.error, "mcpr_0", on_loan.params.arguments, "failed"
    )


def test_a_server_that_is_down_says_so_in_its_value() -> None:
    """N17, X9: the provider's code is in the error."""
    _, _, down = CODEC.invocations(fixture("mcp"), TOOL)

    assert (down.success, down.value.output) == (False, "")
    assert (down.value.status, down.value.error) == ("failed", down.error)
    assert down.error == "mcp_call failed: http_error 503: Service Unavailable"


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"status": "calling", "output": None}, "mcp_call did not finish: calling"),
        ({"status": "in_progress", "output": None}, "mcp_call did not finish: in_progress"),
        ({"status": "incomplete"}, "mcp_call incomplete"),
        ({"status": "failed"}, "mcp_call failed"),
        ({"error": "gone"}, "mcp_call failed: gone"),
        ({"error": {"type": "mcp_protocol_error", "code": -32601, "message": "m"}}, "-32601: m"),
        ({"error": {"content": "text"}}, "mcp_call failed: text"),
        ({"error": {"content": ["a", {"text": "b"}]}}, "mcp_call failed: a\nb"),
        ({"error": {"type": "tomorrow"}}, "mcp_call failed: tomorrow"),
    ],
)
def test_every_way_to_fail_is_a_failure(fields: dict[str, Any], why: str) -> None:
    """E4, E5: whatever form the error takes."""
    found = CODEC.invocation(call(**fields), [], TOOL)

    assert not found.success
    assert why in (found.error or "")


def test_a_call_may_come_without_a_status_and_without_output() -> None:
    """E4: both are optional in the API's own types."""
    item = call(output=None)
    del item["status"]

    found = CODEC.invocation(item, [item], TOOL)

    assert (found.success, found.value) == (True, McpCallResult("find"))


def test_the_output_is_that_of_one_server() -> None:
    """H30, E1: items name their server, so several can be told apart."""
    other = mcp_tool(McpConfig(server_label="archive", server_url=URL))

    result = CODEC.parse_output(fixture("mcp"), TOOL)
    others = CODEC.parse_output(fixture("mcp"), other)

    assert result is not None
    assert [each.tool for each in result.calls] == ["find_book", "lend_book", "find_book"]
    assert [each.error is None for each in result.calls] == [True, False, False]
    assert result.tools[1] == McpTool("lend_book", "", {"type": "object"})
    assert others == McpResult((McpCallResult("find_map", "map 7"),))


def test_a_call_without_a_label_is_not_lost() -> None:
    """E4: better told by a wrong name than not at all."""
    unnamed = call()
    del unnamed["server_label"]

    assert len(CODEC.invocations([unnamed], TOOL)) == 1
    assert len(CODEC.invocations([call()], undeclared("mcp"))) == 1


def test_a_server_that_cannot_list_its_tools_is_an_output() -> None:
    """H44: else nobody learns why it was not called."""
    listing: dict[str, Any] = {
        "type": "mcp_list_tools",
        "server_label": "library",
        "tools": [],
        "error": "refused",
    }

    assert CODEC.parse_output([listing], TOOL) == McpResult(error="mcp_list_tools failed: refused")
    assert CODEC.invocations([listing], TOOL) == []


@pytest.mark.parametrize(
    "items",
    [[], fixture("mcp")[:1], fixture("mcp")[4:], [{"type": "mcp_approval_request"}], [None, 5]],
)
def test_without_a_call_there_is_no_output(items: Items) -> None:
    """H30: a listing, a question or another server's call is no call."""
    assert CODEC.parse_output(items, TOOL) is None


@pytest.mark.parametrize(
    "said",
    [
        f"token {TOKEN} is not valid",
        "Key header-secret-1",
        "header-secret-1 has expired",
        f"GET {URL}?key=query-secret-77",
    ],
)
def test_credentials_that_a_server_repeats_are_hidden(said: str) -> None:
    """Nothing that is recorded holds a credential, wherever a server puts it."""
    item = call(
        output=said,
        arguments=json.dumps({"x": said}),
        error={"type": "http_error", "message": said},
    )

    found = CODEC.invocation(item, [item], LOCKED)
    result = CODEC.parse_output([item], LOCKED)

    written = f"{found}{result}{dict(found.raw)}"
    for secret in (TOKEN, "header-secret-1", "query-secret-77"):
        assert secret not in written
    assert "[secret]" in found.message


def test_without_a_credential_in_it_an_item_is_kept_as_it_is() -> None:
    """N16: verbatim, with everything this version does not know."""
    item = call(unknown={"a": [1, None, True]})

    assert CODEC.invocation(item, [item], LOCKED).raw == item


def test_a_header_that_equals_the_label_loses_no_call() -> None:
    """Hiding comes after telling whose an item is."""
    tool = mcp_tool(
        McpConfig(server_label="library", server_url=URL, headers={"X-Server": "library"})
    )

    assert len(CODEC.invocations([call()], tool)) == 1
    assert CODEC.parse_output([call()], tool) is not None


def test_a_contribution_does_not_show_credentials() -> None:
    """What goes to the provider is not shown on the way."""
    assert CODEC.contribute(LOCKED).tools[0]["authorization"] == TOKEN
    assert TOKEN not in repr(CODEC.contribute(LOCKED))


def test_objects_of_the_sdk_parse_like_plain_json() -> None:
    """E4: the client gives objects."""
    items = fixture("mcp")

    assert CODEC.parse_output(sdk_items(items), TOOL) == CODEC.parse_output(items, TOOL)


@given(mangled(fixture("mcp")))
def test_no_item_breaks_the_reader(items: Any) -> None:
    """E4: whatever is missing or of the wrong type, every call is counted."""
    for tool in (TOOL, LOCKED):
        found = CODEC.invocations(only_objects(items), tool)
        result = CODEC.parse_output(items, tool)

        assert len(found) == (len(result.calls) if result else 0)
        assert all(each.success == (each.error is None) for each in found)


@pytest.mark.parametrize("path", recordings("openai", "azure", "xai"))
def test_recorded_traffic_is_read(path: Path) -> None:
    """H48, N24: in real traffic each call is one invocation that says which tool was called."""
    for items in recorded_outputs(path):
        calls = [item for item in items if item["type"] == "mcp_call"]
        found = CODEC.invocations(items, undeclared("mcp"))

        assert [each.raw for each in found] == calls
        assert all(each.params.tool and each.params.arguments for each in found)
        assert all(each.success == (each.raw["status"] == "completed") for each in found)
        assert all(each.success == (each.value.error is None) for each in found)

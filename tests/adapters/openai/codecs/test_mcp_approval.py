"""The provider's question whether an MCP tool may be called: decided here, answered there."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from tests.adapters.openai.response_samples import (
    fixture,
    mangled,
    only_objects,
    recorded_outputs,
    recordings,
)
from tests.adapters.openai.typed_items import untyped_in_item
from toolcrib import Executor, Policy, Session
from toolcrib.adapters.openai.codecs.mcp import OpenAIMcpApprovals
from toolcrib.adapters.tool_calls import ClientCall
from toolcrib.approval import (
    Answer,
    ApprovalRequest,
    Approve,
    CallbackApprover,
    Decision,
    Deny,
    Equals,
    Rule,
)
from toolcrib.tools.mcp import McpCall, McpConfig, mcp_gate, mcp_tool

APPROVALS = OpenAIMcpApprovals("library")
SERVER = mcp_tool(McpConfig(server_label="library", server_url="https://books.example.org/mcp"))
ASKED = {"server": "library", "tool": "lend_book", "arguments": {"title": "Persuasion", "days": 14}}


def question(**fields: Any) -> dict[str, Any]:
    whole = {"id": "mcpr_1", "type": "mcp_approval_request", "server_label": "library"}
    arguments = json.dumps(ASKED["arguments"])
    return {**whole, "name": "lend_book", "arguments": arguments, **fields}


def call_of(item: dict[str, Any]) -> ClientCall:
    call = APPROVALS.call(item, SERVER.name)
    assert call is not None
    return call


async def answered(item: dict[str, Any], **options: Any) -> dict[str, Any]:
    """The answer to a question that took the whole path of a call."""
    call = call_of(item)
    executor = Executor(Session(), [mcp_gate(SERVER, provider="openai")], **options)
    outcome = await executor.call(call.tool_name, call.arguments, call_id=call.call_id)
    failure = outcome.failure.kind if outcome.failure else None
    answer = APPROVALS.output_item(
        call, outcome.text, success=outcome.ok, value=outcome.value, failure=failure
    )
    assert untyped_in_item(answer) == []
    return answer


def decides(decision: Decision) -> dict[str, Any]:
    return {"approver": CallbackApprover(lambda _: decision)}


def test_a_question_becomes_arguments_for_an_approval() -> None:
    """Server, tool and arguments: everything that a person needs to decide."""
    (call,) = APPROVALS.calls(fixture("mcp"), "library")

    assert (call.call_id, call.tool_name) == ("mcpr_1", "library")
    assert call.arguments == ASKED
    assert call.item == fixture("mcp")[5]


async def test_the_approver_sees_what_would_be_called() -> None:
    """The request has the tool's arguments as the provider will send them."""
    seen: list[ApprovalRequest] = []

    def look(request: ApprovalRequest) -> Decision:
        seen.append(request)
        return Deny()

    await answered(question(), approver=CallbackApprover(look))

    assert [request.arguments for request in seen] == [ASKED]


async def test_a_yes_is_a_yes() -> None:
    """Approved as asked: the provider may call."""
    assert await answered(question(), **decides(Approve())) == {
        "type": "mcp_approval_response",
        "approval_request_id": "mcpr_1",
        "approve": True,
    }


async def test_a_no_is_a_no_with_its_reason() -> None:
    """The model reads why."""
    answer = await answered(question(), **decides(Deny("Not on a Sunday.")))

    assert answer["approve"] is False
    assert "Not on a Sunday." in answer["reason"]


async def test_rules_decide_like_for_any_call() -> None:
    """A policy can look at the remote tool's name and arguments."""
    policy = Policy(
        (
            Rule("allow", "library"),
            Rule("deny", "library", arguments={"/tool": Equals("burn_book")}),
        )
    )

    assert (await answered(question(), policy=policy))["approve"] is True
    assert (await answered(question(name="burn_book"), policy=policy))["approve"] is False


async def test_without_anybody_to_ask_there_is_no_yes() -> None:
    """A call that waits is not a yes."""
    assert (await answered(question()))["approve"] is False


@pytest.mark.parametrize("days", [15, 14.0, "14"])
async def test_an_edited_yes_is_a_no(days: Any) -> None:
    """The provider would run the arguments as they were, so edits cannot be honoured."""
    edited = {**ASKED, "arguments": {"title": "Persuasion", "days": days}}

    answer = await answered(question(), **decides(Approve(edited)))

    assert answer["approve"] is False
    assert "were changed" in answer["reason"]


async def test_an_answer_in_the_tools_place_is_a_no() -> None:
    """Whatever stands in the gate's place, the remote tool must not run."""
    assert (await answered(question(), **decides(Answer("done"))))["approve"] is False


@pytest.mark.parametrize("arguments", ["{", "", "[]", "5", "null", None, 7, ["x"]])
async def test_what_nobody_can_read_is_refused(arguments: Any) -> None:
    """Even by an approver who says yes to everything: it would be a yes to something unseen."""
    answer = await answered(question(arguments=arguments), **decides(Approve()))

    assert answer["approve"] is False


@pytest.mark.parametrize("value", [None, "yes", {}, {1: 2, "a": 3}, {"server": {1, 2}}, object()])
def test_only_the_gates_own_result_is_a_yes(value: Any) -> None:
    """Success alone does not count."""
    answer = APPROVALS.output_item(call_of(question()), "ok", success=True, value=value)

    assert answer["approve"] is False


def test_a_result_read_back_from_a_ledger_counts() -> None:
    """The answer may be given in another process."""
    value = McpCall("library", "lend_book", {"days": 14, "title": "Persuasion"})
    call = call_of(question())

    assert APPROVALS.output_item(call, "", success=True, value=value)["approve"] is True
    assert APPROVALS.output_item(call, "", success=True, value=dict(ASKED))["approve"] is True


def test_each_server_has_its_own_questions() -> None:
    """E1: with several servers, a question goes to the gate of its own."""
    other = OpenAIMcpApprovals("archive")

    assert other.calls([question()], "archive") == []
    assert len(OpenAIMcpApprovals().calls([question()], "any")) == 1


def test_a_question_without_an_id_cannot_be_answered() -> None:
    """E4: and is no call."""
    assert APPROVALS.call(question(id=None), "library") is None


@given(mangled(fixture("mcp")))
def test_no_item_breaks_the_reader(items: Any) -> None:
    """E4: whatever is missing or of the wrong type, a question can be refused."""
    for call in APPROVALS.calls(only_objects(items), "library"):
        answer = APPROVALS.output_item(call, "no", success=False)

        assert answer["approve"] is False
        assert untyped_in_item(answer) == []


@pytest.mark.parametrize("path", recordings("openai"))
def test_recorded_questions_are_read(path: Path) -> None:
    """H48: in real traffic each question tells server, tool and arguments."""
    for items in recorded_outputs(path):
        asked = [item for item in items if item["type"] == "mcp_approval_request"]
        calls = OpenAIMcpApprovals().calls(items, "any")

        assert [call.item for call in calls] == asked
        assert all(all(call.arguments.values()) for call in calls)

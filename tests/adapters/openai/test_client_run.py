"""Tools that the provider defines and we run, and servers that ask us before they are called."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.adapters.openai.loopback_adapter import ask, bench, happened
from tests.adapters.openai.scripted_provider import Json, message, response
from toolcrib import Approve, Deny, Session, ToolInvoked
from toolcrib.adapters.openai import Governance
from toolcrib.approval import CallbackApprover
from toolcrib.approval.decision import ApprovalRequest
from toolcrib.toolkits.apply_patch import apply_patch_tool
from toolcrib.tools.mcp import McpConfig, mcp_tool
from toolcrib.tools.shell import (
    CommandOutput,
    ShellParams,
    ShellResult,
    container_shell_tool,
    handler_shell_tool,
    legacy_shell_tool,
)

ANSWER = response(message("Fine."))
PATCH: Json = {
    "type": "apply_patch_call",
    "id": "apc_1",
    "call_id": "call_1",
    "status": "completed",
    "operation": {"type": "create_file", "path": "note.txt", "diff": "+hello\n"},
}
COMMAND: Json = {
    "type": "shell_call",
    "id": "sh_1",
    "call_id": "call_1",
    "status": "completed",
    "action": {"commands": ["uname"]},
}
QUESTION: Json = {
    "type": "mcp_approval_request",
    "id": "mcpr_1",
    "server_label": "docs",
    "name": "search",
    "arguments": '{"query": "cribs"}',
}
CALLED: Json = {
    "type": "mcp_call",
    "id": "mcp_1",
    "server_label": "docs",
    "name": "search",
    "arguments": '{"query": "cribs"}',
    "output": "A crib is a bed.",
    "approval_request_id": "mcpr_1",
    "status": "completed",
}
DOCS = mcp_tool(McpConfig(server_label="docs", server_url="https://docs.example.org"))


def run_commands(params: ShellParams) -> ShellResult:
    return ShellResult(tuple(CommandOutput(stdout=f"ran {each}") for each in params.commands))


def says(decision: Any) -> tuple[Governance, list[ApprovalRequest]]:
    """Somebody who always answers the same, and what they were asked."""
    asked: list[ApprovalRequest] = []

    def answer(request: ApprovalRequest) -> Any:
        asked.append(request)
        return decision

    return Governance(approver=CallbackApprover(answer, name="jo")), asked


def test_a_patch_is_applied_here_and_answered_in_its_own_shape(tmp_path: Path) -> None:
    """P3: the provider never touches files; the turn would stall without our answer."""
    patch = apply_patch_tool(tmp_path, requires_approval=False)
    with bench(response(PATCH), ANSWER) as (adapter, provider):
        found = adapter.evaluate(ask(patch), tool_choice="apply_patch")

    first, second = provider.bodies
    assert (first["tools"], first["tool_choice"]) == (
        [{"type": "apply_patch"}],
        {"type": "apply_patch"},
    )
    assert (tmp_path / "note.txt").read_text() == "hello\n"
    assert [(i["type"], i["call_id"], i["status"]) for i in second["input"]] == [
        ("apply_patch_call_output", "call_1", "completed")
    ]
    assert found.text == "Fine."


def test_a_shell_runs_here_or_there_but_not_both() -> None:
    """P3: one type of item has two meanings; what was offered says which is meant."""
    local = handler_shell_tool(run_commands, requires_approval=False)
    session = Session()
    with bench(response(COMMAND), ANSWER) as (adapter, provider):
        adapter.evaluate(ask(local), session=session)

    (event,) = happened(session, ToolInvoked)
    assert (event.origin, event.name, event.params["commands"]) == ("local", "shell", ["uname"])
    assert provider.bodies[1]["input"][0]["output"][0]["stdout"] == "ran uname"


def test_a_shell_in_a_container_was_run_by_the_provider() -> None:
    """P3, N19: with the hosted shell no code of ours runs."""
    done = {
        "type": "shell_call_output",
        "id": "sho_1",
        "call_id": "call_1",
        "output": [{"stdout": "Linux", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}],
    }
    session = Session()
    with bench(response(COMMAND, done, message("Fine."))) as (adapter, provider):
        found = adapter.evaluate(ask(hosted=[container_shell_tool()]), session=session)

    (event,) = happened(session, ToolInvoked)
    assert (event.origin, event.call_id, event.message) == ("provider", "sh_1", "Linux")
    assert len(provider.requests) == 1
    assert found.hosted_outputs["shell"].outputs[0].exit_code == 0
    assert found.skipped == {}


def test_a_call_of_ours_that_was_not_offered_is_answered_all_the_same() -> None:
    """A model that patches unasked is told that it cannot, instead of waiting for ever."""
    with bench(response(PATCH), ANSWER) as (adapter, provider):
        found = adapter.evaluate(ask())

    (answer,) = provider.bodies[1]["input"]
    assert (answer["type"], answer["status"]) == ("apply_patch_call_output", "failed")
    assert "There is no tool named 'apply_patch'" in answer["output"]
    assert found.text == "Fine."


def test_an_unoffered_call_that_the_provider_answered_was_its_own() -> None:
    """A call whose output stands beside it has been run; it is recorded, not run again."""
    done: Json = {"type": "shell_call_output", "id": "sho_1", "call_id": "call_1", "output": []}
    session = Session()
    with bench(response(COMMAND, done, message("Fine."))) as (adapter, provider):
        adapter.evaluate(ask(), session=session)

    assert [e.origin for e in happened(session, ToolInvoked)] == ["provider"]
    assert len(provider.requests) == 1


def test_the_first_local_shell_has_its_own_items() -> None:
    """Older models know `local_shell`; its answer is one text."""
    item: Json = {
        "type": "local_shell_call",
        "id": "lsh_1",
        "call_id": "call_1",
        "status": "completed",
        "action": {"type": "exec", "command": ["uname", "-a"], "env": {}},
    }
    shell = legacy_shell_tool(
        lambda params: CommandOutput(stdout=" ".join(params.command)), requires_approval=False
    )
    with bench(response(item), ANSWER) as (adapter, provider):
        adapter.evaluate(ask(shell))

    assert provider.bodies[1]["input"] == [
        {"type": "local_shell_call_output", "call_id": "call_1", "output": "uname -a"}
    ]


@pytest.mark.parametrize(
    ("decision", "is_approved"), [(Approve(), True), (Deny("Not today."), False)]
)
def test_a_server_is_called_only_after_a_yes(decision: Any, is_approved: bool) -> None:
    """Provider-run calls that stop to ask go through policy, approver and ledger like any call."""
    governance, asked = says(decision)
    session = Session()
    answers = [response(QUESTION), response(CALLED, message("Fine.")) if is_approved else ANSWER]
    with bench(*answers) as (adapter, provider):
        found = adapter.evaluate(ask(hosted=[DOCS]), session=session, governance=governance)

    (said,) = provider.bodies[1]["input"]
    assert (said["type"], said["approval_request_id"]) == ("mcp_approval_response", "mcpr_1")
    assert said["approve"] is is_approved
    assert [request.arguments for request in asked] == [
        {"server": "docs", "tool": "search", "arguments": {"query": "cribs"}}
    ]
    assert found.text == "Fine."
    assert [ran.item_id for _, ran in found.invocations] == (["mcp_1"] if is_approved else [])
    assert [e.origin for e in happened(session, ToolInvoked)] == (
        ["local", "provider"] if is_approved else ["local"]
    )


def test_the_gate_is_no_function_for_the_model() -> None:
    """What decides about a server is ours alone; the model sees the server."""
    with bench(ANSWER) as (adapter, provider):
        adapter.evaluate(ask(hosted=[DOCS]))

    assert [entry["type"] for entry in provider.bodies[0]["tools"]] == ["mcp"]


def test_a_question_of_an_unknown_server_is_answered_with_no() -> None:
    """Nobody offered that server, so nobody lets it be called."""
    with bench(response(QUESTION), ANSWER) as (adapter, provider):
        adapter.evaluate(ask())

    (said,) = provider.bodies[1]["input"]
    assert (said["approval_request_id"], said["approve"]) == ("mcpr_1", False)


async def test_a_question_may_wait_for_somebody_who_comes_later() -> None:
    """With nobody to ask, the prompt waits; a yes lets the same conversation go on."""
    session = Session()
    prompt = ask(hosted=[DOCS])
    with bench(response(QUESTION), response(CALLED, message("Fine."))) as (adapter, provider):
        waiting = await adapter.evaluate_async(prompt, session=session)
        await session.approvals.decide("mcpr_1", Approve(), by="jo")
        found = await adapter.resume_async(prompt, session=session)

    assert (waiting.status, len(waiting.pending)) == ("waiting", 1)
    assert provider.bodies[1]["input"] == [
        {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True}
    ]
    assert (found.status, found.text) == ("completed", "Fine.")

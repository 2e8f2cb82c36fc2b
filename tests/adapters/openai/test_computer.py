"""Computer use: actions in, screenshots out, and safety checks that a person acknowledges."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter

from tests.adapters.openai.loopback_adapter import ask, bench, happened
from tests.adapters.openai.scripted_provider import Json, message, response
from toolcrib import Approve, Deny, NewGrant, Session, ToolInvoked
from toolcrib.adapters.openai import Governance
from toolcrib.approval import CallbackApprover
from toolcrib.errors import InvalidTool
from toolcrib.ledger.events import ApprovalRequested
from toolcrib.tools.computer import (
    ComputerConfig,
    ComputerParams,
    Screenshot,
    computer_tool,
)

ANSWER = response(message("Fine."))
CHECK = {"id": "sc_1", "code": "malicious_instructions", "message": "The page gives orders."}
PICTURE = Screenshot.of(b"\x89PNG")


def clicked(number: int = 1, **fields: Any) -> Json:
    return {
        "type": "computer_call",
        "id": f"cu_{number}",
        "call_id": f"call_{number}",
        "status": "completed",
        "action": {"type": "click", "button": "left", "x": 10, "y": 20},
        "pending_safety_checks": [],
        **fields,
    }


class Desk:
    """Remembers what it was told to do."""

    def __init__(self) -> None:
        self.actions: list[str] = []

    def operate(self, params: ComputerParams) -> Screenshot:
        self.actions += [f"{action.type} {action.x},{action.y}" for action in params.actions]
        return PICTURE

    async def operate_async(self, params: ComputerParams) -> Screenshot:
        return self.operate(params)


@pytest.mark.parametrize("is_async", [False, True])
def test_actions_go_in_and_a_screenshot_comes_out(is_async: bool) -> None:
    """One item may hold several actions; the answer is a picture of the screen."""
    desk = Desk()
    handler = desk.operate_async if is_async else desk.operate
    both = clicked(
        action=None,
        actions=[{"type": "move", "x": 1, "y": 2}, {"type": "click", "x": 3, "y": 4}],
    )
    session = Session()
    with bench(response(both), ANSWER) as (adapter, provider):
        adapter.evaluate(ask(computer_tool(handler)), session=session)

    assert desk.actions == ["move 1,2", "click 3,4"]
    assert provider.bodies[0]["tools"] == [{"type": "computer"}]
    (output,) = provider.bodies[1]["input"]
    assert output == {
        "type": "computer_call_output",
        "call_id": "call_1",
        "output": {"type": "computer_screenshot", "image_url": PICTURE.url},
        "status": "completed",
    }
    (event,) = happened(session, ToolInvoked)
    assert (event.name, event.success) == ("computer", True)


def test_the_answers_are_of_the_sdks_types() -> None:
    """What goes over the wire is what OpenAI's own types allow."""
    from openai.types.responses.computer_tool_param import ComputerToolParam
    from openai.types.responses.computer_use_preview_tool_param import ComputerUsePreviewToolParam

    old = computer_tool(Desk().operate, ComputerConfig("browser", 1280, 800))
    with bench() as (adapter, _):
        newest, preview = adapter.describe(computer_tool(Desk().operate)), adapter.describe(old)

    entry = TypeAdapter(ComputerToolParam).validate_python(newest, extra="forbid")
    old_entry = TypeAdapter(ComputerUsePreviewToolParam).validate_python(preview, extra="forbid")
    assert (entry["type"], old_entry["type"]) == ("computer", "computer_use_preview")


def test_a_safety_check_waits_for_a_person_and_is_acknowledged() -> None:
    """The approval is the acknowledgement: those who decide see the concern."""
    desk, session = Desk(), Session()
    risky = clicked(pending_safety_checks=[CHECK])
    seen: list[Any] = []

    def answer(request: Any) -> Approve:
        seen.append(request.metadata)
        return Approve()

    governance = Governance(approver=CallbackApprover(answer))
    with bench(response(risky), ANSWER) as (adapter, provider):
        adapter.evaluate(ask(computer_tool(desk.operate)), session=session, governance=governance)

    assert [each["safety_checks"] for each in seen] == [[CHECK]]
    assert desk.actions == ["click 10,20"]
    assert provider.bodies[1]["input"][0]["acknowledged_safety_checks"] == [CHECK]
    assert len(happened(session, ApprovalRequested)) == 1


def test_a_denied_safety_check_acknowledges_nothing() -> None:
    """The actions do not happen, and the provider is not told that somebody agreed."""
    desk = Desk()
    governance = Governance(approver=CallbackApprover(lambda request: Deny("no")))
    with bench(response(clicked(pending_safety_checks=[CHECK])), ANSWER) as (adapter, provider):
        adapter.evaluate(ask(computer_tool(desk.operate)), governance=governance)

    (output,) = provider.bodies[1]["input"]
    assert desk.actions == []
    assert output["status"] == "failed"
    assert "acknowledged_safety_checks" not in output


async def test_a_grant_does_not_acknowledge_a_safety_check() -> None:
    """A yes that was given before cannot know a concern that came later."""
    desk, session = Desk(), Session()
    tool = computer_tool(desk.operate, requires_approval=True)
    with bench(response(clicked()), ANSWER) as (adapter, _):
        waiting = await adapter.evaluate_async(ask(tool), session=session)
        grant = NewGrant(scope="session")
        await session.approvals.decide(waiting.pending[0].call_id, Approve(), by="ann", grant=grant)
        await adapter.resume_async(ask(tool), session=session)
    with bench(response(clicked(2)), ANSWER) as (adapter, _):
        again = await adapter.evaluate_async(ask(tool), session=session)
        assert again.status == "completed"
    assert len(desk.actions) == 2

    with bench(response(clicked(3, pending_safety_checks=[CHECK])), ANSWER) as (adapter, provider):
        risky = await adapter.evaluate_async(ask(tool), session=session)
        assert risky.status == "waiting"
        assert len(desk.actions) == 2
        await session.approvals.decide(risky.pending[0].call_id, Approve(), by="ann")
        await adapter.resume_async(ask(tool), session=session)
    assert len(desk.actions) == 3
    assert provider.bodies[1]["input"][0]["acknowledged_safety_checks"] == [CHECK]


def test_a_handler_that_fails_is_told_with_a_blank_picture() -> None:
    """An answer has to have a picture; the status says that it shows nothing."""

    def broken(params: ComputerParams) -> Screenshot:
        raise OSError("no display")

    session = Session()
    with bench(response(clicked()), ANSWER) as (adapter, provider):
        adapter.evaluate(ask(computer_tool(broken)), session=session)

    (output,) = provider.bodies[1]["input"]
    assert output["status"] == "failed"
    assert output["output"]["image_url"].startswith("data:image/png;base64,")
    (event,) = happened(session, ToolInvoked)
    assert event.failure is not None


@pytest.mark.parametrize(
    "options", [("browser",), ("browser", 1), (None, 1, 2), ("toaster", 1, 2), ("mac", 0, 2)]
)
def test_a_screen_is_whole_or_not_there(options: Any) -> None:
    """The first generation needs all three facts; the newest none."""
    with pytest.raises(InvalidTool, match="ComputerConfig"):
        ComputerConfig(*options)

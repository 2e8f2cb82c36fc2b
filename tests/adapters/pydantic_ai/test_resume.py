"""Going on with a prompt that stopped, on a model of pydantic-ai."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import (
    FinishReason,
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolReturnPart,
)

from tests.adapters.pydantic_ai.scripted_adapter import add, ask, bench, call, happened
from toolcrib import Approve, Deny, PromptEvaluationError, Session, ToolContext, ToolInvoked, tool
from toolcrib.adapters.model_client import Retry
from toolcrib.adapters.options import Budget
from toolcrib.errors import InvalidState
from toolcrib.ledger.prompt_events import ModelResponded, PromptAnswered

ASKED = call("add", {"a": 1, "b": 2})
DOWN = ModelHTTPError(400, "test-model", {"message": "down"})


@tool(requires_approval=True)
async def pay(amount: int = 5) -> str:
    """Pay."""
    return f"paid {amount}"


def test_a_session_that_is_not_in_the_middle_cannot_go_on() -> None:
    """Nothing to resume is a mistake that is told, not an evaluation from the start."""
    session = Session()
    with bench("Fine.") as (adapter, _):
        with pytest.raises(InvalidState, match="not in the middle of prompt 'test:ask'"):
            adapter.resume(ask(), session=session)
        adapter.evaluate(ask(), session=session)
        with pytest.raises(InvalidState, match="evaluate it instead"):
            adapter.resume(ask(), session=session)


def test_a_prompt_that_failed_on_the_way_goes_on_from_there() -> None:
    """A request that failed for good is made again, the same; the calls before it are not."""
    session = Session()
    thought = ThinkingPart("Hm.", signature="sig", provider_name="function")
    with bench([thought, ASKED], DOWN, "Fine.") as (adapter, script):
        with pytest.raises(PromptEvaluationError, match="down"):
            adapter.evaluate(ask(add), session=session)
        found = adapter.resume(ask(add), session=session)

    assert found.text == "Fine."
    assert as_sent(script.asked[1]) == as_sent(script.asked[2])
    assert script.outputs() == [("call_1", "3")]
    assert len(happened(session, ToolInvoked)) == 1
    assert [event.turn for event in happened(session, PromptAnswered)] == [1]


def as_sent(messages: list[Any]) -> list[Any]:
    """Messages without what nobody sends: when they were made, and what they cost."""
    found = [asdict(message) for message in messages]
    for each in [*found, *(part for message in found for part in message["parts"])]:
        each.pop("timestamp", None)
        each.pop("usage", None)
    return found


def test_a_prompt_that_hit_its_budget_goes_on_with_more() -> None:
    """What was spent stays spent, and counts."""
    session = Session()
    with bench(ASKED, "Fine.") as (adapter, _):
        for go in (adapter.evaluate, adapter.resume):
            with pytest.raises(PromptEvaluationError, match="1 steps and may take 1"):
                go(ask(add), session=session, budget=Budget(max_steps=1))
        found = adapter.resume(ask(add), session=session, budget=Budget(max_steps=2))

    assert (found.text, found.usage.requests) == ("Fine.", 2)
    assert len(happened(session, ToolInvoked)) == 1


@pytest.mark.parametrize(
    ("reason", "text"),
    [("length", "Half an"), ("content_filter", ""), ("error", ""), ("stop", "")],
)
def test_an_answer_that_was_none_is_asked_for_again(reason: FinishReason, text: str) -> None:
    """E5: nothing follows from a response that was cut, failed, filtered or empty, whatever its
    parts look like; its tokens count.
    """
    session = Session()
    bad = ModelResponse([TextPart(text)], finish_reason=reason)
    with bench(ASKED, bad, "Fine.") as (adapter, script):
        with pytest.raises(PromptEvaluationError) as caught:
            adapter.evaluate(ask(add), session=session)
        found = adapter.resume(ask(add), session=session)

    assert caught.value.phase == "response"
    assert (found.text, found.usage.requests) == ("Fine.", 3)
    assert len(script.asked[2]) == len(script.asked[1]) == 3
    assert len(happened(session, ModelResponded)) == 3


def test_calls_in_an_unfinished_response_do_not_run() -> None:
    """E5: what we would run may be cut in half."""
    ran: list[str] = []

    @tool
    def wipe(path: str) -> str:
        """Remove everything under a path."""
        ran.append(path)
        return "gone"

    cut = ModelResponse([call("wipe", {"path": "/"})], finish_reason="length")
    with (
        bench(cut) as (adapter, _),
        pytest.raises(PromptEvaluationError, match=r"cut off \(length\)"),
    ):
        adapter.evaluate(ask(wipe))

    assert ran == []


async def test_a_call_waits_for_a_yes_and_runs_once() -> None:
    """T: the prompt stops with what is pending; resumed too early it still waits, and resumed
    after the yes it goes on, asking the model nothing again.
    """
    session = Session()
    with bench([call("pay", call_id="call_1"), ASKED_TWO], "Fine.") as (adapter, script):
        waiting = await adapter.evaluate_async(ask(pay, add), session=session)
        again = await adapter.resume_async(ask(pay, add), session=session)
        await session.approvals.decide("call_1", Approve(), by="jo")
        found = await adapter.resume_async(ask(pay, add), session=session)

    assert (waiting.status, waiting.text, waiting.output) == ("waiting", "", None)
    assert [request.call_id for request in again.pending] == ["call_1"]
    assert (found.status, found.text) == ("completed", "Fine.")
    assert script.outputs() == [("call_1", "paid 5"), ("call_2", "3")]
    assert len(script.asked) == 2
    assert [event.call_id for event in happened(session, ToolInvoked)] == ["call_2", "call_1"]


ASKED_TWO = call("add", {"a": 1, "b": 2}, "call_2")


async def test_a_no_is_told_to_the_model_as_a_no() -> None:
    """A denied call is answered with the denial, in the words and the shape of one."""
    session = Session()
    with bench(call("pay"), "Fine.") as (adapter, script):
        await adapter.evaluate_async(ask(pay), session=session)
        await session.approvals.decide("call_1", Deny("Too much."), by="jo")
        await adapter.resume_async(ask(pay), session=session)

    (part,) = script.last
    assert isinstance(part, ToolReturnPart)
    assert part.outcome == "denied"
    assert "Too much." in str(part.content)


async def test_edited_arguments_are_what_runs() -> None:
    """An approver may change a call; the model hears what came of the change."""
    session = Session()
    with bench(call("pay", {"amount": 900}), "Fine.") as (adapter, script):
        await adapter.evaluate_async(ask(pay), session=session)
        await session.approvals.decide("call_1", Approve({"amount": 9}), by="jo")
        await adapter.resume_async(ask(pay), session=session)

    ((_, output),) = script.outputs()
    assert output.startswith("paid 9\n\n[The arguments were edited")


async def test_none_holds_after_going_on() -> None:
    """A choice is the caller's to make again: a forced one is not forced a second time."""
    session = Session(need_user_approve_tools=["add"])
    with bench(ASKED, "Fine.") as (adapter, script):
        await adapter.evaluate_async(ask(add), session=session, tool_choice="required")
        await session.approvals.decide("call_1", Approve(), by="jo")
        await adapter.resume_async(ask(add), session=session, tool_choice="none")

    settings = [info.model_settings or {} for info in script.infos]
    assert [each.get("tool_choice") for each in settings] == ["required", "none"]


async def test_a_prompt_within_a_prompt_is_a_turn_of_its_own() -> None:
    """C8: a tool may evaluate another prompt on the same adapter; the outer one, that waits
    meanwhile, is found again.
    """

    @tool
    async def ask_again(ctx: ToolContext) -> str:
        """Ask the model something else."""
        inner = await ctx.adapter.evaluate_async(ask(add, text="What is 1+2?"))
        return inner.text

    session = Session()
    outer = ask(ask_again, pay, text="The outer one.")
    steps = [
        [call("ask_again"), call("pay", call_id="call_2")],
        call("add", {"a": 1, "b": 2}, "call_3"),
        "Three.",
        "Fine.",
    ]
    with bench(*steps) as (adapter, script):
        waiting = await adapter.evaluate_async(outer, session=session)
        await session.approvals.decide("call_2", Approve(), by="jo")
        found = await adapter.resume_async(outer, session=session)

    assert (waiting.status, found.text) == ("waiting", "Fine.")
    assert script.outputs() == [("call_1", "Three."), ("call_2", "paid 5")]
    assert [each.turn for each in happened(session, ModelResponded)] == [1, 2, 2, 1]


async def test_one_id_in_two_steps_means_two_calls() -> None:
    """Some servers count their calls anew in every response; each output goes with its own, and
    each call has an id of its own in the ledger.
    """
    session = Session(need_user_approve_tools=["add"])
    with bench(ASKED, call("add", {"a": 3, "b": 4}), "Fine.") as (adapter, script):
        found = await adapter.evaluate_async(ask(add), session=session)
        for call_id in ("call_1", "call_1#2"):
            await session.approvals.decide(call_id, Approve(), by="jo")
            found = await adapter.resume_async(ask(add), session=session)

    requests = [message for message in script.asked[2] if isinstance(message, ModelRequest)]
    said: list[Any] = [each.parts[0] for each in requests[1:]]
    assert [part.content for part in said] == ["3", "7"]
    assert found.text == "Fine."


def test_a_resumed_prompt_is_asked_as_often_as_a_new_one() -> None:
    """A fault while going on is tried again like any other."""
    session = Session()
    down = ModelHTTPError(503, "test-model", {})
    retry = Retry(attempts=2, first_seconds=0.001)
    with bench(ASKED, down, down, down, "Fine.", retry=retry) as (adapter, script):
        with pytest.raises(PromptEvaluationError, match="503"):
            adapter.evaluate(ask(add), session=session)
        found = adapter.resume(ask(add), session=session)

    assert (found.text, len(script.asked)) == ("Fine.", 5)

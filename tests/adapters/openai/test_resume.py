"""Going on with a prompt that stopped, in the process it stopped in."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.openai.loopback_adapter import add, ask, bench, happened
from tests.adapters.openai.scripted_provider import Body, Json, call, message, response
from toolcrib import (
    Approve,
    PromptEvaluationError,
    Session,
    ToolContext,
    ToolInvoked,
    tool,
)
from toolcrib.adapters.openai import Budget
from toolcrib.errors import InvalidState
from toolcrib.ledger.prompt_events import ModelResponded, PromptAnswered
from toolcrib.prompt import Attachment, FileAttachment, TextAttachment

ANSWER = response(message("Fine."))
ASKED = response(call("add", {"a": 1, "b": 2}))
OUTPUT = [{"type": "function_call_output", "call_id": "call_1", "output": "3"}]


def test_a_session_that_is_not_in_the_middle_cannot_go_on() -> None:
    """Nothing to resume is a mistake that is told, not an evaluation from the start."""
    session = Session()
    with bench(ANSWER) as (adapter, _):
        with pytest.raises(InvalidState, match="not in the middle of prompt 'test:ask'"):
            adapter.resume(ask(), session=session)
        adapter.evaluate(ask(), session=session)
        with pytest.raises(InvalidState, match="evaluate it instead"):
            adapter.resume(ask(), session=session)


@pytest.mark.parametrize(
    "changed", [ask(add, text="Something else?"), ask()], ids=["text", "tools"]
)
def test_a_turn_goes_on_only_with_the_prompt_it_began_with(changed: Any) -> None:
    """Another text or other tools would be another conversation under the same name."""
    session = Session()
    with bench(ASKED, Body({}, 400)) as (adapter, _):
        with pytest.raises(PromptEvaluationError):
            adapter.evaluate(ask(add), session=session)
        with pytest.raises(InvalidState, match="is not what it was"):
            adapter.resume(changed, session=session)


@pytest.mark.parametrize(
    ("given", "changed"),
    [
        (TextAttachment("a"), None),
        (TextAttachment("a"), TextAttachment("b")),
        (TextAttachment("a"), TextAttachment("a", title="b")),
        (FileAttachment(data=b"a", name="a.csv"), FileAttachment(data=b"b", name="a.csv")),
        (FileAttachment(data=b"a", name="a.csv"), FileAttachment(data=b"a", name="b.csv")),
        (FileAttachment(data=b"a", name="a.png"), FileAttachment(data=b"b", name="a.png")),
        (FileAttachment(file_id="a"), FileAttachment(file_id="b")),
    ],
    ids=["none", "text", "title", "data", "name", "image", "id"],
)
def test_a_turn_goes_on_only_with_the_attachments_it_began_with(
    given: Attachment, changed: Attachment | None
) -> None:
    """What is attached is part of the question, whatever it is and wherever it lies."""
    session = Session()
    with bench(ASKED, Body({}, 400), ANSWER) as (adapter, _):
        with pytest.raises(PromptEvaluationError):
            adapter.evaluate(ask(add).bind(attachments=[given]), session=session)
        with pytest.raises(InvalidState, match="is not what it was"):
            adapter.resume(ask(add).bind(attachments=[changed] if changed else ()), session=session)
        found = adapter.resume(ask(add).bind(attachments=[given]), session=session)

    assert found.text == "Fine."


def test_a_turn_goes_on_only_with_the_file_it_began_with(tmp_path: Path) -> None:
    """A file that was changed meanwhile is another one, though its path is the same."""
    session = Session()
    file = tmp_path / "a.csv"
    file.write_text("1")
    prompt = ask(add).bind(attachments=[FileAttachment(path=file)])
    with bench(ASKED, Body({}, 400)) as (adapter, _):
        with pytest.raises(PromptEvaluationError):
            adapter.evaluate(prompt, session=session)
        file.write_text("2")
        with pytest.raises(InvalidState, match="is not what it was"):
            adapter.resume(prompt, session=session)


def test_a_prompt_that_failed_on_the_way_goes_on_from_there() -> None:
    """A request that failed for good is made again; the calls before it are not."""
    session = Session()
    with bench(ASKED, Body({"error": {"message": "down"}}, 400), ANSWER) as (adapter, provider):
        with pytest.raises(PromptEvaluationError, match="down"):
            adapter.evaluate(ask(add), session=session)
        found = adapter.resume(ask(add), session=session)

    assert found.text == "Fine."
    assert provider.bodies[1] == provider.bodies[2]
    assert provider.bodies[2]["input"] == OUTPUT
    assert len(happened(session, ToolInvoked)) == 1
    assert [event.turn for event in happened(session, PromptAnswered)] == [1]


def test_a_prompt_that_hit_its_budget_goes_on_with_more() -> None:
    """What was spent stays spent, and counts."""
    session = Session()
    with bench(ASKED, ANSWER) as (adapter, provider):
        with pytest.raises(PromptEvaluationError, match="1 steps and may take 1"):
            adapter.evaluate(ask(add), session=session, budget=Budget(max_steps=1))
        with pytest.raises(PromptEvaluationError, match="1 steps and may take 1"):
            adapter.resume(ask(add), session=session, budget=Budget(max_steps=1))
        found = adapter.resume(ask(add), session=session, budget=Budget(max_steps=2))

    assert (found.text, found.usage.requests) == ("Fine.", 2)
    assert provider.bodies[1]["input"] == OUTPUT
    assert len(happened(session, ToolInvoked)) == 1


def test_calls_that_were_too_many_run_once_there_is_room() -> None:
    """A step that the budget stopped is taken up as a whole."""
    session = Session()
    calls = response(call("add", {"a": 1, "b": 2}), call("add", {"a": 3, "b": 4}, "call_2"))
    with bench(calls, ANSWER) as (adapter, _):
        with pytest.raises(PromptEvaluationError, match="2 tool calls and may take 1"):
            adapter.evaluate(ask(add), session=session, budget=Budget(max_calls=1))
        found = adapter.resume(ask(add), session=session, budget=Budget(max_calls=2))

    assert found.text == "Fine."
    assert [event.value for event in happened(session, ToolInvoked)] == [3, 7]


@pytest.mark.parametrize("history", ["server", "client"])
@pytest.mark.parametrize(
    "bad",
    [
        {
            **response(message("Half an", status="incomplete")),
            "status": "incomplete",
            "incomplete_details": {"reason": "max_output_tokens"},
        },
        {
            **response(call("add", {"a": 5, "b": 6}, "call_2")),
            "status": "incomplete",
            "incomplete_details": {"reason": "max_output_tokens"},
        },
        {**response(message("Half an")), "status": "in_progress"},
        {**response(), "status": "failed", "error": {"code": "server_error", "message": "x"}},
        response(message("", content=[{"type": "refusal", "refusal": "No."}])),
        response({"type": "reasoning", "id": "rs_1", "summary": []}),
    ],
    ids=["incomplete", "incomplete call", "unfinished", "failed", "refused", "empty"],
)
def test_an_answer_that_was_none_is_asked_for_again(bad: Json, history: Any) -> None:
    """E5: nothing follows from a response that was cut, failed or refused, whatever its items look
    like; its tokens count.
    """
    session = Session()
    with bench(ASKED, bad, ANSWER, history=history) as (adapter, provider):
        with pytest.raises(PromptEvaluationError) as caught:
            adapter.evaluate(ask(add), session=session)
        found = adapter.resume(ask(add), session=session)

    assert caught.value.phase == "response"
    assert (found.text, found.usage.requests) == ("Fine.", 3)
    assert provider.bodies[2] == provider.bodies[1]
    assert len(happened(session, ModelResponded)) == 3
    assert len(happened(session, ToolInvoked)) == 1


async def test_none_holds_after_going_on() -> None:
    """A choice of no tools is the caller's to make again: what resumes is told so."""
    session = Session(need_user_approve_tools=["add"])
    prompt = ask(add)
    with bench(ASKED, ANSWER) as (adapter, provider):
        await adapter.evaluate_async(prompt, session=session, tool_choice="required")
        await session.approvals.decide("call_1", Approve(), by="jo")
        await adapter.resume_async(prompt, session=session, tool_choice="none")

    assert [body.get("tool_choice") for body in provider.bodies] == ["required", "none"]


async def test_edited_arguments_are_what_runs() -> None:
    """An approver may change a call; the model hears what came of the change."""
    session = Session(need_user_approve_tools=["add"])
    prompt = ask(add)
    with bench(ASKED, ANSWER) as (adapter, provider):
        waiting = await adapter.evaluate_async(prompt, session=session)
        await session.approvals.decide("call_1", Approve({"a": 10, "b": 20}), by="jo")
        await adapter.resume_async(prompt, session=session)

    assert (waiting.status, waiting.text, waiting.output) == ("waiting", "", None)
    assert [request.call_id for request in waiting.pending] == ["call_1"]
    assert provider.bodies[1]["input"][0]["output"].startswith("30\n\n[The arguments were edited")


async def test_a_prompt_within_a_prompt_does_not_get_in_the_way() -> None:
    """C8: the outer turn is found again although another of the same name began and ended inside
    it.
    """

    @tool
    async def ask_again(ctx: ToolContext) -> str:
        """Ask the model something else."""
        inner = await ctx.adapter.evaluate_async(ask(add, text="What is 1+2?"), session=ctx.session)
        return inner.text

    @tool(requires_approval=True)
    async def pay() -> str:
        """Pay."""
        return "paid"

    session = Session()
    outer = ask(ask_again, pay, text="The outer one.")
    replies = [
        response(call("ask_again"), call("pay", call_id="call_2")),
        response(call("add", {"a": 1, "b": 2}, "call_3")),
        response(message("Three.")),
        ANSWER,
    ]
    with bench(*replies) as (adapter, provider):
        waiting = await adapter.evaluate_async(outer, session=session)
        await session.approvals.decide("call_2", Approve(), by="jo")
        found = await adapter.resume_async(outer, session=session)

    assert (waiting.status, found.text) == ("waiting", "Fine.")
    outputs = [(item["call_id"], item["output"]) for item in provider.bodies[3]["input"]]
    assert outputs == [("call_1", "Three."), ("call_2", "paid")]
    assert provider.bodies[3]["previous_response_id"] == replies[0]["id"]


async def test_one_id_in_two_steps_means_two_calls() -> None:
    """Some servers count their calls anew in every response; each output goes with its own, and
    each call has an id of its own in the ledger.
    """
    session = Session(need_user_approve_tools=["add"])
    prompt = ask(add)
    second = response(call("add", {"a": 3, "b": 4}), id="resp_second")
    with bench(ASKED, second, ANSWER, history="client") as (adapter, provider):
        await adapter.evaluate_async(prompt, session=session)
        await session.approvals.decide("call_1", Approve(), by="jo")
        await adapter.resume_async(prompt, session=session)
        await session.approvals.decide("call_1#2", Approve(), by="jo")
        found = await adapter.resume_async(prompt, session=session)

    outputs = [item for item in provider.bodies[2]["input"] if "output" in item]
    assert [(item["call_id"], item["output"]) for item in outputs] == [
        ("call_1", "3"),
        ("call_1", "7"),
    ]
    assert found.text == "Fine."
    assert [event.call_id for event in happened(session, ToolInvoked)] == ["call_1", "call_1#2"]


async def test_the_same_call_in_two_steps_runs_twice() -> None:
    """A model that has a result and repeats its call, id and all, wants another result; a later
    turn is told both.
    """
    session = Session()
    count = 0

    @tool
    def look() -> int:
        """Look around."""
        nonlocal count
        count += 1
        return count

    looked = response(call("look"))
    replies = (looked, {**looked, "id": "resp_again"}, ANSWER, ANSWER)
    with bench(*replies, history="client") as (adapter, provider):
        await adapter.evaluate_async(ask(look), session=session)
        await adapter.evaluate_async(ask(look), session=session, follows=True)

    for body in provider.bodies[2:]:
        outputs = [item["output"] for item in body["input"] if "output" in item]
        assert outputs == ["1", "2"]


async def test_a_model_may_count_its_calls_as_sessions_do() -> None:
    """An id of the form that sessions give is a model's good right: the call runs, and the provider
    is answered under its own id.
    """
    session = Session()
    with bench(response(call("add", {"a": 1, "b": 2}, "call_1_1")), ANSWER) as (adapter, provider):
        await adapter.evaluate_async(ask(add), session=session)

    [output] = provider.bodies[1]["input"]
    assert (output["call_id"], output["output"]) == ("call_1_1", "3")
    assert [entry.call_id for entry in session.transcript()] == ["call_1_1#1"]


async def test_calls_before_the_wait_count() -> None:
    """A budget is for the whole prompt: what ended, what waited and what comes are added up."""
    session = Session()
    ran: list[str] = []

    @tool
    def look() -> str:
        """Look around."""
        ran.append("looked")
        return "seen"

    @tool(requires_approval=True)
    def pay() -> str:
        """Pay."""
        ran.append("paid")
        return "paid"

    prompt = ask(look, pay)
    asking = response(call("look"), call("pay", call_id="call_2"))
    more = response(call("look", call_id="call_3"))
    budget = Budget(max_calls=2)
    with bench(asking, more) as (adapter, _):
        await adapter.evaluate_async(prompt, session=session, budget=budget)
        await session.approvals.decide("call_2", Approve(), by="jo")
        with pytest.raises(PromptEvaluationError, match="3 tool calls and may take 2"):
            await adapter.resume_async(prompt, session=session, budget=budget)

    assert ran == ["looked", "paid"]


async def test_calls_of_a_prompt_within_are_not_taken_for_ones_own() -> None:
    """C8: an inner prompt's model may give its calls the ids that the outer one's has."""
    looked = asyncio.Event()

    @tool
    async def look() -> str:
        """Look around."""
        return "seen"

    @tool
    async def ask_again(ctx: ToolContext) -> str:
        """Ask the model something else, once the other call is over."""
        await looked.wait()
        inner = ask(add, text="What is 1+2?")
        return (await ctx.adapter.evaluate_async(inner, session=session)).text

    session = Session(need_user_approve_tools=["pay"])
    session.bus.subscribe(ToolInvoked, lambda event: looked.set())
    calls = [call("ask_again"), call("look", call_id="call_2"), call("pay", call_id="call_3")]
    replies = [
        response(*calls),
        response(call("add", {"a": 1, "b": 2}, "call_2")),
        response(message("Three.")),
        ANSWER,
    ]
    outer = ask(ask_again, look, pay_tool(), text="The outer one.")
    with bench(*replies) as (adapter, provider):
        await adapter.evaluate_async(outer, session=session)
        await session.approvals.decide("call_3", Approve(), by="jo")
        await adapter.resume_async(outer, session=session)

    said = [(item["call_id"], item["output"]) for item in provider.bodies[3]["input"]]
    assert said == [("call_1", "Three."), ("call_2", "seen"), ("call_3", "paid")]


async def test_calls_after_a_prompt_within_that_failed_are_ones_own() -> None:
    """C8: an inner prompt that came to nothing does not swallow the calls of later steps."""
    ran: list[str] = []

    @tool
    async def ask_again(ctx: ToolContext) -> str:
        """Ask the model something that it cannot answer."""
        await ctx.adapter.evaluate_async(ask(text="Hm?"), session=session)
        return "answered"

    @tool
    async def look() -> str:
        """Look around."""
        ran.append("looked")
        return "seen"

    session = Session(need_user_approve_tools=["pay"])
    outer = ask(ask_again, look, pay_tool(), text="The outer one.")
    replies = [
        response(call("ask_again")),
        Body({"error": {"message": "no"}}, 400),
        response(call("look", call_id="call_2"), call("pay", call_id="call_3")),
        ANSWER,
    ]
    with bench(*replies) as (adapter, provider):
        await adapter.evaluate_async(outer, session=session)
        await session.approvals.decide("call_3", Approve(), by="jo")
        found = await adapter.resume_async(outer, session=session)

    assert (found.text, ran) == ("Fine.", ["looked"])
    assert [item["output"] for item in provider.bodies[3]["input"]] == ["seen", "paid"]


def pay_tool() -> Any:
    @tool
    async def pay() -> str:
        """Pay."""
        return "paid"

    return pay

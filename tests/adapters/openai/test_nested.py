"""Prompts that calls evaluate: turns of their own, linked to the call."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.adapters.openai.loopback_adapter import add, ask, bench, happened
from tests.adapters.openai.nested_prompt import (
    ANSWER,
    INNER,
    INNER_CALLS,
    OUTER_CALLS,
    THREE,
    asking,
    outer_prompt,
    pay,
)
from tests.adapters.openai.scripted_provider import Body, Json, call, message, response
from toolcrib import Approve, Caller, Executor, Session, ToolContext, ToolInvoked, ToolResult, tool
from toolcrib.adapters.openai.code_interpreter_tool import OpenAICodeInterpreterTool
from toolcrib.ledger.events import TurnStarted
from toolcrib.ledger.prompt_events import ModelResponded, PromptStarted
from toolcrib.tools.web_search import web_search_tool


def test_a_prompt_names_the_call_that_evaluates_it() -> None:
    """C8: the turn, the prompt, its steps and its calls can be traced to the call, in the
    ledger and in the transcript.
    """
    session = Session()
    ask_again, _ = asking()
    with bench(OUTER_CALLS, INNER_CALLS, THREE, ANSWER) as (adapter, _):
        adapter.evaluate(outer_prompt(ask_again), session=session)

    outer, inner = happened(session, PromptStarted)
    assert (outer.turn, outer.parent_call_id, outer.parent_turn) == (1, None, None)
    assert (inner.turn, inner.parent_call_id, inner.parent_turn) == (2, "call_1", 1)
    turns = [(event.turn, event.parent_call_id) for event in happened(session, TurnStarted)]
    assert turns == [(1, None), (2, "call_1")]
    assert [event.turn for event in happened(session, ModelResponded)] == [1, 2, 2, 1]
    invoked = [(e.call_id, e.turn, e.parent_call_id) for e in happened(session, ToolInvoked)]
    assert invoked == [("call_2", 2, "call_1"), ("call_1", 1, None)]
    told = [(e.call_id, e.tool, e.what, e.turn, e.parent_call_id) for e in session.transcript()]
    assert told == [
        ("call_1", "ask_again", "prompt", 2, None),
        ("call_2", "add", "completed", 2, "call_1"),
        ("call_1", "ask_again", "completed", 1, None),
    ]
    assert session.transcript()[0].text == "test:ask"
    assert session.verify() is not None


def test_calls_after_a_prompt_within_are_counted_to_the_outer_turn() -> None:
    """C8: the inner turn's number does not stay behind."""
    session = Session()
    ask_again, _ = asking()
    later = response(call("add", {"a": 3, "b": 4}, "call_3"))
    with bench(OUTER_CALLS, INNER_CALLS, THREE, later, ANSWER) as (adapter, _):
        adapter.evaluate(outer_prompt(ask_again, add), session=session)

    turns = {event.call_id: event.turn for event in happened(session, ToolInvoked)}
    assert turns == {"call_2": 2, "call_1": 1, "call_3": 1}
    assert session.last_turn == 2


async def test_prompts_at_the_same_time_are_told_apart() -> None:
    """C8: two calls of one step, each evaluating a prompt: every call is counted to its own
    turn, and every turn to its own call.
    """
    session = Session()
    together = asyncio.Barrier(2)

    @tool
    async def meet(ctx: ToolContext) -> str:
        """Meet the other one."""
        await together.wait()
        return ctx.parent_call_id or ""

    ask_again, _ = asking(ask(meet, text="Meet."))
    replies = [
        response(call("ask_again"), call("ask_again", call_id="call_2")),
        response(call("meet", call_id="call_3")),
        response(call("meet", call_id="call_4")),
        THREE,
        THREE,
        ANSWER,
    ]
    with bench(*replies) as (adapter, _):
        await adapter.evaluate_async(outer_prompt(ask_again), session=session)

    parents = {e.turn: e.parent_call_id for e in happened(session, PromptStarted)}
    met = [e for e in happened(session, ToolInvoked) if e.name == "meet"]
    assert parents == {1: None, 2: parents[2], 3: parents[3]}
    assert {parents[2], parents[3]} == {"call_1", "call_2"}
    assert {e.turn for e in met} == {2, 3}
    assert all(e.message == e.parent_call_id == parents[e.turn] for e in met)


async def test_a_prompt_within_a_call_is_asked_for_by_its_caller() -> None:
    """Who calls a tool that asks a model asks for what the model does, in every record of it."""
    session, inner = Session(), Session()
    with bench(INNER_CALLS, THREE) as (adapter, _):

        @tool
        async def consult() -> str:
            """Ask the model something."""
            return (await adapter.evaluate_async(INNER, session=inner)).text

        alice = Caller("alice", "http", groups=frozenset({"desk"}))
        await Executor(session, [consult]).call("consult", caller=alice)

    (started,) = happened(inner, PromptStarted)
    (invoked,) = happened(inner, ToolInvoked)
    assert (started.principal, invoked.principal) == ("alice", "alice")


def test_a_blocking_handler_is_linked_too() -> None:
    """C8: from the thread of a sync handler, through the blocking call."""
    session = Session()

    @tool
    def ask_again(ctx: ToolContext) -> str:
        """Ask the model something else, and block."""
        return ctx.adapter.evaluate(INNER, session=ctx.session).text

    with bench(OUTER_CALLS, THREE, ANSWER) as (adapter, _):
        adapter.evaluate(outer_prompt(ask_again), session=session)

    assert happened(session, PromptStarted)[1].parent_call_id == "call_1"


def test_a_hook_of_a_provider_run_call_is_linked_too() -> None:
    """C3, C8: a prompt that `handle_provider_output` evaluates belongs to the provider's
    call.
    """
    session = Session()

    def hook(result: Any, context: ToolContext) -> Any:
        said = context.adapter.evaluate(INNER)
        return ToolResult(value=result, message=said.text)

    run: Json = {"type": "code_interpreter_call", "id": "ci_1", "status": "completed"}
    run |= {"code": "1", "container_id": "c", "outputs": [{"type": "logs", "logs": "1"}]}
    python = OpenAICodeInterpreterTool(name="python", handle_provider_output=hook)
    replies = [response(run, message("Fine.")), INNER_CALLS, THREE]
    with bench(*replies) as (adapter, _):
        adapter.evaluate(ask(hosted=[python]), session=session)

    inner = happened(session, PromptStarted)[1]
    assert (inner.parent_call_id, inner.parent_turn) == ("ci_1", 1)
    invoked = [(e.call_id, e.turn, e.parent_call_id) for e in happened(session, ToolInvoked)]
    assert invoked == [("call_2", 2, "ci_1"), ("ci_1", 1, None)]


def test_provider_run_calls_of_a_prompt_within_name_the_call() -> None:
    """C8, N3: one link, wherever a call runs."""
    session = Session()
    ask_again, _ = asking(ask(hosted=[web_search_tool()], text="Search."))
    search: Json = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    replies = [OUTER_CALLS, response(search, message("Found.")), ANSWER]
    with bench(*replies) as (adapter, _):
        adapter.evaluate(outer_prompt(ask_again), session=session)

    found = happened(session, ToolInvoked)[0]
    assert (found.call_id, found.turn, found.parent_call_id) == ("ws_1", 2, "call_1")


@pytest.mark.parametrize("is_elsewhere", [False, True], ids=["by default", "elsewhere"])
def test_the_session_is_the_calls_own(is_elsewhere: bool) -> None:
    """C8: without another session the prompt is part of the call's; with one it is on its
    own.
    """
    session, other = Session(), Session()
    options: dict[str, Any] = {"session": other} if is_elsewhere else {}
    ask_again, _ = asking(**options)
    with bench(OUTER_CALLS, THREE, ANSWER) as (adapter, _):
        adapter.evaluate(outer_prompt(ask_again), session=session)

    assert len(happened(session, PromptStarted)) == (1 if is_elsewhere else 2)
    assert [e.parent_call_id for e in happened(other, PromptStarted)] == [None] * is_elsewhere


async def test_a_turn_that_goes_on_keeps_its_number() -> None:
    """Calls after the wait are counted to the turn that waited, whatever began since."""
    session = Session()
    prompt = outer_prompt(pay, add)
    later = response(call("add", {"a": 3, "b": 4}, "call_2"))
    with bench(response(call("pay")), THREE, later, ANSWER) as (adapter, _):
        await adapter.evaluate_async(prompt, session=session)
        await adapter.evaluate_async(INNER, session=session)
        await session.approvals.decide("call_1", Approve(), by="jo")
        await adapter.resume_async(prompt, session=session)

    turns = {event.call_id: event.turn for event in happened(session, ToolInvoked)}
    assert turns == {"call_1": 1, "call_2": 1}


async def test_a_prompt_within_itself_is_not_taken_for_the_outer_one() -> None:
    """C8: who resumes from outside goes on with the outer turn, also when an inner one of the
    same prompt has no answer either.
    """
    session = Session()

    @tool
    async def again(ctx: ToolContext) -> str:
        """Ask the same again."""
        return (await ctx.adapter.evaluate_async(ctx.prompt)).text

    prompt = ask(again, pay)
    calls = response(call("again"), call("pay", call_id="call_2"))
    with bench(calls, Body({"error": {"message": "no"}}, 400), ANSWER) as (adapter, provider):
        await adapter.evaluate_async(prompt, session=session)
        await session.approvals.decide("call_2", Approve(), by="jo")
        found = await adapter.resume_async(prompt, session=session)

    assert found.text == "Fine."
    assert [item["call_id"] for item in provider.bodies[2]["input"]] == ["call_1", "call_2"]

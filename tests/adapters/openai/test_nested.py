"""Prompts that calls evaluate: turns of their own, linked to the call and bounded like it."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import Any

import pytest

from tests.adapters.openai.bench import add, ask, bench, happened
from tests.adapters.openai.provider import Body, Json, Silence, call, message, response
from toolcrib import (
    Approve,
    Hooks,
    Limits,
    Policy,
    Prompt,
    PromptEvaluationError,
    PromptResponse,
    Rule,
    Session,
    ToolContext,
    ToolInvoked,
    ToolResult,
    tool,
)
from toolcrib.adapters.openai import Budget, Governance
from toolcrib.session.events import ModelResponded, PromptStarted, TurnStarted
from toolcrib.tools.openai_code_interpreter import OpenAICodeInterpreterTool
from toolcrib.tools.web_search import web_search_tool

ANSWER = response(message("Fine."))
INNER = ask(add, text="What is 1+2?")
OUTER_CALLS = response(call("ask_again"))
INNER_CALLS = response(call("add", {"a": 1, "b": 2}, "call_2"))
THREE = response(message("Three."))


def asking(
    prompt: Prompt[Any] = INNER, *, called: str = "ask_again", **options: Any
) -> tuple[Any, list[PromptResponse[Any]]]:
    """A tool that evaluates a prompt, and the responses it got."""
    got: list[PromptResponse[Any]] = []

    @tool(name=called)
    async def ask_again(ctx: ToolContext) -> str:
        """Ask the model something else."""
        got.append(await ctx.adapter.evaluate_async(prompt, **options))
        return got[-1].text

    return ask_again, got


@tool(requires_approval=True)
async def pay() -> str:
    """Pay."""
    return "paid"


def outer_prompt(*tools: Any) -> Prompt[Any]:
    return ask(*tools, text="The outer one.")


class TestLink:
    def test_a_prompt_names_the_call_that_evaluates_it(self) -> None:
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

    def test_calls_after_a_prompt_within_are_counted_to_the_outer_turn(self) -> None:
        """C8: the inner turn's number does not stay behind."""
        session = Session()
        ask_again, _ = asking()
        later = response(call("add", {"a": 3, "b": 4}, "call_3"))
        with bench(OUTER_CALLS, INNER_CALLS, THREE, later, ANSWER) as (adapter, _):
            adapter.evaluate(outer_prompt(ask_again, add), session=session)

        turns = {event.call_id: event.turn for event in happened(session, ToolInvoked)}
        assert turns == {"call_2": 2, "call_1": 1, "call_3": 1}
        assert session.last_turn == 2

    async def test_prompts_at_the_same_time_are_told_apart(self) -> None:
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

    def test_a_blocking_handler_is_linked_too(self) -> None:
        """C8: from the thread of a sync handler, through the blocking call."""
        session = Session()

        @tool
        def ask_again(ctx: ToolContext) -> str:
            """Ask the model something else, and block."""
            return ctx.adapter.evaluate(INNER, session=ctx.session).text

        with bench(OUTER_CALLS, THREE, ANSWER) as (adapter, _):
            adapter.evaluate(outer_prompt(ask_again), session=session)

        assert happened(session, PromptStarted)[1].parent_call_id == "call_1"

    def test_a_hook_of_a_provider_run_call_is_linked_too(self) -> None:
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

    def test_provider_run_calls_of_a_prompt_within_name_the_call(self) -> None:
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
    def test_the_session_is_the_calls_own(self, is_elsewhere: bool) -> None:
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

    async def test_a_turn_that_goes_on_keeps_its_number(self) -> None:
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

    async def test_a_prompt_within_itself_is_not_taken_for_the_outer_one(self) -> None:
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


class TestBudget:
    @pytest.mark.parametrize(("max_tokens", "requests"), [(45, 3), (30, 2)])
    def test_tokens_count_against_every_prompt_around(self, max_tokens: int, requests: int) -> None:
        """E7, C8: the outer budget stops the inner prompt, and itself, once both have spent it."""
        ask_again, _ = asking()
        budget = Budget(max_tokens=max_tokens)
        with (
            bench(OUTER_CALLS, INNER_CALLS, THREE, ANSWER) as (adapter, provider),
            pytest.raises(PromptEvaluationError, match=f"may take {max_tokens}") as caught,
        ):
            adapter.evaluate(outer_prompt(ask_again), budget=budget)

        assert caught.value.phase == "budget"
        assert len(provider.requests) == requests

    def test_a_response_says_what_its_own_requests_cost(self) -> None:
        """Whoever adds up the usage of all responses counts no token twice."""
        ask_again, got = asking()
        with bench(OUTER_CALLS, INNER_CALLS, THREE, ANSWER) as (adapter, _):
            found = adapter.evaluate(outer_prompt(ask_again), budget=Budget(max_tokens=46))

        assert (found.usage.total_tokens, got[0].usage.total_tokens) == (30, 30)

    def test_steps_and_calls_are_each_prompts_own(self) -> None:
        """A loop guard of one prompt says nothing of another."""
        ask_again, _ = asking()
        budget = Budget(max_steps=2, max_calls=1)
        with bench(OUTER_CALLS, INNER_CALLS, THREE, ANSWER) as (adapter, _):
            found = adapter.evaluate(outer_prompt(ask_again), budget=budget)

        assert found.text == "Fine."

    async def test_what_was_spent_within_still_counts_after_a_wait(self) -> None:
        """E7: the tokens of inner prompts are taken from the ledger."""
        session = Session()
        ask_again, _ = asking()
        prompt = outer_prompt(ask_again, pay)
        calls = response(call("ask_again"), call("pay", call_id="call_3"))
        with bench(calls, INNER_CALLS, THREE, ANSWER) as (adapter, _):
            await adapter.evaluate_async(prompt, session=session)
            await session.approvals.decide("call_3", Approve(), by="jo")
            with pytest.raises(PromptEvaluationError, match="45 tokens and may take 40"):
                await adapter.resume_async(prompt, session=session, budget=Budget(max_tokens=40))
            found = await adapter.resume_async(prompt, session=session)

        assert (found.text, found.usage.total_tokens) == ("Fine.", 30)


class TestTime:
    @pytest.mark.parametrize(
        ("timeout", "seconds"), [(0.1, None), (None, 0.3)], ids=["tool", "budget"]
    )
    def test_a_prompt_ends_with_the_call_that_evaluates_it(
        self, timeout: float | None, seconds: float | None
    ) -> None:
        """C8, R48: a blocking handler cannot be stopped, but its prompt is, at the limit of the
        tool or of the outer prompt.
        """
        ended = threading.Event()
        errors: list[PromptEvaluationError] = []

        @tool(timeout=timeout)
        def ask_again(ctx: ToolContext) -> str:
            """Ask the model something else, and block."""
            try:
                return ctx.adapter.evaluate(INNER).text
            except PromptEvaluationError as error:
                errors.append(error)
                raise
            finally:
                ended.set()

        session = Session()
        with bench(OUTER_CALLS, Silence(), ANSWER) as (adapter, _):
            # Where the outer prompt's own time is over, it has no answer either.
            with suppress(PromptEvaluationError):
                adapter.evaluate(
                    outer_prompt(ask_again), session=session, budget=Budget(seconds=seconds)
                )
            assert ended.wait(30)

        assert [error.phase for error in errors] == ["budget"]
        (event,) = happened(session, ToolInvoked)
        assert event.failure is not None
        assert event.failure.kind == "timeout"

    def test_a_prompts_own_time_may_be_shorter(self) -> None:
        """A prompt that gives up early leaves its call the rest of the time."""

        @tool(timeout=60)
        async def ask_again(ctx: ToolContext) -> str:
            """Ask the model something else."""
            try:
                return (await ctx.adapter.evaluate_async(INNER, budget=Budget(seconds=0.05))).text
            except PromptEvaluationError as error:
                return error.phase

        with bench(OUTER_CALLS, Silence(), ANSWER) as (adapter, provider):
            adapter.evaluate(outer_prompt(ask_again))

        assert provider.bodies[2]["input"][0]["output"] == "budget"


class TestDepth:
    def test_prompts_within_prompts_go_only_so_deep(self) -> None:
        """R48: a prompt that evaluates itself ends at the limit, and the limit holds within."""
        session = Session()

        @tool
        async def dive(ctx: ToolContext) -> str:
            """Ask the same again."""
            return (await ctx.adapter.evaluate_async(ctx.prompt)).text

        deep = [response(call("dive", call_id=f"call_{number}")) for number in range(9)]
        governance = Governance(limits=Limits(max_depth=2))
        with bench(*deep[:3]) as (adapter, provider):
            provider.after = ANSWER
            found = adapter.evaluate(ask(dive), session=session, governance=governance)

        assert found.text == "Fine."
        assert [event.turn for event in happened(session, PromptStarted)] == [1, 2, 3]
        first = happened(session, ToolInvoked)[0]
        assert first.call_id == "call_2"
        assert "more than 2 deep" in first.message


class TestGovernance:
    def test_a_prompt_within_is_governed_like_the_one_around(self) -> None:
        """Nothing fails open: what policy denies outside it denies inside."""
        session = Session()
        ask_again, _ = asking()
        policy = Policy((Rule("deny", tool="add"), Rule("allow", tool="ask_again")))
        with bench(OUTER_CALLS, INNER_CALLS, THREE, ANSWER) as (adapter, _):
            adapter.evaluate(
                outer_prompt(ask_again), session=session, governance=Governance(policy=policy)
            )

        inner = happened(session, ToolInvoked)[0]
        assert (inner.name, inner.failure and inner.failure.kind) == ("add", "not_permitted")

    def test_a_prompt_within_may_have_rules_of_its_own(self) -> None:
        """Whoever writes the handler may say otherwise, and then that counts."""
        session = Session()
        ask_again, _ = asking(governance=Governance())
        policy = Policy((Rule("deny", tool="add"), Rule("allow", tool="ask_again")))
        with bench(OUTER_CALLS, INNER_CALLS, THREE, ANSWER) as (adapter, _):
            adapter.evaluate(
                outer_prompt(ask_again), session=session, governance=Governance(policy=policy)
            )

        assert happened(session, ToolInvoked)[0].success

    def test_hooks_go_with_the_tools_that_they_are_for(self) -> None:
        """Global hooks and those of tools that the inner prompt has run there; those of others do
        not get in the way, and are not lost further within.
        """
        seen: list[str] = []

        def pre(name: str) -> Any:
            async def hook(ctx: Any, args: dict[str, Any]) -> dict[str, Any]:
                seen.append(f"{name} of {ctx.tool_name}")
                return args

            return hook

        async def every(ctx: Any, name: str, args: dict[str, Any]) -> dict[str, Any]:
            seen.append(f"every of {name}")
            return args

        between, _ = asking(ask(add, text="Third."), called="between")
        ask_again, _ = asking(ask(between, text="Second."))
        hooks = Hooks(global_pre=every, pre={"ask_again": pre("first"), "add": pre("last")})
        replies = [OUTER_CALLS, response(call("between", call_id="call_3")), INNER_CALLS]
        with bench(*replies) as (adapter, provider):
            provider.after = THREE
            adapter.evaluate(outer_prompt(ask_again, add), governance=Governance(hooks=hooks))

        assert seen == [
            "every of ask_again",
            "first of ask_again",
            "every of between",
            "every of add",
            "last of add",
        ]

    @pytest.mark.parametrize("is_answered", [True, False])
    def test_calls_within_do_not_wait(self, is_answered: bool) -> None:
        """C8, R48: the approver of the outer prompt is asked; with nobody to ask the call is
        denied, for the handler that waits for it would not survive.
        """

        class Yes:
            async def ask(self, request: Any) -> Any:
                assert request.parent_call_id == "call_1"
                return Approve()

        session = Session()
        ask_again, got = asking(ask(pay, text="Pay."))
        replies = [OUTER_CALLS, response(call("pay", call_id="call_2")), THREE, ANSWER]
        governance = Governance(approver=Yes() if is_answered else None)
        with bench(*replies) as (adapter, _):
            found = adapter.evaluate(
                outer_prompt(ask_again), session=session, governance=governance
            )

        assert (found.status, got[0].status) == ("completed", "completed")
        paid = happened(session, ToolInvoked)[0]
        assert (paid.success, paid.failure and paid.failure.kind) == (
            (True, None) if is_answered else (False, "denied")
        )
        assert session.approvals.pending() == []

"""Prompts that calls evaluate: governed like the one around, within its tokens and its time."""

from __future__ import annotations

import threading
from contextlib import suppress
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
from tests.adapters.openai.scripted_provider import Silence, call, response
from tests.helpers.patience import PATIENCE
from toolcrib import (
    Approve,
    Hooks,
    Limits,
    Policy,
    PromptEvaluationError,
    Rule,
    Session,
    ToolContext,
    ToolInvoked,
    tool,
)
from toolcrib.adapters.openai import Budget, Governance
from toolcrib.ledger.prompt_events import PromptStarted


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
            assert ended.wait(PATIENCE)

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

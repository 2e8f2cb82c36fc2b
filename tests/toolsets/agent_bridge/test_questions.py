"""Tools of an agent that ask a person in the middle of a call."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from pydantic_ai import RunContext

from tests.toolsets.agent_bridge.agents import agent_of, call, told
from toolcrib import ToolContext, tool
from toolcrib.approval import CallbackResponder, Question, QuestionResponse
from toolcrib.calls import current_context
from toolcrib.context import AgentContext
from toolcrib.ledger.question_events import QuestionAnswered
from toolcrib.toolsets import BaseTool, Toolset


@tool
async def pick(ctx: ToolContext) -> str:
    """Ask which account."""
    return f"took {await ctx.ask('Which account?', Literal['main', 'savings'])}"


class Pick(BaseTool):
    """Asks as well, with the context that agents give to classes."""

    name = "pick"
    description = "Ask which account."

    async def call(self, ctx: RunContext[AgentContext]) -> str:
        context = current_context()
        assert context is not None
        return f"took {await context.ask('Which account?', Literal['main', 'savings'])}"


def context_with(answer: Any) -> AgentContext:
    return AgentContext(responder=CallbackResponder(lambda _: answer))


@pytest.mark.parametrize("declared", [pick, Pick], ids=["function", "class"])
async def test_the_session_of_the_run_answers(declared: Any) -> None:
    """One toolset serves many people: each run asks its own."""
    agent = agent_of(Toolset(None, [declared]), steps=[[call("pick")]], deps_type=AgentContext)
    results: list[Any] = []
    for answer in ("main", "savings"):
        context = context_with(answer)
        results.append(told(await agent.run("go", deps=context)))
        events = [
            event for event in context.session.events() if isinstance(event, QuestionAnswered)
        ]
        assert [event.value for event in events] == [answer]

    assert [content for _, content in results] == ["took main", "took savings"]


async def test_the_model_is_told_that_a_question_was_declined() -> None:
    """The run goes on, as after a denial."""

    def decline(question: Question) -> QuestionResponse:
        return QuestionResponse("decline", reason="none of these")

    context = AgentContext(responder=CallbackResponder(decline))
    agent = agent_of(Toolset(context, [pick]), steps=[[call("pick")]])
    outcome, content = told(await agent.run("go"))

    assert outcome == "denied"
    assert "none of these" in str(content)


def test_outside_of_calls_there_is_no_context() -> None:
    """Code that is part of no call has nobody to ask."""
    assert current_context() is None

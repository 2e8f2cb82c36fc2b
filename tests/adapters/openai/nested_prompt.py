"""A tool that evaluates a prompt, and what the provider says to both."""

from __future__ import annotations

from typing import Any

from tests.adapters.openai.loopback_adapter import add, ask
from tests.adapters.openai.scripted_provider import call, message, response
from toolcrib import Prompt, PromptResponse, ToolContext, tool

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

"""Tools that somebody else wrote, behind a gate: govern() around a toolset, hooks around an agent.

Needs no key and no network: a scripted model stands in for a real one. Put the name of any model in
its place, such as "anthropic:claude-sonnet-4-5".
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from pydantic_ai import (
    Agent,
    DeferredToolRequests,
    FunctionToolset,
    ModelMessage,
    ModelResponse,
    RunContext,
    TextPart,
    ToolCallPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from toolcrib import Hooks, Policy, Refuse, Rule
from toolcrib.calls import HookedRequest
from toolcrib.context import AgentContext
from toolcrib.toolsets import govern, govern_agent


def read_file(path: str) -> str:
    """Read a file."""
    return f"the text of {path}"


def delete_file(path: str) -> str:
    """Delete a file."""
    return f"deleted {path}"


@dataclass
class User:
    """What the application knows of a user: the deps of every run."""

    name: str
    context: AgentContext


around_calls, around_requests = Hooks(), Hooks()


@around_calls.after_call("*_file", timeout=2.0)
async def note(ctx: RunContext[User], tool_name: str, result: Any) -> Any:
    print(f"   {ctx.deps.name}: {tool_name} -> {result}")
    return result


@around_requests.on("before_request")
async def at_most_five(request: HookedRequest) -> Refuse | None:
    return Refuse("Five requests are enough.") if request.step > 5 else None


async def script(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Read a file, delete it, and say so."""
    step = sum(isinstance(message, ModelResponse) for message in messages)
    if step == 0:
        return ModelResponse(parts=[ToolCallPart("read_file", {"path": "a.txt"}, "c1")])
    if step == 1:
        return ModelResponse(parts=[ToolCallPart("delete_file", {"path": "a.txt"}, "c2")])
    return ModelResponse(parts=[TextPart("The file is gone.")])


POLICY = Policy((Rule("ask", "delete_*", "toolset:files"), Rule("allow", "*")))


async def main() -> None:
    files = govern(
        FunctionToolset([read_file, delete_file], id="files"), policy=POLICY, hooks=around_calls
    )
    output: Any = [str, DeferredToolRequests]
    agent = Agent(
        FunctionModel(script),
        deps_type=User,
        toolsets=[files],
        output_type=output,
        capabilities=[govern_agent(hooks=around_requests)],
    )
    ann = User("ann", AgentContext())

    print("1. Reading is allowed; deleting needs a person.")
    first = await agent.run("Clean up.", deps=ann)
    requests = first.output
    assert isinstance(requests, DeferredToolRequests)
    (request,) = ann.context.session.approvals.pending()
    print(f"   waiting: {request.tool.id} {request.arguments}")

    print("2. Somebody says yes; the run goes on.")
    results = requests.build_results(approvals={"c2": True}, metadata={"c2": {"by": "bob"}})
    last = await agent.run(
        message_history=first.all_messages(), deferred_tool_results=results, deps=ann
    )
    print(f"   {last.output}")

    print("3. The ledger of ann's session:")
    for entry in ann.context.session.transcript():
        print(f"   {entry.what}: {entry.tool} {entry.text}".rstrip())


if __name__ == "__main__":
    asyncio.run(main())

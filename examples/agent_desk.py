"""A pydantic-ai agent whose refund waits for a person, and goes on in a session opened anew.

Needs no key and no network: a scripted model stands in for a real one. Put the name of any model in
its place, such as "anthropic:claude-sonnet-4-5".
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from pydantic_ai import (
    Agent,
    DeferredToolRequests,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelResponse,
    RunContext,
    TextPart,
    ToolCallPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from toolcrib import Session, SqliteStore
from toolcrib.context import AgentContext
from toolcrib.toolsets import BaseTool, GlobalHooks, Toolset

SESSION = "desk"


class LookUpOrder(BaseTool):
    name = "look_up_order"
    description = "Find an order by the number on the invoice"
    is_read_only = True

    async def call(self, ctx: RunContext[AgentContext], order_id: str) -> dict[str, Any]:
        return {"order_id": order_id, "total": 49.9}


class Refund(BaseTool):
    name = "refund"
    description = "Pay money back to the customer"
    requires_approval = True

    def get_approval_metadata(self) -> dict[str, Any] | None:
        return {"risk": "money leaves the account"}

    async def call(self, ctx: RunContext[AgentContext], order_id: str, amount: float) -> str:
        return f"Refunded {amount:.2f} EUR for {order_id}."


async def note(ctx: RunContext[AgentContext], tool_name: str, result: Any) -> Any:
    print(f"   {tool_name} -> {result}")
    return result


async def script(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Look the order up, refund it, and say so."""
    steps = [
        ToolCallPart("look_up_order", {"order_id": "A-17"}, "call-1"),
        ToolCallPart("refund", {"order_id": "A-17", "amount": 49.9}, "call-2"),
        TextPart("The customer has the money back."),
    ]
    return ModelResponse(parts=[steps[sum(isinstance(m, ModelResponse) for m in messages)]])


def desk(ctx: AgentContext) -> Agent[None, str | DeferredToolRequests]:
    toolset = Toolset(ctx, [LookUpOrder, Refund], global_hooks=GlobalHooks(post=note))
    return Agent(FunctionModel(script), toolsets=[toolset], output_type=[str, DeferredToolRequests])


async def ask(folder: Path) -> DeferredToolRequests:
    """Run until somebody must decide; the history and the session are kept on disk."""
    session = await Session.open(SqliteStore(folder / "desk.db"), SESSION)
    async with AgentContext(session) as ctx:
        result = await desk(ctx).run("The customer of A-17 wants the money back.")
        assert isinstance(result.output, DeferredToolRequests)
        (folder / "history.json").write_bytes(result.all_messages_json())
        return result.output


async def answer(folder: Path, requests: DeferredToolRequests) -> None:
    """Approve, and go on with nothing but what is on disk."""
    session = await Session.open(SqliteStore(folder / "desk.db"), SESSION)
    async with AgentContext(session) as ctx:
        history = ModelMessagesTypeAdapter.validate_json((folder / "history.json").read_bytes())
        by = {call.tool_call_id: {"by": "ada"} for call in requests.approvals}
        results = requests.build_results(approve_all=True, metadata=by)
        result = await desk(ctx).run(message_history=history, deferred_tool_results=results)
        print(f"   {result.output}")
        for entry in session.transcript():
            print(f"   {entry.tool:14} {entry.what:10} {entry.text}")
        head = session.verify()
        print(f"   ledger verified: {head.seq if head else 0} records")


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        print("1. The agent works until it must ask:")
        requests = await ask(Path(folder))
        for call in requests.approvals:
            why = requests.metadata[call.tool_call_id]
            print(f"   waits: {call.tool_name} {call.args_as_json_str()} ({why['risk']})")
        print("2. Somebody says yes; the run goes on in a session opened anew:")
        await answer(Path(folder), requests)


if __name__ == "__main__":
    asyncio.run(main())

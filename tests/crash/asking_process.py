"""A process that waits for a person when it is killed: `... STORE question|approval`."""

from __future__ import annotations

import asyncio
import sys

from toolcrib import Caller, Event, Executor, Session, SqliteStore, ToolContext, tool
from toolcrib.approval.decision import ApprovalRequest
from toolcrib.ledger.events import ApprovalRequested
from toolcrib.ledger.question_events import QuestionAsked


@tool
async def ask(ctx: ToolContext) -> str:
    """Ask which account."""
    return await ctx.ask("Which account?")


@tool(requires_approval=True)
async def risky() -> str:
    """Do what somebody has to allow."""
    return "did it"


@tool(uses=("risky",))
async def outer(ctx: ToolContext) -> str:
    """Call the risky tool."""
    return (await ctx.call_tool("risky")).text


class Inbox:
    """People who are there, and never decide."""

    def has_responders(self, caller: Caller) -> bool:
        return True

    def has_approvers(self, caller: Caller) -> bool:
        return True

    async def decided(self, request: ApprovalRequest) -> bool:
        await asyncio.Event().wait()
        return True


async def main(store: str, scene: str) -> None:
    session = await Session.open(SqliteStore(store), "s")
    session.attendance = Inbox()
    expected: type[Event] = QuestionAsked if scene == "question" else ApprovalRequested
    session.bus.subscribe(expected, lambda _: print("waits", flush=True))
    name = "ask" if scene == "question" else "outer"
    await Executor(session, [ask, risky, outer]).call(name, call_id="c1")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))

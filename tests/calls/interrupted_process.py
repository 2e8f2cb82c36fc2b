"""A process that dies in the middle of its calls, and the tools it was running."""

import asyncio
import shutil
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from tests.calls.places import Trace
from toolcrib.approval.approvers import Approver, Reply
from toolcrib.approval.decision import ApprovalRequest, Approve
from toolcrib.approval.grant import NewGrant
from toolcrib.approval.policy import Policy, Rule
from toolcrib.calls.executor import Executor
from toolcrib.ledger.events import ApprovalDecided
from toolcrib.session.session import Session
from toolcrib.store import SqliteStore
from toolcrib.tools.context import ToolContext
from toolcrib.tools.decorator import FunctionTool, tool

ROOT = Path(__file__).parents[2]
RUNNING = {"plain", "idempotent", "approved", "edited", "granted", "nesting", "stamp"}
"""The calls that were running when the process died; `nesting` had made another one."""


class Hang:
    """Where handlers stay until their process is killed."""

    def __init__(self) -> None:
        self._arrived = asyncio.Semaphore(0)
        self._end = asyncio.Event()

    async def stay(self) -> None:
        self._arrived.release()
        await self._end.wait()

    async def reached_by(self, count: int) -> None:
        """Return when so many more handlers are here."""
        for _ in range(count):
            await self._arrived.acquire()


def tools_of(trace: Trace, hang: Hang | None = None) -> list[FunctionTool[Any, Any]]:
    """The tools. With `hang`, each handler notes that it runs and does not come back."""

    async def run(ctx: ToolContext, **arguments: object) -> str:
        trace.note({"call": ctx.call_id, "key": ctx.idempotency_key, **arguments})
        if hang is not None:
            await hang.stay()
        return f"did {ctx.tool_name}"

    @tool
    async def pay(ctx: ToolContext, amount: int) -> str:
        """Pay."""
        return await run(ctx, amount=amount)

    @tool(is_idempotent=True)
    async def put(ctx: ToolContext, text: str) -> str:
        """Put."""
        return await run(ctx, text=text)

    @tool(uses=("pay",))
    async def shop(ctx: ToolContext) -> str:
        """Shop."""
        return (await ctx.call_tool("pay", {"amount": 77})).text

    @tool(one_at_a_time=True)
    async def stamp(ctx: ToolContext) -> str:
        """Stamp."""
        return await run(ctx)

    return [pay, put, shop, stamp]


def executor_for(
    session: Session,
    trace: Trace,
    *,
    hang: Hang | None = None,
    asks: bool = False,
    approver: Approver | None = None,
    policy: Policy | None = None,
) -> Executor:
    asking = Policy((Rule("ask", "*"),)) if asks else policy
    return Executor(session, tools_of(trace, hang), policy=asking, approver=approver)


class Silent:
    """Is asked and does not answer."""

    def __init__(self, hang: Hang) -> None:
        self._hang = hang

    async def ask(self, request: ApprovalRequest) -> Reply | None:
        await self._hang.stay()
        return None


async def live(folder: Path) -> None:
    """Start every kind of call, say so, and wait to be killed."""
    hang = Hang()
    trace = Trace(folder / "runs")
    session = await Session.open(SqliteStore(folder / "crib.sqlite3"), "s")
    free = executor_for(session, trace, hang=hang)
    gated = executor_for(session, trace, hang=hang, asks=True)
    silent = executor_for(session, trace, hang=hang, asks=True, approver=Silent(hang))
    is_stamp_decided = asyncio.Event()

    def hear(event: ApprovalDecided) -> None:
        if event.call_id == "decided":
            is_stamp_decided.set()

    session.bus.subscribe(ApprovalDecided, hear)
    for call_id in ("granting", "granted", "approved", "edited"):
        await gated.call("pay", {"amount": 5}, call_id=call_id)
    await gated.call("stamp", call_id="decided")
    decide = session.approvals.decide
    await decide("granting", Approve(), by="jo", grant=NewGrant("everyone", unlimited=True))
    await decide("approved", Approve(), by="jo")
    await decide("edited", Approve({"amount": 6}), by="jo")
    await decide("decided", Approve(), by="jo")
    await gated.withdraw("granting")
    async with asyncio.TaskGroup() as group:
        group.create_task(free.call("pay", {"amount": 1}, call_id="plain"))
        group.create_task(free.call("put", {"text": "x"}, call_id="idempotent"))
        group.create_task(free.call("shop", call_id="nesting"))
        group.create_task(gated.resume(["granted", "approved", "edited"]))
        group.create_task(silent.call("stamp", call_id="asked"))
        group.create_task(free.call("stamp", call_id="stamp"))
        await hang.reached_by(len(RUNNING) + 1)
        # Allowed by now, but the tool runs one call at a time: this one waits for the other.
        group.create_task(free.resume(["decided"]))
        await is_stamp_decided.wait()
        print("ready", flush=True)


async def live_again(folder: Path) -> None:
    """Go on with what is in doubt, allowed by a person, and wait to be killed once more."""
    hang = Hang()
    trace = Trace(folder / "runs")
    session = await Session.open(SqliteStore(folder / "crib.sqlite3"), "s")
    executor = executor_for(session, trace, hang=hang)
    await executor.resume(["plain"])
    await session.approvals.decide("plain", Approve(), by="ada")
    task = asyncio.create_task(executor.resume(["plain"]))
    await hang.reached_by(1)
    print("ready", flush=True)
    await task


def kill_in_the_middle(folder: Path, life: Callable[[Path], Coroutine[Any, Any, None]]) -> None:
    """Run a life in a process of its own, and kill it once it says that it is ready."""
    name = life.__name__
    script = (
        f"import asyncio, sys; from pathlib import Path; from {life.__module__} import {name}; "
        f"asyncio.run({name}(Path(sys.argv[1])))"
    )
    command = [sys.executable, "-c", script, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        finally:
            process.kill()


def copy_of(folder: Path, target: Path) -> Path:
    """What the dead process left, for one test to go on with."""
    shutil.copytree(folder, target)
    return target

"""The load that is killed: real tools on a real session in an SQLite file."""

import asyncio
import json
import os
import random
import signal
import zlib
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from toolcrib import (
    Actor,
    Approve,
    CallbackApprover,
    Deny,
    EventBus,
    Executor,
    Hooks,
    Outcome,
    Reply,
    Session,
    SqliteStore,
    ToolContext,
    ToolInvoked,
    tool,
)
from toolcrib.approval.decision import ApprovalRequest

SESSION = "s"
WORKERS = 32
TOOLS = ("lookup", "charge", "stamp", "transfer")
IDEMPOTENT = frozenset({"lookup"})
POINTS = ("before_effect", "after_effect", "before_finish", "after_finish", "asking", "decided")


@dataclass(frozen=True, slots=True)
class Plan:
    """One life of the process: what it works on, and where it dies by its own hand, if it does."""

    store: str
    effects: str
    """A file to which every handler appends its tool and call id: the world outside."""
    reports: str
    """A pipe on which everything that a caller was told is told again."""
    seed: int
    calls: int = 1_000
    """Calls of each worker; more than any life lasts."""
    point: str = ""
    times: int = 1


class Fate:
    """Kills this process at a chosen point, the n-th time it gets there."""

    def __init__(self, point: str, times: int) -> None:
        self._point = point
        self._left = times

    def reach(self, point: str) -> None:
        if point == self._point:
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


class World:
    """What the tools act on: its descriptor differs from life to life, the tools do not."""

    def __init__(self, effects: str, fate: Fate) -> None:
        self._file = os.open(effects, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._fate = fate

    def act(self, name: str, ctx: ToolContext) -> None:
        self._fate.reach("before_effect")
        os.write(self._file, f"{name} {ctx.call_id}\n".encode())
        self._fate.reach("after_effect")


def make_tools(effects: str, fate: Fate | None = None) -> list[Any]:
    """The tools; each leaves a mark in the world before it returns."""
    world = World(effects, fate or Fate("", 1))

    @tool(is_idempotent=True)
    async def lookup(number: int, ctx: ToolContext) -> int:
        """Look a number up."""
        world.act("lookup", ctx)
        return number

    @tool
    async def charge(number: int, ctx: ToolContext) -> int:
        """Charge a card."""
        world.act("charge", ctx)
        await asyncio.sleep(0)
        return number

    @tool
    def stamp(number: int, ctx: ToolContext) -> int:
        """Stamp a page, in a worker thread."""
        world.act("stamp", ctx)
        return number

    @tool(requires_approval=True)
    async def transfer(number: int, ctx: ToolContext) -> int:
        """Transfer money, if somebody approves."""
        world.act("transfer", ctx)
        return number

    return [lookup, charge, stamp, transfer]


class Life:
    """One process at work on the session, until it is killed."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._fate = Fate(plan.point, plan.times)
        self._reports = os.open(plan.reports, os.O_WRONLY)

    async def live(self) -> None:
        """Take up what an earlier life left, then call tools from many tasks at once."""
        bus = EventBus()
        bus.subscribe(ToolInvoked, lambda _: self._fate.reach("after_finish"))
        with closing(SqliteStore(self._plan.store)) as store:
            async with await Session.open(store, SESSION, bus=bus) as session:
                executor = Executor(
                    session,
                    make_tools(self._plan.effects, self._fate),
                    approver=CallbackApprover(self._answer),
                    hooks=Hooks(global_post=self._look),
                )
                self._report({"opened": session.lease.fence})
                for outcome in await executor.resume():
                    self._told(outcome)
                async with asyncio.TaskGroup() as workers:
                    for number in range(WORKERS):
                        workers.create_task(self._work(session, executor, number))

    async def _work(self, session: Session, executor: Executor, number: int) -> None:
        rng = random.Random(f"{self._plan.seed}/{number}")
        for count in range(self._plan.calls):
            name = rng.choice(TOOLS)
            outcome = await executor.call(name, {"number": count})
            self._told(outcome)
            if outcome.approval is not None and rng.random() < 0.5:
                decision = rng.choice([Approve(), Deny("no")])
                await session.approvals.decide(outcome.call_id, decision, by="a worker")
                approval_id = outcome.approval.approval_id
                self._report({"decided": approval_id, "decision": decision.kind})
                self._fate.reach("decided")
                self._told(await executor.call(name, call_id=outcome.call_id))

    async def _look(self, _ctx: Any, _name: str, value: Any) -> Any:
        self._fate.reach("before_finish")
        return value

    async def _answer(self, request: ApprovalRequest) -> Reply | None:
        self._fate.reach("asking")
        if request.rule == "in_doubt":
            return None
        decision = [Approve(), Deny("no"), None][zlib.crc32(request.call_id.encode()) % 3]
        return Reply(decision, Actor("person", "ada")) if decision else None

    def _told(self, outcome: Outcome) -> None:
        self._report({"call": outcome.call_id, "status": outcome.status})

    def _report(self, fact: dict[str, Any]) -> None:
        # Short writes to a pipe are atomic: a kill leaves whole lines.
        os.write(self._reports, json.dumps(fact).encode() + b"\n")

"""One tool in every place it can run. Each run leaves a line in a file: so processes can be
compared, and what did not run left nothing.
"""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from toolcrib.approval.approvers import Approver
from toolcrib.approval.policy import Policy, Rule
from toolcrib.calls.call import Call
from toolcrib.calls.execute import Runner
from toolcrib.calls.executor import Executor
from toolcrib.ledger.events import Event
from toolcrib.ledger.record import events
from toolcrib.session.session import Session
from toolcrib.tools.identity import Place
from toolcrib.tools.provider_tools import HostedTool
from toolcrib.tools.tool import Tool

Where = Literal["async", "sync", "sandbox", "client", "provider"]
PLACES: tuple[Where, ...] = ("async", "sync", "sandbox", "client", "provider")
DEADLINE_SECONDS = 60.0
ASKS = Policy((Rule("ask", "pay", id="payments", deadline_seconds=DEADLINE_SECONDS),))


@dataclass(frozen=True, slots=True)
class Payment:
    amount: int
    to: str = "ada"


@dataclass(frozen=True, slots=True)
class Options:
    """The options of the provider's tool: none."""


@dataclass(frozen=True, slots=True)
class Receipt:
    text: str = "paid"


class Trace:
    """A file with a line for each run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def note(self, arguments: object) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps(arguments) + "\n")

    def runs(self) -> list[Any]:
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        return [json.loads(line) for line in lines if line]


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxTool(Tool[Payment, str]):
    """A tool whose calls run in a confined process."""

    @property
    def place(self) -> Place:
        return "sandbox"


class SandboxRunner:
    """Runs the call in a process of its own, which gets the arguments on its standard input."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    async def run(self, call: Call) -> str:
        process = await asyncio.create_subprocess_exec(
            "sh", "-c", 'cat >> "$0"; echo >> "$0"', str(self._trace.path), stdin=-1
        )
        await process.communicate(call.arguments)
        assert process.returncode == 0
        return "paid"


class ClientRunner:
    """The connected client, in this process."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    async def run(self, call: Call) -> str:
        self._trace.note(json.loads(call.arguments))
        return "paid"


def pay_tool(where: Where, trace: Trace) -> Tool[Any, Any]:
    """The tool `pay`, run at `where`."""

    def pay(payment: Payment) -> str:
        trace.note({"amount": payment.amount, "to": payment.to})
        return "paid"

    async def pay_async(payment: Payment) -> str:
        return pay(payment)

    match where:
        case "async":
            return Tool[Payment, str](name="pay", description="Pay.", handler=pay_async)
        case "sync":
            return Tool[Payment, str](name="pay", description="Pay.", handler=pay)
        case "sandbox":
            return SandboxTool(name="pay", description="Pay.", params_type=Payment)
        case "client":
            return Tool[Payment, str](name="pay", description="Pay.")
        case "provider":
            return HostedTool(
                name="pay", description="Pay.", kind="pay", config=Options(), result_type=Receipt
            )


def executor_at(
    where: Where,
    session: Session,
    trace: Trace,
    approver: Approver | None = None,
    policy: Policy = ASKS,
) -> Executor:
    """An executor with the tool `pay` and everything that can run it."""
    runners: Mapping[Place, Runner] = {
        "sandbox": SandboxRunner(trace),
        "client": ClientRunner(trace),
    }
    tools = [pay_tool(where, trace)]
    return Executor(session, tools, policy=policy, approver=approver, runners=runners)


def history(session: Session) -> list[Event]:
    """Everything in the session's ledger, which must hold."""
    session.verify()
    return list(events(session.records()))

"""A desk that pays: the calls that gate, grants and resumption are tried on."""

from typing import Any, TypeVar, Unpack

from tests.calls.places import history
from toolcrib.approval.approvers import Approver, Reply
from toolcrib.approval.decision import Actor, ApprovalRequest, Decision
from toolcrib.approval.grant import NewGrant
from toolcrib.approval.policy import Policy
from toolcrib.calls.executor import Executor
from toolcrib.calls.hooks import Hooks
from toolcrib.calls.outcome import Outcome
from toolcrib.ledger.events import Event
from toolcrib.session.session import Session
from toolcrib.testing import FakeClock
from toolcrib.tools.decorator import FunctionTool, tool
from toolcrib.tools.rules import ToolRules

E = TypeVar("E", bound=Event)

JO = Actor("person", "jo")


class Desk:
    """`pay` spends money and `look` only looks; `ran` holds what was done."""

    def __init__(
        self,
        policy: Policy | None = None,
        approver: Approver | None = None,
        *,
        session: Session | None = None,
        hooks: Hooks | None = None,
        ran: list[object] | None = None,
        **rules: Unpack[ToolRules],
    ) -> None:
        self.ran: list[object] = [] if ran is None else ran
        self.clock = FakeClock()
        self.session = session or Session(clock=self.clock)
        self.pay = self._pay(**rules)
        self.executor = Executor(
            self.session, [self.pay, self._look()], policy=policy, approver=approver, hooks=hooks
        )

    def _pay(self, **rules: Unpack[ToolRules]) -> FunctionTool[Any, Any]:
        @tool(**rules)
        async def pay(amount: int, to: str = "ada") -> str:
            """Pay somebody."""
            self.ran.append({"amount": amount, "to": to})
            return f"paid {amount}"

        return pay

    def _look(self) -> FunctionTool[Any, Any]:
        @tool(is_read_only=True)
        async def look() -> str:
            """Look at the books."""
            self.ran.append("looked")
            return "all is well"

        return look

    async def call(self, amount: int = 5, call_id: str | None = None, **more: Any) -> Outcome:
        return await self.executor.call("pay", {"amount": amount, **more}, call_id=call_id)

    async def decide(
        self, which: str, decision: Decision, grant: NewGrant | None = None
    ) -> list[Outcome]:
        """Decide one call, and go on with whatever can go on."""
        await self.session.approvals.decide(which, decision, by="jo", grant=grant)
        return await self.executor.resume()

    def events(self, event_type: type[E]) -> list[E]:
        """The events of one type, from the ledger."""
        return [event for event in history(self.session) if isinstance(event, event_type)]


class Says:
    """An approver that always gives the same answer, and remembers what it was asked."""

    def __init__(self, decision: Decision | None, grant: NewGrant | None = None) -> None:
        self.answer = None if decision is None else Reply(decision, JO, grant)
        self.asked: list[ApprovalRequest] = []

    async def ask(self, request: ApprovalRequest) -> Reply | None:
        self.asked.append(request)
        return self.answer


def kind_of(outcome: Outcome) -> str:
    """`completed`, `waiting`, or why the call failed."""
    is_failed = outcome.status == "failed" and outcome.failure is not None
    return outcome.failure.kind if is_failed and outcome.failure else outcome.status

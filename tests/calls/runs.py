"""What the tests of the executor share: one call in a session of its own, and its records."""

from dataclasses import dataclass
from typing import Any, TypeVar

from toolcrib import Executor, Outcome, Session, ToolInvoked
from toolcrib.ledger.events import Event

E = TypeVar("E", bound=Event)


@dataclass(frozen=True, slots=True)
class Run:
    """A call that was made: what came of it, and the session it was made in."""

    outcome: Outcome
    session: Session

    @property
    def failure(self) -> str | None:
        """The kind of failure, if it failed."""
        return self.outcome.failure.kind if self.outcome.failure else None

    @property
    def record(self) -> ToolInvoked:
        """What the ledger says of the call."""
        return invoked(self.session)[-1]


async def run(
    declared: Any, arguments: Any = None, *, session: Session | None = None, **options: Any
) -> Run:
    """Call a tool once, in an executor that has only this tool."""
    session = session or Session()
    executor = Executor(session, [declared], **options)
    (name,) = executor.tools
    return Run(await executor.call(name, arguments), session)


def found(session: Session, event_type: type[E]) -> list[E]:
    """The events of one type, as the ledger has them."""
    happened = [record.event for record in session.records()]
    return [event for event in happened if isinstance(event, event_type)]


def invoked(session: Session) -> list[ToolInvoked]:
    """The ends of all calls."""
    return found(session, ToolInvoked)


def kinds(session: Session) -> list[str]:
    """What kinds of records there are, in order."""
    return [record.kind for record in session.records()]


def failure(outcome: Outcome) -> str | None:
    """The kind of failure of an outcome, if it failed."""
    return outcome.failure.kind if outcome.failure else None

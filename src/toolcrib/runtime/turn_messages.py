"""What is stored of a turn on a shared store: the prompt that was accepted, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from toolcrib.approval.caller import Caller
from toolcrib.errors import Refused
from toolcrib.failures import RefusalKind
from toolcrib.runtime.messages import PromptResult

if TYPE_CHECKING:
    from toolcrib.runtime.principal import Principal


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """A prompt that was accepted, and who sent it. Nobody's rights are in it: whoever runs the turn
    decides by its own policy.
    """

    text: str | None
    """None to go on with the prompt of the session that has not ended."""
    principal: str | None
    transport: str | None
    groups: list[str]
    waits: bool
    digest: str
    """Of the parameters of the request, to tell another one under the same key."""

    @property
    def caller(self) -> Caller:
        """Who asked, for the records of the model's calls."""
        return Caller(self.principal, self.transport, True, frozenset(self.groups))


@dataclass(frozen=True, slots=True)
class TurnOutcome:
    """What came of a turn so far. The answer itself is in the ledger alone."""

    digest: str
    result: PromptResult | None = None
    refused: RefusalKind | None = None
    """Why nobody could run it, if so, with a message for whoever asked."""
    message: str = ""
    facts: dict[str, Any] = field(default_factory=dict[str, Any])
    has_waited: bool = False
    """Whether it was waiting before: whoever resumes it then still wants to know its end."""

    @property
    def refusal(self) -> Refused | None:
        """What to tell whoever asked, if nobody could run it."""
        return None if self.refused is None else Refused(self.refused, self.message, self.facts)


def turn_request(text: str | None, who: Principal, *, waits: bool, digest: str) -> bytes:
    """A request as JSON."""
    caller = who.caller(is_model=True)
    request = TurnRequest(
        text, caller.principal, caller.transport, sorted(caller.groups), waits, digest
    )
    return _requests().dump_json(request)


def read_request(data: bytes) -> TurnRequest:
    """What `turn_request` wrote."""
    return _requests().validate_json(data)


def turn_outcome(outcome: TurnOutcome) -> bytes:
    """An outcome as JSON, without the answer."""
    if outcome.result is not None:
        outcome = replace(outcome, result=replace(outcome.result, text=""))
    return _outcomes().dump_json(outcome)


def read_outcome(data: bytes) -> TurnOutcome:
    """What `turn_outcome` wrote."""
    return _outcomes().validate_json(data)


@cache
def _requests() -> TypeAdapter[TurnRequest]:
    return TypeAdapter(TurnRequest)


@cache
def _outcomes() -> TypeAdapter[TurnOutcome]:
    return TypeAdapter(TurnOutcome)

"""Calls that a provider ran: they enter the path at its end, where everything is recorded."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from pydantic_core import PydanticSerializationError, from_json, to_json

from toolcrib.approval.decision import Actor
from toolcrib.calls.records import put_down
from toolcrib.failures import Failure, FailureKind
from toolcrib.ledger.events import ToolInvoked
from toolcrib.ledger.kept_text import Keeper
from toolcrib.session.turns import in_call, turn_here
from toolcrib.store.store import Artifact, ArtifactKept

if TYPE_CHECKING:
    from toolcrib.approval.caller import Caller
    from toolcrib.calls.call import Call
    from toolcrib.prices.cost import Cost
    from toolcrib.session.session import Session
    from toolcrib.tools.identity import ToolRef


@dataclass(frozen=True, slots=True)
class ProviderCall:
    """What a provider says of one call it has run."""

    call_id: str
    tool: ToolRef
    provider: str
    capability: str
    params: Any
    value: Any
    message: str
    success: bool
    error: str | None
    raw: Any
    caller: Caller | None = None
    failure_kind: FailureKind = "provider_error"
    duration_seconds: float = 0.0
    """How long it ran, as far as that could be watched."""
    cost: Cost | None = None


async def record_provider_call(session: Session, call: ProviderCall, decided_by: Actor) -> None:
    """Write a provider-run call down like any other: ledger, bus, reducers, transcript."""
    now = session.clock()
    here = turn_here(session)
    failure = None
    if not call.success:
        failure = Failure(call.failure_kind, call.error or call.message or "The provider failed.")
    keeper = Keeper(session.artifacts.text)
    value, raw = keeper.take(call.value), keeper.take(call.raw)
    await session.record(
        ToolInvoked(
            session_id=session.session_id,
            at=now,
            call_id=call.call_id,
            name=call.tool.name,
            params=call.params,
            message=call.message,
            success=call.success,
            value=as_json(value) if not session.is_heard else value,
            failure=failure,
            tool=call.tool,
            arguments_digest=_digest(call),
            duration_seconds=call.duration_seconds,
            decided_by=decided_by,
            parent_call_id=here.parent_call_id if here else None,
            turn=session.turn,
            principal=call.caller.principal if call.caller else None,
            transport=call.caller.transport if call.caller else None,
            origin="provider",
            provider=call.provider,
            capability=call.capability,
            raw=raw,
            cost=call.cost,
            kept=keeper.kept,
        ),
        artifacts_of(keeper, call.call_id),
    )


def artifacts_of(keeper: Keeper, call_id: str = "") -> list[ArtifactKept]:
    """What the store has to keep beside the event."""
    texts = keeper.texts.items()
    return [ArtifactKept(Artifact(key, call_id, text)) for key, text in texts]


def _digest(call: ProviderCall) -> str:
    """Of the tool and of what it was asked to do."""
    tool, arguments = call.tool, json.dumps(as_json(call.params), sort_keys=True)
    facts = "\n".join((tool.name, tool.version, tool.digest, arguments))
    return sha256(facts.encode("utf-8", "surrogatepass")).hexdigest()


def recorded_value(value: Any) -> Any:
    """A value as the ledger gives it back."""
    return as_json(Keeper().take(value))


@contextmanager
def in_provider_call(call: Call) -> Generator[None]:
    """Let the code within be part of a call that the provider ran: an output hook of ours."""
    try:
        with in_call(call):
            yield
    except asyncio.CancelledError:
        # A hook that runs in a thread goes on.
        call.is_left_running = True
        raise
    finally:
        put_down(call)


def as_json(value: Any) -> Any:
    """A value as the ledger will give it back; what is not JSON is left to the raw item."""
    try:
        return from_json(to_json(value))
    except PydanticSerializationError:
        return None

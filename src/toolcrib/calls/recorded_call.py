"""One call id is one call: what becomes of an id that was used before.

A client's id names one call for as long as the ledger lives, so that it can ask again when an
answer was lost. A model's id names one call of its turn: models may use the same ids in every turn.
A model that uses an id again in a later response of one turn makes another call, which has an id of
its own here; see `repeated_id`.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Any, cast

from pydantic_core import from_json, to_json

from toolcrib.calls.outcome import Outcome
from toolcrib.errors import UsageError
from toolcrib.ledger.events import ToolInvoked
from toolcrib.session.turns import turn_here
from toolcrib.store.store import OpenCall, ask_store

if TYPE_CHECKING:
    from toolcrib.approval.caller import Caller
    from toolcrib.ledger.record import Record
    from toolcrib.session.session import Session

MAX_ID_CHARS = 256
"""How long the id of a call may be."""

_GENERATED = re.compile(r"call_\d+_\d+")


def request_digest(name: str, arguments: bytes) -> str:
    """What a caller asked for, in one number: the tool and the arguments as they were sent, in
    whatever order.
    """
    # What is not JSON is what it is.
    with suppress(ValueError):
        arguments = _in_order(from_json(arguments))
    return sha256(name.encode(errors="surrogatepass") + b"\n" + arguments).hexdigest()


def _in_order(data: Any) -> bytes:
    """JSON with the members of every object in one order."""
    if type(data) is dict:
        members = cast("dict[str, Any]", data)
        # Most arguments are plain; to write them this way takes a quarter of the time.
        if not any(type(value) in (dict, list) for value in members.values()):
            return to_json(dict(sorted(members.items())))
    return json.dumps(data, sort_keys=True).encode()


def repeated_id(call_id: str, times: int) -> str:
    """The id of the call that a model names `call_id` for the given time in its conversation."""
    if times <= 1:
        return call_id
    repeated = f"{call_id}#{times}"
    if len(repeated) <= MAX_ID_CHARS:
        return repeated
    return f"call_{sha256(repeated.encode(errors='surrogatepass')).hexdigest()[:32]}"


async def recorded_outcome(
    session: Session, call_id: str, name: str, request: str, caller: Caller | None
) -> Outcome | None:
    """The outcome that the call of this id had; None when there was no such call.

    Raises `UsageError` when the id was another call's, and when it is not known how its call ended.
    """
    match await ask_store(session.store, session.known_call, call_id):
        case None:
            _check_not_generated(call_id)
            return None
        case OpenCall():
            raise UsageError(
                f"call {call_id!r} was started and its end could not be recorded; open the session "
                "again and resume it"
            )
        case record:
            return _outcome(session, record, name, request, caller)


def _outcome(
    session: Session, record: Record, name: str, request: str, caller: Caller | None
) -> Outcome | None:
    if record.payload is None:
        raise UsageError(
            f"a call {record.call_id!r} has ended, and what it gave was deleted; give every call "
            "an id of its own"
        )
    invoked = record.event
    assert isinstance(invoked, ToolInvoked), "only the end of a call is looked for"
    turn = turn_here(session)
    if turn is not None and turn.number != invoked.turn:
        return None
    principal = caller.principal if caller else None
    if (invoked.name, invoked.request_digest, invoked.principal) != (name, request, principal):
        raise UsageError(
            f"the id {invoked.call_id!r} is of another call, which has ended; give every call an "
            "id of its own"
        )
    return Outcome(
        call_id=invoked.call_id,
        tool=invoked.name,
        status="completed" if invoked.success else "failed",
        text=invoked.message,
        value=invoked.value,
        failure=invoked.failure,
        artifact_id=invoked.artifact_id,
    )


def _check_not_generated(call_id: str) -> None:
    # The session gives such ids without a look at the ledger, so nobody else may.
    if _GENERATED.fullmatch(call_id):
        raise UsageError(
            f"{call_id!r} is an id that the session gives to calls without one, and there is no "
            "such call; give an id of another form, or none"
        )

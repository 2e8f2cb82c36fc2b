"""One call id is one call: what becomes of an id that was used before.

A client's id names one call for as long as the ledger lives, so that it can ask again when an
answer was lost. A model's id names one call of its turn: models may use the same ids in every turn.
A model that uses an id again in a later response of one turn makes another call, which has an id of
its own here; see `repeated_id`.
"""

from __future__ import annotations

import re
from contextlib import suppress
from hashlib import sha256
from operator import itemgetter
from typing import TYPE_CHECKING, Any, cast

from pydantic_core import from_json, to_json

from toolcrib.calls.outcome import NOTHING, Outcome
from toolcrib.errors import UsageError
from toolcrib.ledger.events import ToolInvoked
from toolcrib.session.turns import turn_here
from toolcrib.store.store import OpenCall

if TYPE_CHECKING:
    from toolcrib.approval.caller import Caller
    from toolcrib.calls.call import Call
    from toolcrib.ledger.record import Record
    from toolcrib.session.session import Session

MAX_ID_CHARS = 256
"""How long the id of a call may be."""

_SCALARS = frozenset({str, int, float, bool, type(None)})
_key = itemgetter(0)
_GENERATED = re.compile(r"call_\d+_\d+")


def request_digest(name: str, arguments: bytes) -> str:
    """What a caller asked for, in one number: the tool and the arguments as they were sent, in
    whatever order.
    """
    # What is not JSON is what it is.
    with suppress(ValueError):
        arguments = to_json(_in_order(from_json(arguments)), inf_nan_mode="constants")
    return sha256(name.encode(errors="surrogatepass") + b"\n" + arguments).hexdigest()


def digest_of_request(call: Call) -> str | None:
    """The digest of what was asked for; None when whoever asked gave the call no id."""
    # Records may be encoded in another thread.
    request = call.request
    if request is not None:
        call.request_digest = request_digest(call.name, request)
        call.request = None
    return call.request_digest


def _in_order(data: Any) -> Any:
    """JSON data with the members of every object in one order."""
    match data:
        case dict():
            members = cast("dict[str, Any]", data)
            return {
                key: value if type(value) in _SCALARS else _in_order(value)
                for key, value in sorted(members.items(), key=_key)
            }
        case list():
            elements = cast("list[Any]", data)
            return [each if type(each) in _SCALARS else _in_order(each) for each in elements]
        case _:
            return data


def repeated_id(call_id: str, times: int) -> str:
    """The id of the call that a model names `call_id` for the given time in its conversation.

    A model may happen to count its calls as sessions do; its ids are another's here, too.
    """
    if times <= 1 and not _GENERATED.fullmatch(call_id):
        return call_id
    repeated = f"{call_id}#{max(times, 1)}"
    if len(repeated) <= MAX_ID_CHARS:
        return repeated
    return f"call_{sha256(repeated.encode(errors='surrogatepass')).hexdigest()[:32]}"


def recorded_outcome(
    session: Session,
    earlier: OpenCall | Record,
    name: str,
    arguments: bytes,
    caller: Caller | None,
) -> Outcome | None:
    """The outcome that an earlier call of this id had; None when its id is that of another turn.

    Raises `UsageError` when the id was another call's, and when it is not known how its call ended.
    """
    match earlier:
        case OpenCall():
            raise UsageError(
                f"call {earlier.call_id!r} was started and its end could not be recorded; open "
                "the session again and resume it"
            )
        case record:
            return _outcome(session, record, name, request_digest(name, arguments), caller)


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
        metadata=invoked.metadata or NOTHING,
        artifact_id=invoked.artifact_id,
    )


def check_not_generated(call_id: str) -> None:
    """Raise `UsageError` for an id of the form that sessions give."""
    # The session gives such ids without a look at the ledger, so nobody else may.
    if _GENERATED.fullmatch(call_id):
        raise UsageError(
            f"{call_id!r} is an id that the session gives to calls without one, and there is no "
            "such call; give an id of another form, or none"
        )

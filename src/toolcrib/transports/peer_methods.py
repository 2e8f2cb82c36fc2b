"""What a client may ask of its connection, besides the operations of the runtime."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Final
from uuid import uuid4

from pydantic import Field

from toolcrib.runtime.messages import Nothing, OneSession, Params
from toolcrib.runtime.operations import Operation

if TYPE_CHECKING:
    from toolcrib.runtime.config import WhenBusy
    from toolcrib.transports.jsonrpc import Request
    from toolcrib.transports.peer import Peer


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscribe(Params):
    """The events of a session after a place in its ledger."""

    session_id: str
    after: Annotated[int, Field(ge=0)] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscribed:
    """Events come as notifications, the first one after this place."""

    session_id: str
    after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsubscribed:
    """Whether the session was followed."""

    was_subscribed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OneRequest(Params):
    """A request that is in flight."""

    id: str | int


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenUp:
    """Whether the request was in flight."""

    was_running: bool


async def _ping(peer: Peer, asked: Nothing) -> Nothing:
    """Answer."""
    return Nothing()


async def _subscribe(peer: Peer, asked: Subscribe) -> Subscribed:
    """Send the events of a session, what happened first and then what happens."""
    reader = peer.runtime.service.follow(asked.session_id, asked.after, peer.who)
    peer.following.begin(asked.session_id, asked.after, reader)
    return Subscribed(session_id=asked.session_id, after=asked.after)


async def _unsubscribe(peer: Peer, asked: OneSession) -> Unsubscribed:
    """Send no more events of a session."""
    return Unsubscribed(was_subscribed=peer.following.end(asked.session_id))


async def _attach(peer: Peer, asked: OneSession) -> Nothing:
    """Run the client-run tools of a session from now on."""
    peer.attach(asked.session_id)
    return Nothing()


async def _cancel(peer: Peer, asked: OneRequest) -> GivenUp:
    """Give up a request; a call or a prompt is cancelled."""
    return GivenUp(was_running=await peer.cancel(asked.id))


_ALL: Final = (
    Operation("ping", "read", Nothing, Nothing, _ping, "Answer."),
    Operation("events.subscribe", "read", Subscribe, Subscribed, _subscribe, "Follow a session."),
    Operation(
        "events.unsubscribe", "read", OneSession, Unsubscribed, _unsubscribe, "Stop following."
    ),
    Operation("client.attach", "call", OneSession, Nothing, _attach, "Run a session's own tools."),
    Operation("$/cancel", "read", OneRequest, GivenUp, _cancel, "Give up a request."),
)

PEER_METHODS: Final[dict[str, Operation]] = {each.name: each for each in _ALL}


@dataclass(frozen=True, slots=True)
class Cancelling:
    """The operation that cancels the work of a request."""

    method: str
    params: dict[str, Any]


def cancelling(method: str, params: Mapping[str, Any], when_busy: WhenBusy) -> Cancelling | None:
    """How to cancel the work of a request; None when it is left to end by itself."""
    session_id = params.get("session_id")
    match method:
        case "tools.call" if params.get("call_id") is not None:
            call = {"session_id": session_id, "call_id": params["call_id"]}
            return Cancelling("tools.cancel", call)
        # A prompt that is enqueued must not take the running one, which is another's, with it.
        case "prompt.send" | "prompt.resume" if (params.get("when_busy") or when_busy) != "enqueue":
            return Cancelling("prompt.cancel", {"session_id": session_id})
        case _:
            return None


def with_call_id(request: Request) -> Request:
    """A call whose id is known while it runs, so that it can be cancelled. Under an idempotency key
    it stays as it is: there, other parameters would be another request.
    """
    params = request.params
    if request.method != "tools.call" or params is None:
        return request
    if params.get("call_id") is not None or params.get("idempotency_key") is not None:
        return request
    return replace(request, params={**params, "call_id": f"call_{uuid4().hex[:16]}"})

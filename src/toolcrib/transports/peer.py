"""One client of a runtime that speaks JSON-RPC: text frames in, text frames out.

What a client may ask of its connection, besides the operations of the runtime.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Final
from uuid import uuid4

from pydantic import Field

from toolcrib.errors import Refused
from toolcrib.runtime.messages import Nothing, OneSession, OperationParams
from toolcrib.runtime.operations import OPERATIONS, Operation
from toolcrib.runtime.principal import OWNER
from toolcrib.serving.refusals import as_refused
from toolcrib.transports.client_requests import ClientRequests
from toolcrib.transports.jsonrpc import (
    CANCELLED,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    Malformed,
    Message,
    Notification,
    Request,
    RequestId,
    Response,
    error_frame,
    notification_frame,
    read_message,
    refusal_frame,
    result_frame,
)
from toolcrib.transports.subscriptions import Outbox, Subscriptions

if TYPE_CHECKING:
    from toolcrib.runtime.config import WhenBusy
    from toolcrib.runtime.principal import Principal
    from toolcrib.runtime.runtime import Runtime


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscribe(OperationParams):
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
class OneRequest(OperationParams):
    """A request that is in flight."""

    id: str | int


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestCancelled:
    """Whether the request was in flight."""

    was_running: bool


async def _ping(peer: Peer, asked: Nothing) -> Nothing:
    """Answer."""
    return Nothing()


async def _subscribe(peer: Peer, asked: Subscribe) -> Subscribed:
    """Send the events of a session, what happened first and then what happens."""
    reader = peer.runtime.service.follow(asked.session_id, asked.after, peer.who)
    peer.subscriptions.begin(asked.session_id, asked.after, reader)
    return Subscribed(session_id=asked.session_id, after=asked.after)


async def _unsubscribe(peer: Peer, asked: OneSession) -> Unsubscribed:
    """Send no more events of a session."""
    return Unsubscribed(was_subscribed=peer.subscriptions.end(asked.session_id))


async def _attach(peer: Peer, asked: OneSession) -> Nothing:
    """Run the client-run tools of a session from now on."""
    peer.attach(asked.session_id)
    return Nothing()


async def _cancel(peer: Peer, asked: OneRequest) -> RequestCancelled:
    """Give up a request; a call or a prompt is cancelled."""
    return RequestCancelled(was_running=await peer.cancel(asked.id))


_ALL: Final = (
    Operation("ping", "read", Nothing, Nothing, _ping, "Answer."),
    Operation("events.subscribe", "read", Subscribe, Subscribed, _subscribe, "Follow a session."),
    Operation(
        "events.unsubscribe", "read", OneSession, Unsubscribed, _unsubscribe, "Stop following."
    ),
    Operation("client.attach", "call", OneSession, Nothing, _attach, "Run a session's own tools."),
    Operation("$/cancel", "read", OneRequest, RequestCancelled, _cancel, "Give up a request."),
)

PEER_METHODS: Final[dict[str, Operation]] = {each.name: each for each in _ALL}


@dataclass(frozen=True, slots=True)
class CancelOperation:
    """The operation that cancels the work of a request."""

    method: str
    params: dict[str, Any]


def cancel_operation(
    method: str, params: Mapping[str, Any], when_busy: WhenBusy
) -> CancelOperation | None:
    """How to cancel the work of a request; None when it is left to end by itself."""
    session_id = params.get("session_id")
    match method:
        case "tools.call" if params.get("call_id") is not None:
            call = {"session_id": session_id, "call_id": params["call_id"]}
            return CancelOperation("tools.cancel", call)
        # A prompt that is enqueued must not take the running one, which is another's, with it.
        case "prompt.send" | "prompt.resume" if (params.get("when_busy") or when_busy) != "enqueue":
            return CancelOperation("prompt.cancel", {"session_id": session_id})
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


CLOSING: Final = "runtime.closing"
"""The notification that nothing new is taken."""
LONG: Final = frozenset({"tools.call", "prompt.send", "prompt.resume"})
"""What may take as long as a tool, a model or a person does."""
OPENING: Final = frozenset({"session.create", "session.resume"})
"""What a client may bring tools to."""


class Peer:
    """Answers one client, any number of its requests at once.

    Give every frame that comes to `receive`, send every one of `frames`, and `close` it when the
    client is gone; what the client has begun goes on without it.
    """

    def __init__(
        self,
        runtime: Runtime,
        who: Principal = OWNER,
        *,
        most_requests: int = 1_000,
        most_frames: int = 1_000,
    ) -> None:
        self.runtime = runtime
        self.who = who
        self._outbox = Outbox(
            most_frames=most_frames, most_chars=2 * runtime.config.max_payload_bytes
        )
        self.subscriptions = Subscriptions(self._outbox)
        self.client_requests = ClientRequests(self._outbox)
        self._most_requests = most_requests
        self._in_flight: dict[RequestId, Request] = {}
        self._quick: set[asyncio.Task[None]] = set()
        self._long: set[asyncio.Task[None]] = set()

    async def receive(self, frame: str | bytes) -> None:
        """Take one frame, whatever it holds. Returns when the next one may come: at once, unless
        the client does not read what it is told.
        """
        self._take(read_message(frame, self.runtime.config.max_payload_bytes))
        await self._outbox.room()
        while len(self._quick) >= self._most_requests:
            await asyncio.wait(self._quick, return_when=asyncio.FIRST_COMPLETED)

    def frames(self) -> AsyncIterator[str]:
        """What to send, as it comes; ends after `close`."""
        return self._outbox.frames()

    def attach(self, session_id: str) -> None:
        """Have this client run the client-run tools of a session, in the place of any other."""
        self.client_requests.attach(session_id, self.runtime.service, self.who)

    def say_closing(self) -> None:
        """Tell the client that nothing new is taken."""
        self._outbox.put(notification_frame(CLOSING, {}))

    def hang_up(self) -> None:
        """The client sends no more; what it has asked is still answered."""
        self.client_requests.gone()

    async def drain(self, seconds: float) -> None:
        """Wait until all that was asked is answered, or for `seconds`."""
        if tasks := self._quick | self._long:
            await asyncio.wait(tasks, timeout=seconds)

    def close(self) -> None:
        """The client is gone. What it has begun goes on, and is answered to nobody."""
        self.client_requests.gone()
        self.subscriptions.close()
        self._outbox.close()

    async def cancel(self, request_id: RequestId) -> bool:
        """Give up a request: its call or prompt is cancelled, other work is left to end alone.
        False when nothing of that id is in flight.
        """
        request = self._in_flight.get(request_id)
        if request is None:
            return False
        how = cancel_operation(request.method, request.params or {}, self.runtime.config.when_busy)
        if how is not None:
            await self.runtime.ask(how.method, how.params, self.who)
            return True
        del self._in_flight[request.id]
        self._outbox.put(error_frame(request.id, CANCELLED, "the request was given up"))
        return True

    def _take(self, message: Message) -> None:
        match message:
            case Malformed(code, text, request_id):
                self._outbox.put(error_frame(request_id, code, text))
            case Response():
                self.client_requests.answered(message)
            case Notification():
                # Who asks for no answer is not told that it was one too many.
                if not self._is_full_for(message.method):
                    self._begin(message)
            case Request(request_id, method):
                if refusal := self._refusal(request_id, method):
                    self._outbox.put(refusal)
                    return
                request = with_call_id(message)
                self._in_flight[request_id] = request
                self._begin(request)

    def _refusal(self, request_id: RequestId, method: str) -> str | None:
        if request_id in self._in_flight:
            # Under the id itself, the answer would be taken for that of the other request.
            told = f"a request {request_id!r} is in flight; ids must differ"
            return error_frame(None, INVALID_REQUEST, told)
        if method not in OPERATIONS and method not in PEER_METHODS:
            return error_frame(request_id, METHOD_NOT_FOUND, f"there is no method {method[:80]!r}")
        if self._is_full_for(method):
            told = f"{len(self._long)} calls and prompts are in flight; wait for some of them"
            return refusal_frame(request_id, Refused("unavailable", told))
        return None

    def _is_full_for(self, method: str) -> bool:
        return method in LONG and len(self._long) >= self._most_requests

    def _begin(self, message: Request | Notification) -> None:
        if message.method in OPERATIONS or message.method in PEER_METHODS:
            task = asyncio.ensure_future(self._do(message))
            tasks = self._long if message.method in LONG else self._quick
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    async def _do(self, message: Request | Notification) -> None:
        """Nothing is awaited between an answer and its sending: what follows it comes after it."""
        request_id = message.id if isinstance(message, Request) else None
        try:
            frame = result_frame(request_id, await self._answer(message))
        except Exception as error:
            frame = refusal_frame(request_id, as_refused(error, message.method))
        if request_id is not None and self._in_flight.get(request_id) is message:
            del self._in_flight[request_id]
            self._outbox.put(frame)

    async def _answer(self, message: Request | Notification) -> Any:
        name, params = message.method, message.params
        own = PEER_METHODS.get(name)
        if own is not None:
            self.who.check(own.scope, name)
            return await own.run(self, own.read(params))
        # In this task, which nobody cancels: not even a client that leaves.
        result = await self.runtime.ask_inline(name, params, self.who)
        if name in OPENING and (params or {}).get("client_tools"):
            self.attach(result.session_id)
        return result

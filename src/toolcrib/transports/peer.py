"""One JSON-RPC client of a runtime: text frames in, text frames out.

Besides the operations of the runtime, a client has methods of its connection: `PEER_METHODS`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from toolcrib.errors import Refused
from toolcrib.runtime.messages import Nothing, OneSession, OperationParams, Seq
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
from toolcrib.transports.subscriptions import Outbox, Subscriptions, UnsentFrames

if TYPE_CHECKING:
    from toolcrib.runtime.config import WhenBusy
    from toolcrib.runtime.principal import Principal, Role
    from toolcrib.runtime.runtime import Runtime


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscribe(OperationParams):
    """A subscription to the events of a session after a sequence number."""

    session_id: str
    after: Seq = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscribed:
    """Events come as notifications, starting after this sequence number."""

    session_id: str
    after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsubscribed:
    """Whether there was a subscription."""

    was_subscribed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OneRequest(OperationParams):
    """The id of a request in flight."""

    id: str | int


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestCancelled:
    """Whether the request was in flight."""

    was_running: bool


async def _ping(peer: Peer, params: Nothing) -> Nothing:
    """Answer, to show that the connection works."""
    return Nothing()


async def _subscribe(peer: Peer, params: Subscribe) -> Subscribed:
    """Send the events of a session: the recorded ones, then those that happen."""
    reader = await peer.runtime.service.open_reader(params.session_id, params.after, peer.who)
    peer.subscriptions.begin(params.session_id, params.after, reader)
    return Subscribed(session_id=params.session_id, after=params.after)


async def _unsubscribe(peer: Peer, params: OneSession) -> Unsubscribed:
    """End a subscription."""
    return Unsubscribed(was_subscribed=peer.subscriptions.end(params.session_id))


async def _attach(peer: Peer, params: OneSession) -> Nothing:
    """Run the client tools of a session from now on."""
    await peer.attach(params.session_id)
    return Nothing()


async def _cancel(peer: Peer, params: OneRequest) -> RequestCancelled:
    """Cancel a request, with its call or prompt."""
    return RequestCancelled(was_running=await peer.cancel(params.id))


_EVERYBODY: Final[tuple[Role, ...]] = ("caller", "approver", "auditor")
_READERS: Final[tuple[Role, ...]] = ("caller", "auditor")

_ALL: Final = (
    Operation("ping", _EVERYBODY, Nothing, Nothing, _ping, "Answer a ping."),
    Operation(
        "events.subscribe",
        _READERS,
        Subscribe,
        Subscribed,
        _subscribe,
        "Subscribe to the events of a session.",
    ),
    Operation(
        "events.unsubscribe",
        _READERS,
        OneSession,
        Unsubscribed,
        _unsubscribe,
        "End a subscription.",
    ),
    Operation(
        "client.attach",
        ("caller",),
        OneSession,
        Nothing,
        _attach,
        "Run the client tools of a session.",
    ),
    Operation("$/cancel", _EVERYBODY, OneRequest, RequestCancelled, _cancel, "Cancel a request."),
)

PEER_METHODS: Final[dict[str, Operation]] = {method.name: method for method in _ALL}


@dataclass(frozen=True, slots=True)
class CancelOperation:
    """The operation that cancels the work of a request, with its parameters."""

    method: str
    params: dict[str, Any]


def cancel_operation(
    method: str, params: Mapping[str, Any], when_busy: WhenBusy
) -> CancelOperation | None:
    """The operation that cancels the work of a request; None when the work has to end by itself."""
    session_id = params.get("session_id")
    match method:
        case "tools.call" if params.get("call_id") is not None:
            call = {"session_id": session_id, "call_id": params["call_id"]}
            return CancelOperation("tools.cancel", call)
        # Cancelling a queued prompt must not cancel the running one, which is another request's.
        case "prompt.send" | "prompt.resume" if (params.get("when_busy") or when_busy) != "enqueue":
            return CancelOperation("prompt.cancel", {"session_id": session_id})
        case _:
            return None


def with_call_id(request: Request) -> Request:
    """The request with a call id, so that the call can be cancelled while it runs. A request with
    an idempotency key stays unchanged: other parameters would conflict with the key.
    """
    params = request.params
    if request.method != "tools.call" or params is None:
        return request
    if params.get("call_id") is not None or params.get("idempotency_key") is not None:
        return request
    return replace(request, params={**params, "call_id": f"call_{uuid4().hex[:16]}"})


CLOSING: Final = "runtime.closing"
"""The notification that no new requests are accepted."""
LONG: Final = frozenset({"tools.call", "prompt.send", "prompt.resume"})
"""The operations that last as long as a tool, a model or a person takes."""
OPENING: Final = frozenset({"session.create", "session.resume"})
"""The operations that may declare client tools."""


class Peer:
    """Answers the requests of one client, any number at a time.

    Pass every incoming frame to `receive`, send every frame of `frames`, and `close` the peer when
    the client disconnects. Running calls and prompts continue without it. `unsent` bounds what
    waits for a client that does not read; `on_overflow` then ends its connection.
    """

    def __init__(
        self,
        runtime: Runtime,
        who: Principal = OWNER,
        *,
        max_requests: int = 1_000,
        most_frames: int = 1_000,
        unsent: UnsentFrames | None = None,
        on_overflow: Callable[[], None] | None = None,
    ) -> None:
        self.runtime = runtime
        self.who = who
        self._outbox = Outbox(
            most_frames=most_frames,
            most_chars=2 * runtime.config.max_payload_bytes,
            unsent=unsent,
            on_overflow=on_overflow,
        )
        self.subscriptions = Subscriptions(self._outbox)
        self.client_requests = ClientRequests(self._outbox)
        self._max_requests = max_requests
        self._in_flight: dict[RequestId, Request] = {}
        self._quick: set[asyncio.Task[None]] = set()
        self._long: set[asyncio.Task[None]] = set()

    async def receive(self, frame: str | bytes) -> None:
        """Handle one frame, valid or not. Returns when the next one may come: at once, unless the
        client does not read its answers.
        """
        message = read_message(frame, self.runtime.config.max_payload_bytes)
        try:
            self.runtime.quotas.take_bytes(self.who, len(frame))
        except Refused as refused:
            if isinstance(message, Request):
                self._outbox.put(refusal_frame(message.id, refused))
        else:
            self._take(message)
        await self._outbox.room()
        while len(self._quick) >= self._max_requests:
            await asyncio.wait(self._quick, return_when=asyncio.FIRST_COMPLETED)

    def frames(self) -> AsyncIterator[str]:
        """Yield the frames to send; ends after `close`."""
        return self._outbox.frames()

    async def attach(self, session_id: str) -> None:
        """Have this client run the client tools of a session, in place of any other client."""
        await self.client_requests.attach(session_id, self.runtime.service, self.who)

    def notify_closing(self) -> None:
        """Notify the client that no new requests are accepted."""
        self._outbox.put(notification_frame(CLOSING, {}))

    def end_input(self) -> None:
        """The client has ended its input; its open requests are still answered."""
        self.client_requests.disconnect()

    async def drain(self, seconds: float) -> None:
        """Wait until all requests are answered, at most `seconds`."""
        if tasks := self._quick | self._long:
            await asyncio.wait(tasks, timeout=seconds)

    def close(self) -> None:
        """The client has disconnected. Its calls and prompts continue, unanswered."""
        self.client_requests.disconnect()
        self.subscriptions.close()
        self._outbox.close()

    def abandon(self) -> None:
        """Close the peer, and drop what was not sent: the connection is gone."""
        self.close()
        self._outbox.discard()

    async def cancel(self, request_id: RequestId) -> bool:
        """Cancel a request: its call or prompt is cancelled, other work ends by itself. False when
        no request of that id is in flight.
        """
        request = self._in_flight.get(request_id)
        if request is None:
            return False
        how = cancel_operation(request.method, request.params or {}, self.runtime.config.when_busy)
        if how is not None:
            await self.runtime.ask(how.method, how.params, self.who)
            return True
        del self._in_flight[request.id]
        self._outbox.put(error_frame(request.id, CANCELLED, "the request was cancelled"))
        return True

    def _take(self, message: Message) -> None:
        match message:
            case Malformed(code, text, request_id):
                self._outbox.put(error_frame(request_id, code, text))
            case Response():
                self.client_requests.receive_response(message)
            case Notification():
                # A notification has no answer, so it cannot be refused.
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
            # An error under this id would be taken for the answer to the other request.
            text = f"request id {request_id!r} is in use; use another one"
            return error_frame(None, INVALID_REQUEST, text)
        if method not in OPERATIONS and method not in PEER_METHODS:
            return error_frame(request_id, METHOD_NOT_FOUND, f"there is no method {method[:80]!r}")
        if self._is_full_for(method):
            text = f"{len(self._long)} calls and prompts are in flight; wait for some to end"
            return refusal_frame(request_id, Refused("unavailable", text))
        return None

    def _is_full_for(self, method: str) -> bool:
        return method in LONG and len(self._long) >= self._max_requests

    def _begin(self, message: Request | Notification) -> None:
        if message.method in OPERATIONS or message.method in PEER_METHODS:
            task = asyncio.ensure_future(self._do(message))
            tasks = self._long if message.method in LONG else self._quick
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    async def _do(self, message: Request | Notification) -> None:
        """Run a request and queue its answer at once, so that events after it come after it."""
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
            self.who.check(own.roles, name)
            return await own.run(self, own.read(params))
        # In this task, which is never cancelled, not even when the client disconnects.
        result = await self.runtime.ask_inline(name, params, self.who)
        if name in OPENING and (params or {}).get("client_tools"):
            await self.attach(result.session_id)
        return result

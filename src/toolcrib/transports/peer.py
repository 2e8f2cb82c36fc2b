"""One client of a runtime that speaks JSON-RPC: text frames in, text frames out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Final

from toolcrib.errors import Refused
from toolcrib.runtime.operations import OPERATIONS
from toolcrib.runtime.principal import OWNER
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
from toolcrib.transports.peer_client import Asked
from toolcrib.transports.peer_events import Following
from toolcrib.transports.peer_methods import PEER_METHODS, cancelling, with_call_id
from toolcrib.transports.peer_outbox import Outbox
from toolcrib.transports.refusals import as_refused

if TYPE_CHECKING:
    from toolcrib.runtime.principal import Principal
    from toolcrib.runtime.runtime import Runtime

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
        self.following = Following(self._outbox)
        self.asked = Asked(self._outbox)
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
        self.asked.attach(session_id, self.runtime.service, self.who)

    def say_closing(self) -> None:
        """Tell the client that nothing new is taken."""
        self._outbox.put(notification_frame(CLOSING, {}))

    def hang_up(self) -> None:
        """The client sends no more; what it has asked is still answered."""
        self.asked.gone()

    async def drain(self, seconds: float) -> None:
        """Wait until all that was asked is answered, or for `seconds`."""
        if tasks := self._quick | self._long:
            await asyncio.wait(tasks, timeout=seconds)

    def close(self) -> None:
        """The client is gone. What it has begun goes on, and is answered to nobody."""
        self.asked.gone()
        self.following.close()
        self._outbox.close()

    async def cancel(self, request_id: RequestId) -> bool:
        """Give up a request: its call or prompt is cancelled, other work is left to end alone.
        False when nothing of that id is in flight.
        """
        request = self._in_flight.get(request_id)
        if request is None:
            return False
        how = cancelling(request.method, request.params or {}, self.runtime.config.when_busy)
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
                self.asked.answered(message)
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
        result = await self.runtime.ask_here(name, params, self.who)
        if name in OPENING and (params or {}).get("client_tools"):
            self.attach(result.session_id)
        return result

"""The HTTP endpoints of front ends."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING, Any

from toolcrib.errors import Refused
from toolcrib.serving.auth import headers_of, principal_of
from toolcrib.serving.refusals import as_bytes, as_refused, send_json, send_refusal
from toolcrib.transports.http.endpoint import ignore_bytes, query_of, read_json
from toolcrib.transports.http.frontends.ag_ui_events import AgUiEncoding
from toolcrib.transports.http.frontends.ag_ui_input import ag_ui_history, read_run
from toolcrib.transports.http.frontends.chat_history import past_turns
from toolcrib.transports.http.frontends.chat_turns import ChatTurns
from toolcrib.transports.http.frontends.frames import FrameStream
from toolcrib.transports.http.frontends.running_turn import StreamEnd
from toolcrib.transports.http.frontends.ui_chunks import UiEncoding
from toolcrib.transports.http.frontends.ui_history import ui_history
from toolcrib.transports.http.frontends.ui_messages import read_ui_request

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from toolcrib.runtime.principal import Principal
    from toolcrib.runtime.runtime import Runtime
    from toolcrib.transports.http.connections import Connections
    from toolcrib.transports.http.frontends.chat_history import PastTurn
    from toolcrib.transports.http.frontends.frames import Encoding
    from toolcrib.transports.http.frontends.running_turn import RunningTurn
    from toolcrib.transports.http.frontends.turn_parts import TurnPart


class Frontends:
    """What the endpoints of front ends share: the runtime, and the turns that run."""

    def __init__(self, runtime: Runtime, connections: Connections) -> None:
        self.runtime = runtime
        self.connections = connections
        self._running: dict[str, RunningTurn] = {}

    def turns(self, who: Principal) -> ChatTurns:
        """The turns of a principal's chats."""
        return ChatTurns(self.runtime, who, self._running, self.connections.heartbeat)

    async def read(self, scope: Scope, receive: Receive, who: Principal) -> dict[str, Any]:
        """The body of a request. Raises `Refused`."""
        if query_of(scope):
            raise Refused("invalid", "send the parameters of a POST in its body, not in the URL")
        quota = self.runtime.quotas.of(who)
        on_bytes = ignore_bytes if quota is None else quota.take_bytes
        limit = self.runtime.config.max_payload_bytes
        return await read_json(receive, headers_of(scope), limit, on_bytes)

    async def stream(
        self,
        parts: AsyncGenerator[TurnPart | str],
        end: StreamEnd,
        encoding: Encoding,
        receive: Receive,
        send: Send,
    ) -> None:
        """Send a turn until it is over or the client disconnects; the turn goes on then."""
        async with self.connections.open_reader(_Draining(), receive) as disconnected:
            disconnected.add_done_callback(lambda _: end.close())
            stream = FrameStream(send, encoding)
            await stream.run(parts, "the chat", disconnected.done)


class _Draining:
    """A stream that a server which closes lets run to its end, for as long as it drains."""

    def close(self) -> None:
        """Go on: the end of the turn ends the stream."""


class UiStreamEndpoint:
    """Answers a request of the Vercel AI SDK's chat with its UI message stream. An ASGI
    application.
    """

    def __init__(self, frontends: Frontends) -> None:
        self._frontends = frontends

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        frontends, who, end = self._frontends, principal_of(scope), StreamEnd()
        try:
            request = read_ui_request(await frontends.read(scope, receive, who))
        except Exception as error:
            await send_refusal(send, as_refused(error, "ui.send"))
            return
        parts = frontends.turns(who).answer(request, end)
        await frontends.stream(parts, end, UiEncoding(), receive, send)


class UiResumeEndpoint:
    """Sends the turn that runs in a chat again, from its start; 204 when none runs. An ASGI
    application.
    """

    def __init__(self, frontends: Frontends) -> None:
        self._frontends = frontends

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        frontends, who, end = self._frontends, principal_of(scope), StreamEnd()
        try:
            _no_query(scope)
            parts = await frontends.turns(who).again(scope["path_params"]["chat_id"], end)
        except Exception as error:
            await send_refusal(send, as_refused(error, "ui.resume"))
            return
        if parts is None:
            await send({"type": "http.response.start", "status": 204, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        await frontends.stream(parts, end, UiEncoding(), receive, send)


class AgUiEndpoint:
    """Answers a run of an AG-UI client with its events. An ASGI application."""

    def __init__(self, frontends: Frontends) -> None:
        self._frontends = frontends

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        frontends, who, end = self._frontends, principal_of(scope), StreamEnd()
        try:
            run, request = read_run(await frontends.read(scope, receive, who))
        except Exception as error:
            await send_refusal(send, as_refused(error, "ag_ui.run"))
            return
        parts = frontends.turns(who).answer(request, end)
        encoding = AgUiEncoding(run.thread_id, run.run_id)
        await frontends.stream(parts, end, encoding, receive, send)


class MessagesEndpoint:
    """Answers with the last turns of a chat, as `write` makes messages of them. An ASGI
    application.
    """

    def __init__(
        self, frontends: Frontends, write: Callable[[list[PastTurn]], list[dict[str, Any]]]
    ) -> None:
        self._frontends = frontends
        self._write = write

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        who = principal_of(scope)
        try:
            _no_query(scope)
            chat_id = scope["path_params"]["chat_id"]
            turns = await past_turns(self._frontends.runtime, chat_id, who)
            body = as_bytes({"messages": self._write(turns)})
        except Exception as error:
            await send_refusal(send, as_refused(error, "the messages of a chat"))
            return
        await send_json(send, 200, body)


def ui_messages_endpoint(frontends: Frontends) -> MessagesEndpoint:
    """The last turns of a chat as messages of the Vercel AI SDK."""
    return MessagesEndpoint(frontends, ui_history)


def ag_ui_messages_endpoint(frontends: Frontends) -> MessagesEndpoint:
    """The last turns of a thread as messages of AG-UI."""
    return MessagesEndpoint(frontends, ag_ui_history)


def _no_query(scope: Scope) -> None:
    if query_of(scope):
        raise Refused("invalid", "this path takes no parameters in the query; leave them out")

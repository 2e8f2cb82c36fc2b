"""MCP clients of the handshake protocol on replicas: whoever initialised at one is answered by all.

What a client said when it initialised is a shared value. A replica that gets a request of a client
that it does not know plays that beginning again to the SDK, whose session then has another id here:
ids are translated on the way in and out. A client that ends its session ends it everywhere. What it
answers to a request of another replica is forwarded there.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final, cast

from mcp_types import InitializeRequestParams, LoggingLevel
from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as validated_dataclass

from toolcrib.errors import StoreError
from toolcrib.runtime.client_answers import ForwardedAnswer
from toolcrib.store.shared_store import Hint, SharedValue
from toolcrib.store.store import ask_store

if TYPE_CHECKING:
    from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
    from mcp.server.context import ServerRequestContext
    from starlette.types import Message, Receive, Scope, Send

    from toolcrib.runtime.client_answers import ClientAnswers
    from toolcrib.store.shared_store import SharedStore

    Application = Callable[[Scope, Receive, Send], Awaitable[None]]

_log = logging.getLogger(__name__)

_PREFIX: Final = "mcp/"
_ID_HEADER: Final = b"mcp-session-id"
_CLIENT: Final = "toolcrib.mcp_client"
_LONGEST_ID: Final = 100
_NOT_FOUND: Final = 404
_ACCEPT: Final = b"application/json, text/event-stream"
_NAMED: Final = re.compile(rb"[0-9a-f]{16}-[0-9a-f]{16}")
_INITIALIZED: Final = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'


@validated_dataclass(frozen=True, slots=True, config=ConfigDict(extra="forbid"))
class KeptClient:
    """What replicas know of a client that has initialised."""

    name: str
    standing: str
    """The principal, and what tells principals of one name apart."""
    params: dict[str, Any]
    """The parameters of `initialize`."""
    log_level: LoggingLevel | None = None


_KEPT: Final = TypeAdapter(KeptClient)


class SharedClient:
    """A client in one of its requests."""

    def __init__(
        self, store: SharedStore, session_id: str, kept: KeptClient, asked: dict[str, str]
    ) -> None:
        self._store = store
        self.session_id = session_id
        self.kept = kept
        self._asked = asked

    @contextmanager
    def open_request(self) -> Generator[str]:
        """The id for a request to the client, which names this replica; answers are taken until the
        end.
        """
        request_id = f"{self._store.replica_id}-{token_hex(8)}"
        self._asked[request_id] = self.session_id
        try:
            yield request_id
        finally:
            del self._asked[request_id]

    async def set_log_level(self, level: LoggingLevel) -> None:
        """Keep the level that the client wants, at whichever replica."""
        self.kept = replace(self.kept, log_level=level)
        name = f"{_PREFIX}{self.session_id}"

        def save() -> None:
            while (value := self._store.value(name)) is not None:
                kept = replace(_KEPT.validate_json(value.body), log_level=level)
                later = replace(value, body=_body(kept), version=value.version + 1)
                if self._store.put_value(later, after=value.version):
                    return

        await ask_store(self._store, save)

    async def has_ended(self) -> bool:
        """Whether the client has ended its session, or has not used it for too long. False where
        nobody can tell: another replica may go on with it.
        """
        name = f"{_PREFIX}{self.session_id}"
        try:
            return await ask_store(self._store, self._store.value, name) is None
        except StoreError:
            return False


def shared_client_of(ctx: ServerRequestContext[Any, Any]) -> SharedClient | None:
    """The client of a request that any replica answers; None where there is but one server."""
    return None if ctx.request is None else ctx.request.scope.get(_CLIENT)


@dataclass(frozen=True, slots=True)
class _Copy:
    """The session of the SDK that stands for a client here."""

    session_id: str
    user: AuthenticatedUser


class SharedClients:
    """Passes requests of the handshake protocol on to `streams`, the application of the SDK."""

    def __init__(
        self,
        store: SharedStore,
        streams: Application,
        idle_seconds: float,
        answers: ClientAnswers,
    ) -> None:
        self._store = store
        self._streams = streams
        self._idle_seconds = idle_seconds
        self._answers = answers
        self._asked: dict[str, str] = {}
        """The clients that were asked here and have not answered, by request."""
        self._copies: dict[str, _Copy] = {}
        self._beginnings: dict[str, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._unhear: Callable[[], None] | None = None

    def start(self) -> None:
        """Listen for clients that end their sessions at other replicas."""
        loop = asyncio.get_running_loop()

        def hear(hint: Hint) -> None:
            session_id = hint.subject.removeprefix(_PREFIX)
            if hint.topic == "value" and session_id in self._copies:
                with suppress(RuntimeError):
                    loop.call_soon_threadsafe(self._spawn, self._end_if_gone(session_id))

        self._unhear = self._store.on_hint(hear)
        self._answers.taker = self

    def close(self) -> None:
        """Stop listening."""
        if self._unhear is not None:
            self._unhear()
        if self._answers.taker is self:
            self._answers.taker = None
        for task in self._tasks:
            task.cancel()

    async def answer(self, scope: Scope, body: bytes | None, receive: Receive, send: Send) -> None:
        """Answer one request, whose body was read if it has one."""
        session_id = _header(scope, _ID_HEADER)
        if session_id is None:
            opening = _Opening(self, scope, body or b"", send)
            await self._streams(scope, _replayed(body, receive), opening.send)
            return
        value = await self._value(session_id)
        kept = None if value is None else _read(value)
        if value is None or kept is None or (kept.name, kept.standing) != _user_key(scope):
            if value is None:
                await self._end(session_id)
            # The SDK's answer for a session that it does not have.
            await self._pass_on(scope, "none", body, receive, send)
            return
        scope[_CLIENT] = SharedClient(self._store, session_id, kept, self._asked)
        if scope["method"] == "DELETE":
            await ask_store(self._store, self._store.delete_value, value.name)
            self._store.hint(Hint("value", value.name))
            await self._begin_again(session_id, kept, scope)
            await self._answer_known(session_id, scope, body, receive, send)
            self._copies.pop(session_id, None)
            return
        self._touch(value)
        await self._forward(session_id, kept, body)
        watching = self._watch(session_id) if scope["method"] == "GET" else None
        try:
            for is_last in (False, True):
                await self._begin_again(session_id, kept, scope)
                # A copy that was idle here has ended, while the client was busy elsewhere.
                if await self._answer_known(
                    session_id, scope, body, receive, send, may_be_gone=not is_last
                ):
                    return
        finally:
            if watching is not None:
                watching.cancel()

    async def opened(self, session_id: str, scope: Scope, params: dict[str, Any]) -> None:
        """Keep a client that has just initialised here, before it hears of it."""
        name, standing = _user_key(scope)
        kept = KeptClient(name, standing, params)
        value = SharedValue(
            f"{_PREFIX}{session_id}", _body(kept), expires_at=time.time() + self._idle_seconds
        )
        await ask_store(self._store, lambda: self._store.put_value(value, after=None))
        self._copies[session_id] = _Copy(session_id, scope["user"])

    async def take_answer(self, answer: ForwardedAnswer) -> bool:
        """Give the SDK an answer that came to another replica, if the client was asked here."""
        copy = self._copies.get(answer.client_id)
        if copy is None or self._asked.get(answer.request_id) != answer.client_id:
            return False
        if _user_key({"user": copy.user}) != (answer.name, answer.standing):
            return False
        if _answered(answer.message.encode()) != answer.request_id:
            return False
        scope: Any = {
            "type": "http",
            "path": "/",
            "query_string": b"",
            "headers": [],
            "user": copy.user,
        }
        played = await self._play(scope, copy.session_id, answer.message.encode())
        return played.status < 400

    async def _forward(self, session_id: str, kept: KeptClient, body: bytes | None) -> None:
        """Forward an answer to the replica that asked, unless that is this one."""
        request_id = None if body is None else _answered(body)
        if body is None or request_id is None or request_id in self._asked:
            return
        replica_id = request_id.partition("-")[0]
        if replica_id == self._store.replica_id:
            return
        answer = ForwardedAnswer(session_id, kept.name, kept.standing, request_id, body.decode())
        await self._answers.forward(self._store, replica_id, answer)

    async def _value(self, session_id: str) -> SharedValue | None:
        if len(session_id) > _LONGEST_ID or not session_id.isalnum():
            return None
        return await ask_store(self._store, self._store.value, f"{_PREFIX}{session_id}")

    async def _begin_again(self, session_id: str, kept: KeptClient, scope: Scope) -> None:
        """Have a session of the SDK here for a client that began elsewhere."""
        while session_id not in self._copies:
            beginning = self._beginnings.get(session_id)
            if beginning is None:
                beginning = asyncio.ensure_future(self._begin(session_id, kept, scope))
                self._beginnings[session_id] = beginning
                beginning.add_done_callback(lambda _: self._beginnings.pop(session_id, None))
            await asyncio.shield(beginning)

    async def _begin(self, session_id: str, kept: KeptClient, scope: Scope) -> None:
        request = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": kept.params}
        answer = await self._play(scope, None, json.dumps(request).encode())
        own_id = answer.session_id
        if answer.status >= 400 or own_id is None:
            raise StoreError("this replica has no room for another MCP client; try again later")
        await self._play(scope, own_id, _INITIALIZED)
        self._copies[session_id] = _Copy(own_id, scope["user"])

    async def _play(self, scope: Scope, own_id: str | None, body: bytes) -> _Answer:
        """Send a message to the SDK in the name of the client."""
        own = {_ID_HEADER, b"content-type", b"accept", b"content-length", b"last-event-id"}
        headers = [(name, value) for name, value in scope["headers"] if name not in own]
        headers += [(b"content-type", b"application/json"), (b"accept", _ACCEPT)]
        if own_id is not None:
            headers.append((_ID_HEADER, own_id.encode()))
        played = {**scope, "method": "POST", "headers": headers}
        answer = _Answer()
        await self._streams(played, _replayed(body, _never), answer.send)
        return answer

    async def _answer_known(
        self,
        session_id: str,
        scope: Scope,
        body: bytes | None,
        receive: Receive,
        send: Send,
        *,
        may_be_gone: bool = False,
    ) -> bool:
        """Pass a request on to the copy of its client; False when that is gone."""
        copy = self._copies[session_id]
        is_gone = False

        async def translate(message: Message) -> None:
            nonlocal is_gone
            if message["type"] == "http.response.start":
                is_gone = message["status"] == _NOT_FOUND and may_be_gone
                headers = [
                    (name, session_id.encode() if name.lower() == _ID_HEADER else text)
                    for name, text in message.get("headers", ())
                ]
                message = {**message, "headers": headers}
            if not is_gone:
                await send(message)

        await self._pass_on(scope, copy.session_id, body, receive, translate)
        if is_gone and self._copies.get(session_id) is copy:
            del self._copies[session_id]
        return not is_gone

    async def _pass_on(
        self, scope: Scope, own_id: str, body: bytes | None, receive: Receive, send: Send
    ) -> None:
        headers = [
            (name, own_id.encode() if name == _ID_HEADER else value)
            for name, value in scope["headers"]
        ]
        await self._streams({**scope, "headers": headers}, _replayed(body, receive), send)

    def _touch(self, value: SharedValue) -> None:
        """Put off the expiry of a client that is there, not with every request."""
        now = time.time()
        if (value.expires_at or 0.0) - now < 0.75 * self._idle_seconds:
            later = replace(value, version=value.version + 1, expires_at=now + self._idle_seconds)
            put = ask_store(self._store, lambda: self._store.put_value(later, after=value.version))
            self._spawn(put)

    def _watch(self, session_id: str) -> asyncio.Task[None]:
        """Keep a client that only listens."""

        async def watch() -> None:
            while True:
                await asyncio.sleep(self._idle_seconds / 3)
                with suppress(StoreError):
                    value = await self._value(session_id)
                    if value is not None:
                        self._touch(value)

        return asyncio.ensure_future(watch())

    async def _end_if_gone(self, session_id: str) -> None:
        if await self._value(session_id) is None:
            await self._end(session_id)

    async def _end(self, session_id: str) -> None:
        """End the copy of a client that has ended its session elsewhere."""
        copy = self._copies.pop(session_id, None)
        if copy is None:
            return
        scope = {
            "type": "http",
            "method": "DELETE",
            "path": "/",
            "query_string": b"",
            "headers": [(_ID_HEADER, copy.session_id.encode()), (b"accept", _ACCEPT)],
            "user": copy.user,
        }
        await self._streams(cast("Any", scope), _replayed(b"", _never), _Answer().send)

    def _spawn(self, work: Awaitable[Any]) -> None:
        async def run() -> None:
            try:
                await work
            except StoreError as error:
                _log.warning("a client of MCP was not kept: %s", error)

        task = asyncio.ensure_future(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class _Opening:
    """The answer to a request without a session, which may open one."""

    def __init__(self, clients: SharedClients, scope: Scope, body: bytes, send: Send) -> None:
        self._clients = clients
        self._scope = scope
        self._params = _initialize_params(body)
        self._send = send

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] < 400:
            session_id = _header({"headers": message.get("headers", ())}, _ID_HEADER)
            if session_id is not None and self._params is not None:
                await self._clients.opened(session_id, self._scope, self._params)
        await self._send(message)


class _Answer:
    """What the SDK answers to a message that is played to it."""

    def __init__(self) -> None:
        self.status = 500
        self.session_id: str | None = None

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.session_id = _header({"headers": message.get("headers", ())}, _ID_HEADER)


def _initialize_params(body: bytes) -> dict[str, Any] | None:
    """The parameters of an `initialize`; None for anything else."""
    try:
        message = json.loads(body)
        if message["method"] != "initialize":
            return None
        params = InitializeRequestParams.model_validate(message["params"], by_name=False)
    except (ValueError, TypeError, KeyError, ValidationError, RecursionError):
        return None
    return params.model_dump(mode="json", by_alias=True, exclude_none=True)


def _answered(body: bytes) -> str | None:
    """The request that a message answers, or tells the progress of, if its id names a replica."""
    if _NAMED.search(body) is None:
        return None
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        return None
    match message:
        case {"method": "notifications/progress", "params": {"progressToken": str(named)}}:
            pass
        case {"method": _}:
            return None
        case {"id": str(named), "result": _} | {"id": str(named), "error": _}:
            pass
        case _:
            return None
    return named if _NAMED.fullmatch(named.encode()) else None


def _body(kept: KeptClient) -> bytes:
    return json.dumps(asdict(kept)).encode()


def _read(value: SharedValue) -> KeptClient | None:
    try:
        return _KEPT.validate_json(value.body)
    except ValidationError:
        _log.warning("the MCP client of %s was kept by another version", value.name[:20])
        return None


def _user_key(scope: Scope) -> tuple[str, str]:
    token = scope["user"].access_token
    return token.client_id, token.subject or ""


def _header(scope: Any, wanted: bytes) -> str | None:
    return next(
        (value.decode("latin-1") for name, value in scope["headers"] if name.lower() == wanted),
        None,
    )


def _replayed(body: bytes | None, receive: Receive) -> Receive:
    if body is None:
        return receive
    first = [body]

    async def replay() -> Message:
        if first:
            return {"type": "http.request", "body": first.pop(), "more_body": False}
        return await receive()

    return replay


async def _never() -> Message:
    await asyncio.Event().wait()
    raise AssertionError

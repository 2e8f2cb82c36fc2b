"""The clients that are attached to sessions, to run their client tools.

A connection stays where it is. On a store that replicas share, a session may be open at another
replica than the one that its client is connected to: the store says where the client is, and its
calls are forwarded there.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json, to_json

from toolcrib.errors import (
    AnswerLost,
    ClientFailed,
    ClientGone,
    Refused,
    ReplicaUnreachable,
    StoreError,
)
from toolcrib.store.shared_store import SharedValue, is_shared
from toolcrib.store.store import ask_store

if TYPE_CHECKING:
    from toolcrib.store.shared_store import Replica, SharedStore
    from toolcrib.store.store import Store

T = TypeVar("T")

LOOK_SECONDS: Final = 2.0
"""How often the store is asked whether the client of a running call is still the one to ask."""
_ATTEMPTS: Final = 10
_GONE: Final = b'{"gone":true}'

_log = logging.getLogger(__name__)


class ClientLink(Protocol):
    """A connection to a client that runs tools, provided by a transport."""

    async def run(self, call_id: str, name: str, arguments: Mapping[str, Any]) -> Any:
        """Have the client run a call. Raises `ClientGone` when it disconnects; any other exception
        is the failure of the tool. Cancelled when the result is no longer needed.
        """
        ...


class ClientCallLink(Protocol):
    """The way to clients that are connected to other replicas, provided by a transport."""

    async def run_client_call(self, replica: Replica, body: bytes) -> bytes:
        """The answer of another replica to a `ForwardedCall`. Cancelling the wait cancels the call.
        Raises `ReplicaUnreachable` and `AnswerLost`.
        """
        ...


@dataclass(frozen=True, slots=True)
class ClientPlace:
    """Where the client of a session is connected."""

    replica_id: str
    link_id: str
    """Which of its connections."""
    who: str
    """The principal that attached the client."""
    tools_of: str | None
    """The principal whose tools it was attached for; None when there were none yet."""
    takes_over: bool = False
    """Whether it goes on with the calls that run at the client before it, as a front end does whose
    next request comes to another replica.
    """

    def serves(self, owner: str | None) -> bool:
        """Whether it may run the client tools of this principal."""
        return owner is None or owner in (self.who, self.tools_of)


@dataclass(frozen=True, slots=True)
class ForwardedCall:
    """A call on its way to the replica that its client is connected to."""

    session_id: str
    link_id: str
    call_id: str
    name: str
    arguments: dict[str, Any]

    @classmethod
    def read(cls, body: bytes) -> ForwardedCall:
        """What another replica wrote. Raises `Refused` (invalid)."""
        try:
            return _adapter(cls).validate_json(body)
        except ValidationError:
            raise Refused("invalid", "this is not a forwarded call") from None


class AttachedClient(Protocol):
    """The client of a session, connected here or to another replica."""

    place: ClientPlace

    async def run(self, call_id: str, name: str, arguments: Mapping[str, Any]) -> Any:
        """As `ClientLink.run`; it also raises `ClientGone` when another client is attached."""
        ...


class AttachedClients:
    """The clients that are connected to this process, by session, and the way to the others."""

    def __init__(self, store: Store) -> None:
        self._shared = store if is_shared(store) else None
        self._here: dict[str, _LocalClient] = {}
        self.elsewhere: ClientCallLink | None = None
        """How clients at other replicas are reached; without it they are not."""

    def here(self, session_id: str) -> AttachedClient | None:
        """The client of a session that is connected to this process."""
        return self._here.get(session_id)

    async def attach(
        self,
        session_id: str,
        link: ClientLink,
        who: str,
        tools_of: str | None,
        *,
        takes_over: bool = False,
    ) -> Callable[[], None]:
        """Attach a client; returns the function that detaches it. It replaces an earlier one, whose
        running calls fail, or are taken over: at once, or soon if that one is connected to another
        replica.
        """
        replica_id = "" if self._shared is None else self._shared.replica_id
        place = ClientPlace(replica_id, secrets.token_hex(8), who, tools_of, takes_over)
        client = _LocalClient(place, link)
        if self._shared is not None:
            await ask_store(self._shared, _save, self._shared, session_id, place)
        self.detach(session_id)
        self._here[session_id] = client

        def detach() -> None:
            if self._here.get(session_id) is client:
                self.detach(session_id)

        return detach

    def detach(self, session_id: str) -> None:
        """Detach the client that is connected to this process, if there is one. What the store says
        about it may stay: whoever is sent here by it learns that the client is gone.
        """
        client = self._here.pop(session_id, None)
        if client is not None:
            client.close()

    async def find(self, session_id: str) -> AttachedClient | None:
        """The client that was attached to a session last, wherever it is connected."""
        client, shared = self._here.get(session_id), self._shared
        if shared is None:
            return client
        place = await ask_store(shared, _place, shared, session_id)
        if place is None or place.replica_id == shared.replica_id:
            is_last = client is not None and client.place == place
            return client if is_last else None
        return _RemoteClient(self, shared, session_id, place)

    async def is_last(self, session_id: str, link: ClientLink) -> bool:
        """Whether nobody was attached to a session after this client."""
        client = self._here.get(session_id)
        is_here = client is not None and client.is_over(link)
        return is_here and await self.find(session_id) is client

    def replacement(self, session_id: str, client: AttachedClient) -> asyncio.Future[None] | None:
        """Done once another client is attached to a session, or the replica that this one is
        connected to is gone. Cancel it. None on a store that is not shared: `run` tells it there.
        """
        if self._shared is None:
            return None
        return asyncio.ensure_future(_until_replaced(self._shared, session_id, client.place))

    async def run_here(self, call: ForwardedCall) -> bytes:
        """The answer to a call that another replica forwards to a client of this one."""
        client = self._here.get(call.session_id)
        if client is None or client.place.link_id != call.link_id:
            return _GONE
        try:
            value = await client.run(call.call_id, call.name, call.arguments)
        except ClientGone:
            return _GONE
        except Exception as error:
            return to_json({"failed": str(error)})
        return to_json({"result": value}, inf_nan_mode="strings", fallback=str)


class _LocalClient:
    """A client that is connected to this process."""

    def __init__(self, place: ClientPlace, link: ClientLink) -> None:
        self.place = place
        self._link = link
        self._running: set[asyncio.Future[Any]] = set()
        self._is_closed = False

    async def run(self, call_id: str, name: str, arguments: Mapping[str, Any]) -> Any:
        if self._is_closed:
            raise ClientGone
        work = asyncio.ensure_future(self._link.run(call_id, name, arguments))
        self._running.add(work)
        try:
            await asyncio.wait([work])
        finally:
            self._running.discard(work)
            work.cancel()
        if work.cancelled():
            raise ClientGone
        return work.result()

    def is_over(self, link: ClientLink) -> bool:
        """Whether this is its connection."""
        return self._link is link

    def close(self) -> None:
        """Fail the running calls: the client is detached."""
        self._is_closed = True
        for work in tuple(self._running):
            work.cancel()


class _RemoteClient:
    """A client that is connected to another replica."""

    def __init__(
        self, clients: AttachedClients, store: SharedStore, session_id: str, place: ClientPlace
    ) -> None:
        self.place = place
        self._clients = clients
        self._store = store
        self._session_id = session_id

    async def run(self, call_id: str, name: str, arguments: Mapping[str, Any]) -> Any:
        replica, link = await _replica(self._store, self.place.replica_id), self._clients.elsewhere
        if replica is None or replica.address is None or link is None:
            raise ClientGone
        call = ForwardedCall(self._session_id, self.place.link_id, call_id, name, dict(arguments))
        try:
            answer = from_json(await link.run_client_call(replica, to_json(call)))
        except (ReplicaUnreachable, AnswerLost) as error:
            _log.info("the client of %s cannot be asked: %s", self._session_id, error)
            raise ClientGone from None
        match answer:
            case {"result": value}:
                return value
            case {"failed": str(message)}:
                raise ClientFailed(message)
            case _:
                raise ClientGone


def _name(session_id: str) -> str:
    return f"session/{session_id}/link/client"


def _place(store: SharedStore, session_id: str) -> ClientPlace | None:
    saved = store.value(_name(session_id))
    return None if saved is None else _adapter(ClientPlace).validate_json(saved.body)


def _save(store: SharedStore, session_id: str, place: ClientPlace) -> None:
    name, body = _name(session_id), to_json(place)
    for _ in range(_ATTEMPTS):
        saved = store.value(name)
        version = None if saved is None else saved.version
        if store.put_value(SharedValue(name, body, (version or 0) + 1), after=version):
            return
    raise Refused("busy", "other clients attach to this session at the same time; try again")


async def _until_replaced(store: SharedStore, session_id: str, place: ClientPlace) -> None:
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        try:
            now = await ask_store(store, _place, store, session_id)
            if now != place or await _replica(store, place.replica_id) is None:
                return
        except StoreError as error:
            # The lease of the session says for how long it may go on without the store.
            _log.debug("the client of %s was not looked for: %s", session_id, error)


async def _replica(store: SharedStore, replica_id: str) -> Replica | None:
    """The replica, if it is there."""
    all_replicas = await ask_store(store, store.replicas)
    return next((each for each in all_replicas if each.replica_id == replica_id), None)


@cache
def _adapter(kind: type[T]) -> TypeAdapter[T]:
    return TypeAdapter(kind)

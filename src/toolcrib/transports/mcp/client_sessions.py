"""Where a client sits: the session that its calls run in, and who it is."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from hashlib import blake2b
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final

from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from toolcrib.errors import Refused
from toolcrib.mcp_client.sdk_internals import connection_of
from toolcrib.runtime.messages import ListApprovals

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

    from toolcrib.runtime.runtime import Runtime
    from toolcrib.transports.mcp.tool_list import ToolList

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import TYPE_CHECKING, cast

from toolcrib.serving.auth import principal_of

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp_types import ClientCapabilities

    from toolcrib.runtime.principal import Principal
    from toolcrib.runtime.runtime import Runtime
    from toolcrib.transports.mcp.tool_list import ToolList

SESSION_HEADER: Final = "toolcrib-session"
"""The header of HTTP that names the session to work in."""
_SEAT: Final = "toolcrib.seat"
_CAPABILITIES: Final = ("elicitation", "sampling", "roots")
OPEN_STATES: Final = ("pending", "decided")


@dataclass(frozen=True, slots=True)
class PendingCall:
    """A call, and the request for approval that it waits for."""

    call_id: str
    approval_id: str


@dataclass(slots=True, eq=False)
class ClientSession:
    """One session and the principal who calls in it."""

    session_id: str
    who: Principal
    waiting: dict[str, PendingCall] = field(default_factory=dict[str, "PendingCall"])
    """The calls that wait for a decision, by what was called with which arguments."""
    offering: ToolList | None = None
    """The tools as they are told, until they change."""
    abilities: tuple[str, ...] = ()
    """What the client can do."""
    earlier: set[str] = field(default_factory=set[str])
    """What waits in the session of an earlier connection."""
    answering: set[str] = field(default_factory=set[str])
    """The calls that a request of this connection is about right now."""
    is_passing: bool = False
    """Whether the session ends with the connection; what waits in it is then found elsewhere."""


class ClientSessions:
    """Finds the seat of a request. A connection of the handshake protocol has one of its own; the
    stateless protocol has one for each principal and what its client can do, also after a restart.
    """

    def __init__(self, runtime: Runtime, owner: Principal, session: str | None) -> None:
        self._runtime = runtime
        self._owner = owner
        self._session = session
        self._shared: dict[str, Any] = {}
        self._principals: dict[Principal, Principal] = {}
        self._taken: set[ClientSession] = set()

    def __iter__(self) -> Iterator[ClientSession]:
        return iter(tuple(self._taken))

    def who_asks(self, ctx: ServerRequestContext[Any, Any]) -> Principal:
        """The holder of the token over HTTP; on stdio, whoever started the process."""
        if ctx.request is None:
            return self._owner
        principal = principal_of(ctx.request.scope)
        known = self._principals.get(principal)
        if known is None:
            known = self._principals[principal] = replace(principal, transport="mcp")
        return known

    async def of(self, ctx: ServerRequestContext[Any, Any]) -> ClientSession:
        """The seat of a request, taken when it is first needed. Raises `Refused`."""
        places, key = self._place(ctx)
        found = places.get(key)
        if isinstance(found, ClientSession):
            return found
        if found is None:
            if places is not self._shared:
                # Before it is taken: the connection may close meanwhile.
                connection_of(ctx).exit_stack.push_async_callback(self._leave, places, key)
            taking = asyncio.ensure_future(self._take(ctx, places, key))
            places[key] = found = taking
            taking.add_done_callback(lambda done: _forget_failed(places, key, done))
        # Who leaves must not take the seat from others who wait for the same one.
        return await asyncio.shield(found)

    def forget(self, ctx: ServerRequestContext[Any, Any], seat: ClientSession) -> None:
        """The session was closed by somebody else: the next request takes a new seat."""
        places, key = self._place(ctx)
        if places.get(key) is seat:
            del places[key]
        self._taken.discard(seat)

    def _place(self, ctx: ServerRequestContext[Any, Any]) -> tuple[dict[str, Any], str]:
        named = self._named(ctx)
        is_stateless = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        if named is None and not is_stateless:
            return connection_of(ctx).state, _SEAT
        who = self.who_asks(ctx)
        # Two tokens may be of one name; what the one may do, the other may not.
        scopes, abilities = " ".join(sorted(who.scopes)), " ".join(_abilities(ctx))
        return self._shared, f"{named or ''}\n{who.name}\n{scopes}\n{abilities}"

    def _named(self, ctx: ServerRequestContext[Any, Any]) -> str | None:
        named = None if ctx.request is None else ctx.request.headers.get(SESSION_HEADER)
        return named or self._session

    async def _take(
        self, ctx: ServerRequestContext[Any, Any], places: dict[str, Any], key: str
    ) -> ClientSession:
        who, named = self.who_asks(ctx), self._named(ctx)
        asked, abilities = _asked(ctx, who), _abilities(ctx)
        if places is self._shared:
            session_id = named or _id_for(who.name, abilities)
            opened = await self._open(session_id, asked, who, is_named=bool(named))
            seat = ClientSession(opened, who, abilities=abilities)
            await self._recall(seat)
        else:
            session = await self._runtime.ask("session.create", asked, who)
            seat = ClientSession(session.session_id, who, abilities=abilities, is_passing=True)
        places[key] = seat
        self._taken.add(seat)
        return seat

    async def _open(
        self, session_id: str, asked: dict[str, Any], who: Principal, *, is_named: bool
    ) -> str:
        ask = self._runtime.ask
        again = {"session_id": session_id, "capabilities": asked["capabilities"]}
        try:
            await ask("session.resume", again, who)
        except Refused as refused:
            if refused.kind == "not_found":
                await ask("session.create", {"session_id": session_id, **asked}, who)
            elif refused.kind == "conflict" and not is_named:
                # Another process works in it, and will go on to.
                return cast("str", (await ask("session.create", asked, who)).session_id)
            else:
                raise
        return session_id

    async def _recall(self, seat: ClientSession) -> None:
        """Find again what waited in the session before this process."""
        asked = ListApprovals(session_id=seat.session_id, is_all=True)
        inbox = await self._runtime.service.list_approvals(asked, seat.who)
        for each in inbox.approvals:
            call_fingerprint = fingerprint_of(each.call_id)
            if call_fingerprint is not None and each.state in OPEN_STATES:
                seat.waiting[call_fingerprint] = PendingCall(each.call_id, each.approval_id)

    async def _leave(self, places: dict[str, Any], key: str) -> None:
        """The connection is over, and its session with it."""
        found: ClientSession | asyncio.Future[ClientSession] | None = places.get(key)
        with suppress(Refused):
            seat = await found if isinstance(found, asyncio.Future) else found
            if seat is not None:
                self._taken.discard(seat)
                await self._runtime.ask("session.close", {"session_id": seat.session_id}, seat.who)


def _id_for(name: str, abilities: tuple[str, ...]) -> str:
    """The same after every restart."""
    return f"mcp_{sha256(' '.join((name, *abilities)).encode()).hexdigest()[:16]}"


def _asked(ctx: ServerRequestContext[Any, Any], who: Principal) -> dict[str, Any]:
    client = ctx.session.client_params
    facts: dict[str, Any] = {"transport": "mcp", "principal": who.name}
    if client is not None:
        facts["client"] = f"{client.client_info.name} {client.client_info.version}"[:200]
    return {"metadata": facts, "capabilities": list(_abilities(ctx))}


def _abilities(ctx: ServerRequestContext[Any, Any]) -> tuple[str, ...]:
    """What tools may require of a client, in our words."""
    found: ClientCapabilities | None = ctx.session.client_capabilities
    return tuple(each for each in _CAPABILITIES if getattr(found, each, None) is not None)


def _forget_failed(places: dict[str, Any], key: str, done: asyncio.Future[ClientSession]) -> None:
    if places.get(key) is done:
        del places[key]
    if not done.cancelled():
        # Whoever asked may have left; then nobody else hears of it.
        done.exception()


_encode: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode


_OURS: Final = re.compile(r"call_([0-9a-f]{16})[0-9a-f]{16}")


def call_fingerprint(name: str, arguments: Mapping[str, Any]) -> str:
    """The same for every call of a tool with the same arguments, in whichever order they come."""
    return blake2b(_encode([name, arguments]).encode(), digest_size=8).hexdigest()


def new_call_id(call_fingerprint: str) -> str:
    """An id that no other call has."""
    return f"call_{call_fingerprint}{token_hex(8)}"


def fingerprint_of(call_id: str) -> str | None:
    """What an id was made for; None when it is not one of ours."""
    found = _OURS.fullmatch(call_id)
    return found[1] if found else None

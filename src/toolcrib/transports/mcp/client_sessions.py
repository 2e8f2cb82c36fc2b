"""The session that the calls of an MCP client run in, and the principal of the client."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from hashlib import blake2b, sha256
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final, cast

from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from toolcrib.errors import Refused
from toolcrib.mcp_client.sdk_internals import connection_of
from toolcrib.runtime.approval_messages import ListApprovals
from toolcrib.runtime.approval_operations import every_approval
from toolcrib.runtime.ownership import may_choose, namespace_of
from toolcrib.runtime.principal import OWNER
from toolcrib.transports.mcp.shared_clients import shared_client_of
from toolcrib.transports.mcp.task import CAPABILITY, declares_tasks

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp_types import ClientCapabilities

    from toolcrib.runtime.principal import Principal
    from toolcrib.runtime.runtime import Runtime
    from toolcrib.transports.mcp.shared_clients import SharedClient
    from toolcrib.transports.mcp.tool_list import ToolList

SESSION_HEADER: Final = "toolcrib-session"
"""The HTTP header that names the session for the calls of a request."""
_CLIENT_SESSION: Final = "toolcrib.client_session"
_CAPABILITIES: Final = ("elicitation", "sampling", "roots")
OPEN_STATES: Final = ("pending", "decided")


@dataclass(frozen=True, slots=True)
class PendingCall:
    """A call that waits, and its approval request."""

    call_id: str
    approval_id: str


@dataclass(slots=True, eq=False)
class ClientSession:
    """A session and the principal that calls in it."""

    session_id: str
    who: Principal
    waiting: dict[str, PendingCall] = field(default_factory=dict[str, "PendingCall"])
    """The calls that wait for a decision, by fingerprint."""
    tool_list: ToolList | None = None
    """The tools of the session as MCP lists them, until they change."""
    capabilities: tuple[str, ...] = ()
    """The capabilities of the client that tools may require."""
    pending_earlier: set[str] = field(default_factory=set[str])
    """The fingerprints of calls that wait in the session of an earlier connection."""
    answering: set[str] = field(default_factory=set[str])
    """The fingerprints of the calls that this connection requests right now."""
    ends_with_connection: bool = False
    """Whether the session ends with the connection; its waiting calls are then entry by another."""
    is_shared: bool = False
    """Whether the client may call at other replicas too, so that calls wait which it made there."""


class ClientSessions:
    """The client sessions of a server. A connection of the handshake protocol has its own; in the
    stateless protocol there is one for each principal and set of capabilities, across restarts.
    """

    def __init__(self, runtime: Runtime, owner: Principal, session: str | None) -> None:
        self._runtime = runtime
        self._owner = owner
        self._session = session
        self._shared: dict[str, Any] = {}
        self._principals: dict[Principal, Principal] = {}
        self._open_sessions: set[ClientSession] = set()

    def __iter__(self) -> Iterator[ClientSession]:
        return iter(tuple(self._open_sessions))

    def principal_of_request(self, ctx: ServerRequestContext[Any, Any]) -> Principal:
        """The holder of the token over HTTP; on stdio, the principal that started the process."""
        if ctx.request is None:
            return self._owner
        # Only HTTP loads the authentication.
        from toolcrib.serving.auth import principal_of

        principal = principal_of(ctx.request.scope)
        known = self._principals.get(principal)
        if known is None:
            known = self._principals[principal] = replace(principal, transport="mcp")
        return known

    async def of(self, ctx: ServerRequestContext[Any, Any]) -> ClientSession:
        """The client session of a request, opened with the first request. Raises `Refused`."""
        sessions, key = self._locate(ctx)
        entry = sessions.get(key)
        if isinstance(entry, ClientSession):
            return entry
        if entry is None:
            if sessions is not self._shared:
                # Before the session opens: the connection may close meanwhile.
                stack, shared = connection_of(ctx).exit_stack, shared_client_of(ctx)
                stack.push_async_callback(self._close, sessions, key, shared)
            opening = asyncio.ensure_future(self._open_client(ctx, sessions, key))
            sessions[key] = entry = opening
            opening.add_done_callback(lambda done: _forget_failed(sessions, key, done))
        # Cancelling one request must not cancel the opening that other requests wait for.
        return await asyncio.shield(entry)

    def forget(self, ctx: ServerRequestContext[Any, Any], client: ClientSession) -> None:
        """Forget a session that was closed elsewhere: the next request opens a new one."""
        sessions, key = self._locate(ctx)
        if sessions.get(key) is client:
            del sessions[key]
        self._open_sessions.discard(client)

    def _locate(self, ctx: ServerRequestContext[Any, Any]) -> tuple[dict[str, Any], str]:
        named = self._named(ctx)
        is_stateless = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        if named is None and not is_stateless:
            return connection_of(ctx).state, _CLIENT_SESSION
        who = self.principal_of_request(ctx)
        # Two tokens may have one name and different roles; they do not share a session.
        capabilities = " ".join(_capabilities(ctx))
        return self._shared, f"{named or ''}\n{who.name}\n{standing_of(who)}\n{capabilities}"

    def _named(self, ctx: ServerRequestContext[Any, Any]) -> str | None:
        named = None if ctx.request is None else ctx.request.headers.get(SESSION_HEADER)
        return named or self._session

    async def _open_client(
        self, ctx: ServerRequestContext[Any, Any], sessions: dict[str, Any], key: str
    ) -> ClientSession:
        who, named = self.principal_of_request(ctx), self._named(ctx)
        params, capabilities = _session_params(ctx, who), _capabilities(ctx)
        if sessions is self._shared:
            session_id = named or _id_for(who.name, capabilities)
            opener = who
            if named is not None and named == self._session:
                # The host has chosen this session for all its clients, so it is the host's.
                self._runtime.service.share(named)
                opener = replace(OWNER, transport="mcp")
            opened = await self._open(session_id, params, opener, is_named=bool(named))
            client = ClientSession(opened, who, capabilities=capabilities)
            await self.find_pending(client)
        else:
            shared = shared_client_of(ctx)
            if shared is not None:
                # By this key every replica finds the one session of the client.
                params["idempotency_key"] = f"mcp {shared.session_id}"
            session = await self._runtime.ask("session.create", params, who)
            client = ClientSession(
                session.session_id,
                who,
                capabilities=capabilities,
                ends_with_connection=True,
                is_shared=shared is not None,
            )
        sessions[key] = client
        self._open_sessions.add(client)
        return client

    async def _open(
        self, session_id: str, params: dict[str, Any], who: Principal, *, is_named: bool
    ) -> str:
        ask = self._runtime.ask
        again = {"session_id": session_id, "capabilities": params["capabilities"]}
        try:
            await ask("session.resume", again, who)
        except Refused as refused:
            if refused.kind == "not_found":
                if not may_choose(session_id, who):
                    # The same answer for a session of somebody else and for none.
                    raise
                await ask("session.create", {"session_id": session_id, **params}, who)
            elif refused.kind == "conflict" and not is_named:
                # Another process has the session open, and will keep it.
                return cast("str", (await ask("session.create", params, who)).session_id)
            else:
                raise
        return session_id

    async def find_pending(self, client: ClientSession) -> None:
        """Find the calls that wait in the session since an earlier process, or by another one."""
        params = ListApprovals(session_id=client.session_id, is_all=True)
        listing = self._runtime.service.list_approvals
        async for approval in every_approval(listing, params, client.who):
            fingerprint = fingerprint_of(approval.call_id)
            if fingerprint is not None and approval.state in OPEN_STATES:
                client.waiting[fingerprint] = PendingCall(approval.call_id, approval.approval_id)

    async def _close(self, sessions: dict[str, Any], key: str, shared: SharedClient | None) -> None:
        """Close the session of a connection that has ended, unless the client goes on at another
        replica.
        """
        entry: ClientSession | asyncio.Future[ClientSession] | None = sessions.get(key)
        with suppress(Refused):
            client = await entry if isinstance(entry, asyncio.Future) else entry
            if client is not None:
                self._open_sessions.discard(client)
                if shared is not None and not await shared.has_ended():
                    return
                await self._runtime.ask(
                    "session.close", {"session_id": client.session_id}, client.who
                )


@lru_cache(maxsize=256)
def standing_of(who: Principal) -> str:
    """What tells principals of one name apart: a token with other rights is another client."""
    rights = [*sorted(who.roles), *(f"group:{group}" for group in sorted(who.groups))]
    return " ".join([*rights, "own"] if who.may_approve_own else rights)


def _id_for(name: str, capabilities: tuple[str, ...]) -> str:
    """The session id of a stateless client, the same after every restart."""
    digest = sha256(" ".join((name, *capabilities)).encode()).hexdigest()[:16]
    return f"{namespace_of(name)}:mcp_{digest}"


def _session_params(ctx: ServerRequestContext[Any, Any], who: Principal) -> dict[str, Any]:
    client = ctx.session.client_params
    facts: dict[str, Any] = {"transport": "mcp", "principal": who.name}
    if client is not None:
        facts["client"] = f"{client.client_info.name} {client.client_info.version}"[:200]
    return {"metadata": facts, "capabilities": list(_capabilities(ctx))}


def _capabilities(ctx: ServerRequestContext[Any, Any]) -> tuple[str, ...]:
    """The capabilities that tools may require of a client."""
    declared: ClientCapabilities | None = ctx.session.client_capabilities
    named = tuple(name for name in _CAPABILITIES if getattr(declared, name, None) is not None)
    return (*named, CAPABILITY) if declares_tasks(ctx) else named


def _forget_failed(sessions: dict[str, Any], key: str, done: asyncio.Future[ClientSession]) -> None:
    if sessions.get(key) is done:
        del sessions[key]
    if not done.cancelled():
        # The request may be gone; asyncio must not log the refusal that nobody awaits.
        done.exception()


_encode: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode


_CALL_ID: Final = re.compile(r"call_([0-9a-f]{16})[0-9a-f]{16}")


def call_fingerprint(name: str, arguments: Mapping[str, Any]) -> str:
    """A digest of a tool's name and arguments, independent of their order."""
    return blake2b(_encode([name, arguments]).encode(), digest_size=8).hexdigest()


def new_call_id(call_fingerprint: str) -> str:
    """A unique call id that contains the fingerprint."""
    return f"call_{call_fingerprint}{token_hex(8)}"


def fingerprint_of(call_id: str) -> str | None:
    """The fingerprint in a call id; None when the id was made elsewhere."""
    match = _CALL_ID.fullmatch(call_id)
    return match[1] if match else None

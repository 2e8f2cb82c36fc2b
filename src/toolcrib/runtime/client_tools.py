"""Client tools: declared by the client of a session, and run by it while it is connected."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json, to_json

from toolcrib.errors import CallEnded, ClientGone, InvalidTool, Refused
from toolcrib.tools.prepared_tool import prepare
from toolcrib.tools.rules import check_free
from toolcrib.tools.tool import Tool

if TYPE_CHECKING:
    from toolcrib.calls.call import Call
    from toolcrib.runtime.attached_clients import AttachedClient, AttachedClients, ClientPlace
    from toolcrib.runtime.live_session import LiveSession
    from toolcrib.runtime.messages import ClientTool
    from toolcrib.runtime.principal import Principal


SOURCE = "client"
"""The source of every client tool."""

MAX_CLIENT_TOOLS = 500
MAX_SCHEMAS_BYTES = 2_000_000


class ClientCalls:
    """Runs the client tools of one session at the client that is attached to it, if one is."""

    def __init__(self, session_id: str, clients: AttachedClients) -> None:
        self._session_id = session_id
        self._clients = clients
        self._owner: str | None = None
        self._running: dict[asyncio.Future[Any], ClientPlace] = {}

    @property
    def is_attached(self) -> bool:
        """Whether a client is attached that is connected to this process."""
        client = self._clients.here(self._session_id)
        return client is not None and client.place.serves(self._owner)

    def set_owner(self, who: Principal) -> None:
        """Make `who` the owner of the client tools. Raises `Refused` (forbidden) when they belong
        to another principal, unless `who` is an admin.
        """
        check_client_owner(self._owner, who, "declare client tools in")
        self._owner = who.name
        for work, place in tuple(self._running.items()):
            if not place.serves(who.name):
                # The client of one principal must not run the tools of another.
                work.cancel()

    def belong_to(self, name: str) -> None:
        """The client tools are those of this principal, who declared them at another replica."""
        self._owner = name

    @property
    def owner(self) -> str | None:
        """Whose the client tools are; None when there are none."""
        return self._owner

    async def run(self, call: Call) -> Any:
        """Run a frozen call. Fails as `unavailable` when no client is attached, or it leaves and no
        other one takes over.
        """
        client = await self._client()
        if client is None:
            raise CallEnded("unavailable", f"The client that runs `{call.name}` is not connected.")
        while True:
            try:
                return await self._run_at(client, call)
            except ClientGone:
                before, client = client.place, await self._client()
                is_next = client is not None and client.place != before
                if client is None or not is_next or not client.place.takes_over:
                    raise _disconnected(call) from None

    async def _client(self) -> AttachedClient | None:
        client = await self._clients.find(self._session_id)
        return client if client is not None and client.place.serves(self._owner) else None

    async def _run_at(self, client: AttachedClient, call: Call) -> Any:
        """The result of a client. Raises `ClientGone`, also when another client replaces it."""
        work = asyncio.ensure_future(client.run(call.call_id, call.name, from_json(call.arguments)))
        # Whatever ends it after it was cancelled is nobody's any more.
        work.add_done_callback(lambda done: done.cancelled() or done.exception())
        replacement = self._clients.replacement(self._session_id, client)
        self._running[work] = client.place
        try:
            either = [work] if replacement is None else [work, replacement]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if work.done() and not work.cancelled():
                return work.result()
        finally:
            del self._running[work]
            work.cancel()
            if replacement is not None:
                replacement.cancel()
        raise ClientGone


def check_client_owner(owner: str | None, who: Principal, what: str) -> None:
    """Raise `Refused` (forbidden) when the client tools of a session belong to somebody else than
    `who`, unless that is an admin: a client gets the arguments of calls, and models trust its
    results.
    """
    if owner not in (None, who.name) and not who.may("admin"):
        raise Refused(
            "forbidden",
            f"{who.name!r} may not {what} this session: they belong to another principal",
        )


def _disconnected(call: Call) -> CallEnded:
    return CallEnded(
        "unavailable", f"The client that runs `{call.name}` disconnected before it answered."
    )


def client_tool(declared: ClientTool) -> Tool[Any, Any]:
    """The tool that a client has declared. Raises `InvalidTool`."""
    return Tool[Any, Any](
        name=declared.name,
        description=declared.description,
        json_schema=dict(declared.parameters),
        calling="input",
        is_foreign=True,
        source=SOURCE,
        requires_approval=declared.requires_approval,
        timeout=declared.timeout,
    )


async def admit_client_tools(declared: Sequence[ClientTool]) -> None:
    """Raise `Refused` (invalid, too_large) for client tools that cannot be taken. Their schemas are
    measured and compiled in a thread, so that other clients need not wait.
    """
    if not declared:
        return
    if len(declared) > MAX_CLIENT_TOOLS:
        raise Refused("invalid", f"a client may declare {MAX_CLIENT_TOOLS} tools at once")
    size = sum(len(to_json(tool.parameters)) for tool in declared)
    if size > MAX_SCHEMAS_BYTES:
        raise Refused(
            "too_large", f"the schemas of the client tools have over {MAX_SCHEMAS_BYTES} bytes"
        )

    def check() -> None:
        for tool in declared:
            _validated(tool)

    await asyncio.to_thread(check)


def new_client_tools(
    declared: Sequence[ClientTool], taken: Collection[str]
) -> list[Tool[Any, Any]]:
    """The client tools of a new session. Raises `Refused` (conflict) for a name in `taken`."""
    tools: dict[str, Tool[Any, Any]] = {}
    for tool in declared:
        if tool.name in taken or tool.name in tools:
            raise _name_taken(tool.name)
        tools[tool.name] = _validated(tool)
    return list(tools.values())


def update_client_tools(live: LiveSession, declared: Sequence[ClientTool], who: Principal) -> None:
    """Add or replace the client tools of a live session. Raises `Refused` (forbidden) when the
    session has client tools of another principal.
    """
    if not declared:
        return
    ours = [name for name, tool in live.executor.tools.items() if tool.ref.source != SOURCE]
    taken = {*ours, *live.tools.host_names}
    # A client tool that a host tool hides may still be declared again.
    tools = new_client_tools(
        declared, {name for name in taken if not live.tools.has_from(SOURCE, name)}
    )
    live.client.set_owner(who)
    for tool in tools:
        live.tools.add(tool)
        live.own_tools.add(tool.name)


def _validated(declared: ClientTool) -> Tool[Any, Any]:
    try:
        check_free(declared.name)
        tool = client_tool(declared)
        prepare(tool)
    except InvalidTool as error:
        raise Refused("invalid", f"client tool {declared.name[:128]!r}: {error}") from None
    return tool


def _name_taken(name: str) -> Refused:
    return Refused("conflict", f"client tool {name!r} has the name of another tool; rename it")

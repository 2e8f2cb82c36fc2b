"""Calls that the connected client runs.

The tools that a client brings to its session.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from pydantic_core import from_json

from toolcrib.errors import CallEnded, ClientGone, InvalidTool, Refused
from toolcrib.tools.prepared_tool import prepare
from toolcrib.tools.tool import Tool

if TYPE_CHECKING:
    from toolcrib.calls.call import Call
    from toolcrib.runtime.live_session import LiveSession
    from toolcrib.runtime.messages import ClientTool
    from toolcrib.runtime.principal import Principal


SOURCE = "client"
"""The source of every tool that a client brings."""


class ClientLink(Protocol):
    """The way to a client that runs tools. A transport gives one for each connection."""

    async def run(self, call_id: str, name: str, arguments: Mapping[str, Any]) -> Any:
        """Have the client run a call. Raises `ClientGone` when it leaves; what else it raises is
        the tool's failure. Cancelled when the result is no longer wanted.
        """
        ...


class ClientCalls:
    """Runs the client-run calls of one session, over whichever link is there."""

    def __init__(self) -> None:
        self._link: ClientLink | None = None
        self._linked: str | None = None
        self._owner: str | None = None
        self._running: set[asyncio.Task[Any]] = set()

    def belong_to(self, who: Principal) -> None:
        """These are the tools of this principal from now on. Raises `Refused` (forbidden) when
        they are another's, unless `who` is an admin.
        """
        self._check(who, "bring tools to")
        self._owner = who.name
        if self._linked != who.name:
            # Whoever was there first is not to run what somebody else brings.
            self._leave()

    def attach(self, link: ClientLink, who: Principal) -> Callable[[], None]:
        """Let a client run the session's calls; returns what ends it. A client that comes takes
        the place of the one before, and that one's calls fail. Only who brought the tools, or an
        admin, may: the arguments of calls go to it, and models believe its answers.
        """
        self._check(who, "run the tools of")
        self._leave()
        self._link, self._linked = link, who.name
        return lambda: self.detach(link)

    def detach(self, link: ClientLink) -> None:
        """The client is gone; calls that need it fail, until another comes."""
        if self._link is link:
            self._leave()

    async def run(self, call: Call) -> Any:
        """Run a frozen call; its failure is typed when nobody is there, or leaves."""
        if self._link is None:
            raise CallEnded("unavailable", f"The client that runs `{call.name}` is not connected.")
        work = asyncio.ensure_future(self._ask(self._link, call))
        self._running.add(work)
        try:
            await asyncio.wait([work])
        finally:
            self._running.discard(work)
            work.cancel()
        if work.cancelled():
            raise _left(call)
        return work.result()

    async def _ask(self, link: ClientLink, call: Call) -> Any:
        try:
            return await link.run(call.call_id, call.name, from_json(call.arguments))
        except ClientGone:
            raise _left(call) from None

    def _check(self, who: Principal, what: str) -> None:
        if self._owner not in (None, who.name) and not who.may("admin"):
            raise Refused(
                "forbidden",
                f"{who.name!r} may not {what} this session: its client tools are another's",
            )

    def _leave(self) -> None:
        self._link = self._linked = None
        for work in tuple(self._running):
            work.cancel()


def _left(call: Call) -> CallEnded:
    return CallEnded("unavailable", f"The client that runs `{call.name}` left before it answered.")


def client_tool(told: ClientTool) -> Tool[Any, Any]:
    """A tool as a client describes it. Raises `InvalidTool`."""
    return Tool[Any, Any](
        name=told.name,
        description=told.description,
        json_schema=dict(told.parameters),
        calling="input",
        source=SOURCE,
        requires_approval=told.requires_approval,
        timeout=told.timeout,
    )


def brought(told: Sequence[ClientTool], taken: Collection[str]) -> list[Tool[Any, Any]]:
    """The tools of a session that opens. None may stand in for one of ours."""
    found: dict[str, Tool[Any, Any]] = {}
    for each in told:
        if each.name in taken or each.name in found:
            raise _shadows(each.name)
        found[each.name] = _checked(each)
    return list(found.values())


def bring_again(held: LiveSession, told: Sequence[ClientTool], who: Principal) -> None:
    """A client comes back to a session that is open: what it brings is there from now on. Raises
    `Refused` (forbidden) when the session has tools of somebody else's client.
    """
    if not told:
        return
    ours = [name for name, tool in held.executor.tools.items() if tool.ref.source != SOURCE]
    taken = {*ours, *held.tools.host_names}
    # One that a tool of the host stands before is still the client's to bring again.
    tools = brought(told, {name for name in taken if not held.tools.has_from(SOURCE, name)})
    held.client.belong_to(who)
    for tool in tools:
        held.tools.add(tool)
        held.own_tools.add(tool.name)


def _checked(told: ClientTool) -> Tool[Any, Any]:
    try:
        tool = client_tool(told)
        prepare(tool)
    except InvalidTool as error:
        raise Refused("invalid", f"the client's tool {told.name[:128]!r}: {error}") from None
    return tool


def _shadows(name: str) -> Refused:
    return Refused("conflict", f"the client's tool {name!r} has the name of another tool")

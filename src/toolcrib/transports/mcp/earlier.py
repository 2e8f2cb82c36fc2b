"""Calls that wait from an earlier connection: a client that comes back finds them again."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from toolcrib.errors import Refused
from toolcrib.runtime.messages import ListApprovals, OneSession
from toolcrib.transports.mcp.call_ids import mark_of
from toolcrib.transports.mcp.seats import OPEN_STATES, Seat, Seats, Waiting

if TYPE_CHECKING:
    from toolcrib.runtime.messages import ApprovalFacts
    from toolcrib.runtime.runtime import Runtime


class Earlier:
    """Looks through the inbox for the same call of the same principal, in a session of MCP that is
    over, or whose client has gone without a word. Only what waits is ever looked for, so that
    other calls cost nothing.
    """

    def __init__(self, runtime: Runtime, seats: Seats) -> None:
        self._runtime = runtime
        self._seats = seats

    async def take(self, seat: Seat, sign: str) -> Seat | None:
        """The seat where the call waits, its session open again; None when there is none."""
        service = self._runtime.service
        for each in (await service.list_approvals(ListApprovals(is_all=True), seat.who)).approvals:
            if each.state in OPEN_STATES and mark_of(each.call_id) == sign:
                found = self._idle(each, seat, sign) or await self._opened(each, seat)
                if found is not None:
                    found.waiting[sign] = Waiting(each.call_id, each.approval_id)
                    return found
        return None

    async def leave(self, seat: Seat) -> None:
        """Let go of the session; what waits in it goes on waiting."""
        if seat in self._seats:
            return
        with suppress(Refused):
            await self._runtime.ask("session.close", {"session_id": seat.session_id}, seat.who)

    def _idle(self, filed: ApprovalFacts, seat: Seat, sign: str) -> Seat | None:
        """The seat of another connection that nobody asks about this call at now. Many clients
        leave without ending their session, which then stays for a while.
        """
        for other in self._seats:
            is_theirs = other.is_passing and other.who == seat.who and other is not seat
            if is_theirs and other.session_id == filed.session_id and sign not in other.answering:
                return other
        return None

    async def _opened(self, filed: ApprovalFacts, seat: Seat) -> Seat | None:
        asked = OneSession(session_id=filed.session_id)
        try:
            facts = await self._runtime.service.get_session(asked, seat.who)
            owner = facts.metadata.get("transport"), facts.metadata.get("principal")
            if facts.state != "closed" or owner != ("mcp", seat.who.name):
                return None
            again = {"session_id": filed.session_id, "capabilities": list(seat.abilities)}
            await self._runtime.ask("session.resume", again, seat.who)
        except Refused:
            # Another process works in it, or somebody deleted it.
            return None
        return Seat(filed.session_id, seat.who, abilities=seat.abilities)

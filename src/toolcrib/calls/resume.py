"""Going on with calls that waited, or that a dead process left in doubt."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from toolcrib.calls.batch import run_all
from toolcrib.calls.call import Call, Caller
from toolcrib.calls.gate import IN_DOUBT, Gate
from toolcrib.calls.halt import Halt
from toolcrib.calls.validate import parse_arguments
from toolcrib.errors import UsageError
from toolcrib.session.events import ToolUnavailable
from toolcrib.store.store import OpenCall

if TYPE_CHECKING:
    from toolcrib.calls.outcome import Outcome
    from toolcrib.calls.path import Path
    from toolcrib.calls.table import ToolTable
    from toolcrib.session.session import Session


class Resumption:
    """Takes up the open calls of a session. Each is taken up by one task at a time."""

    def __init__(self, session: Session, table: ToolTable, gate: Gate, path: Path) -> None:
        self._session = session
        self._table = table
        self._gate = gate
        self._path = path

    async def resume(self, call_ids: Iterable[str] | None) -> list[Outcome]:
        """Go on with the given open calls, or with all of them."""
        wanted = None if call_ids is None else set(call_ids)
        calls = [
            call
            for call in await self._open_calls()
            if (wanted is None or call.call_id in wanted) and self._claim(call)
        ]
        return await run_all([lambda call=call: self._take_up(call) for call in calls])

    async def resume_one(self, call_id: str, name: str) -> Outcome:
        """Go on with one open call, which must be of the tool `name`."""
        found = await self._claimed(call_id)
        if found.tool.name != name:
            self._session.claimed.discard(call_id)
            raise UsageError(f"call {call_id!r} is of {found.tool.name!r}, not of {name!r}")
        return await self._take_up(found)

    async def withdraw(self, call_id: str) -> Outcome:
        """End a call that waits, as cancelled."""
        call = self._reopen(await self._claimed(call_id))
        return await self._path.go_on(call, self._withdrawn(call))

    async def _claimed(self, call_id: str) -> OpenCall:
        found = [call for call in await self._open_calls() if call.call_id == call_id]
        if not found:
            raise UsageError(f"no call {call_id!r} waits in session {self._session.session_id}")
        if not self._claim(found[0]):
            raise UsageError(f"call {call_id!r} is being worked on already")
        return found[0]

    async def _withdrawn(self, call: Call) -> None:
        raise Halt("cancelled", f"The call of `{call.name}` was cancelled while it waited.")

    async def _open_calls(self) -> list[OpenCall]:
        # A session that was just opened may still be writing down what it found in doubt.
        await self._session.ledger.flush()
        return await self._session.ask_store(self._session.open_calls)

    def _claim(self, call: OpenCall) -> bool:
        claimed = self._session.claimed
        if call.state == "started" or call.call_id in claimed:
            return False
        claimed.add(call.call_id)
        return True

    async def _take_up(self, found: OpenCall) -> Outcome:
        call = self._reopen(found)
        return await self._path.go_on(call, self._settle(call, found))

    def _reopen(self, found: OpenCall) -> Call:
        session = self._session
        call = Call(
            found.call_id,
            found.tool.name,
            found.arguments,
            session,
            created_at=found.created_at,
            caller=Caller(found.principal, found.transport),
        )
        call.approval_id = found.approval_id
        call.attempt = found.attempt
        call.was_edited = found.was_edited
        call.depth = found.depth
        call.turn = found.turn
        call.waited = max(0.0, session.clock() - found.created_at)
        tool = self._table.get(found.tool.name)
        if tool is not None:
            call.resolve(tool)
        return call

    async def _settle(self, call: Call, found: OpenCall) -> None:
        await self._check_tool(call, found)
        call.params = parse_arguments(call, call.arguments)
        filed = None
        if found.approval_id is not None:
            filed = await self._session.ask_store(self._session.store.approval, found.approval_id)
        if found.decided is not None:
            is_doubt = filed is not None and filed.request.rule == IN_DOUBT.rule
            self._gate.apply(call, found.decided, is_doubt=is_doubt)
        elif found.state == "in_doubt" and (filed is None or filed.state == "used"):
            await self._doubt(call)
        elif filed is not None:
            await self._gate.go_on(call, filed.request, filed.decided)

    async def _doubt(self, call: Call) -> None:
        """Run an idempotent call again; ask about any other."""
        if call.depth > 0:
            raise Halt("in_doubt", f"`{call.name}` was interrupted, and so was its caller.")
        if not call.tool.tool.is_idempotent:
            await self._gate.ask_about_doubt(call)

    async def _check_tool(self, call: Call, found: OpenCall) -> None:
        """A decision was about one version of one tool; nothing else may run in its name."""
        now = self._table.get(found.tool.name)
        if now is not None and now.ref == found.tool:
            return
        why = "is gone" if now is None else "has changed"
        session = self._session
        await session.record(
            ToolUnavailable(
                session_id=session.session_id,
                at=session.clock(),
                call_id=call.call_id,
                tool=found.tool,
                reason=f"the tool {why}",
            )
        )
        call.prepared = None
        call.frozen_ref = found.tool
        raise Halt(
            "unavailable",
            f"`{call.name}` {why} since this call was made; the model has to call again.",
        )

"""Going on with calls that waited, or that a dead process left in doubt."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

from toolcrib.approval.decision import Deny, Expire
from toolcrib.calls.call import Call, calls_of
from toolcrib.calls.outcome import run_all
from toolcrib.calls.path import deferred_outcome
from toolcrib.calls.recorded_call import request_digest
from toolcrib.calls.tool_table import is_visible
from toolcrib.calls.validate import RawArguments, encode_arguments, take, take_again
from toolcrib.errors import CallEnded, ResultDeferred, UsageError
from toolcrib.ledger.events import ToolUnavailable
from toolcrib.store.store import ask_store
from toolcrib.tools.identity import changes_between

if TYPE_CHECKING:
    from toolcrib.calls.outcome import Outcome
    from toolcrib.calls.path import LazyGate, Path
    from toolcrib.calls.tool_table import ToolTable
    from toolcrib.failures import Failure
    from toolcrib.session.session import Session
    from toolcrib.store.store import FiledApproval, OpenCall
    from toolcrib.tools.identity import ToolRef
    from toolcrib.tools.prepared_tool import PreparedTool


class Resumption:
    """Takes up the open calls of a session. Each is taken up by one task at a time."""

    def __init__(self, session: Session, table: ToolTable, gate: LazyGate, path: Path) -> None:
        self._session = session
        self._calls = calls_of(session)
        self._table = table
        self._gate = gate
        self._path = path

    async def resume(
        self, call_ids: Iterable[str] | None, deadline: float | None = None
    ) -> list[Outcome]:
        """Go on with the given open calls, or with all of them."""
        taken = await self._claim_all(None if call_ids is None else set(call_ids))
        return await run_all([lambda call=call: self._take_up(call, deadline) for call in taken])

    async def resume_one(
        self, call_id: str, name: str, arguments: RawArguments, deadline: float | None = None
    ) -> Outcome:
        """Go on with one open call, which must be of the tool `name` and must have been asked for
        with these arguments, unless they are None.
        """
        open_call = await self._claim_one(call_id)
        try:
            _check_same(open_call, name, arguments)
        except UsageError:
            self._calls.claimed.discard(call_id)
            raise
        return await self._take_up(open_call, deadline)

    async def withdraw(self, call_id: str) -> Outcome:
        """End a call that waits, as cancelled."""
        open_call = await self._claim_one(call_id)
        return await self._go_on(open_call, self._withdrawn)

    async def complete(self, call_id: str, value: object, failure: Failure | None) -> Outcome:
        """End a call that was handed over, with its value or as a failure. No hook runs, for
        whoever brings the result has used it already.
        """
        open_call = await self._claim_one(call_id)
        if open_call.state != "deferred":
            self._calls.claimed.discard(call_id)
            raise UsageError(f"call {call_id!r} was not handed over; nobody can bring its result")

        async def settle(call: Call, open_call: OpenCall) -> None:
            if call.prepared is None:
                self._path.adopt(call, await self._tool_of_now(call, open_call))
            if failure is not None:
                raise CallEnded.of(failure)
            call.succeed(value)

        return await self._go_on(open_call, settle, with_hooks=False)

    async def _claim_all(self, wanted: set[str] | None) -> list[OpenCall]:
        """Claim open calls, and give them as they are now that nobody else can work on them."""
        claimed = {
            call.call_id
            for call in await self._open_calls()
            if (wanted is None or call.call_id in wanted) and self._claim(call)
        }
        taken: list[OpenCall] = []
        try:
            # Whoever had a call until we claimed it may have ended it since it was first read.
            for call in await self._open_calls() if claimed else ():
                if call.call_id in claimed and call.state != "started":
                    taken.append(call)
        finally:
            unclaimed = claimed - {call.call_id for call in taken}
            self._calls.claimed.difference_update(unclaimed)
        return taken

    async def _claim_one(self, call_id: str) -> OpenCall:
        taken = await self._claim_all({call_id})
        if taken:
            return taken[0]
        if call_id in self._calls.claimed:
            raise UsageError(f"call {call_id!r} is being worked on already")
        raise UsageError(f"no call {call_id!r} waits in session {self._session.session_id}")

    async def _withdrawn(self, call: Call, open_call: OpenCall) -> None:
        if open_call.state == "in_doubt":
            raise CallEnded(
                "in_doubt", f"`{call.name}` may have taken effect; it is not run again."
            )
        raise CallEnded("cancelled", f"The call of `{call.name}` was cancelled while it waited.")

    async def _open_calls(self) -> list[OpenCall]:
        # A session that was just opened may still be writing down what it open_call in doubt.
        await self._session.ledger.flush()
        return await ask_store(self._session.store, self._session.open_calls)

    def _claim(self, call: OpenCall) -> bool:
        claimed = self._calls.claimed
        if call.state == "started" or call.call_id in claimed:
            return False
        claimed.add(call.call_id)
        return True

    async def _take_up(self, open_call: OpenCall, deadline: float | None) -> Outcome:
        if open_call.state == "deferred":
            self._calls.claimed.discard(open_call.call_id)
            return deferred_outcome(open_call.call_id, open_call.tool.name, ResultDeferred())
        return await self._go_on(open_call, self._settle, deadline)

    async def _go_on(
        self,
        open_call: OpenCall,
        settle: Callable[[Call, OpenCall], Awaitable[None]],
        deadline: float | None = None,
        *,
        with_hooks: bool = True,
    ) -> Outcome:
        call = self._reopen(open_call, deadline)
        try:
            outcome = await self._path.go_on(call, settle(call, open_call), with_hooks=with_hooks)
        finally:
            self._calls.claimed.discard(open_call.call_id)
        if outcome.status != "waiting":
            self._calls.waiting.discard(open_call.call_id)
        return outcome

    def _reopen(self, open_call: OpenCall, deadline: float | None) -> Call:
        session = self._session
        call = Call(
            open_call.call_id,
            open_call.tool.name,
            open_call.arguments,
            session,
            created_at=open_call.created_at,
            caller=open_call.caller,
            deadline=deadline,
        )
        call.submitted = open_call.submitted or open_call.arguments
        call.approval_id = open_call.approval_id
        call.request_digest = open_call.request_digest
        call.hides_arguments = open_call.has_secrets and open_call.parent_call_id is not None
        call.attempt = open_call.attempt
        call.process, call.may_run_until = open_call.process, open_call.may_run_until
        call.was_edited = open_call.was_edited
        call.depth = open_call.depth
        call.parent_call_id = open_call.parent_call_id
        call.turn = open_call.turn
        call.waited = max(0.0, session.clock() - open_call.created_at)
        tool = self._table.get(open_call.tool.name)
        if tool is not None and tool.ref == open_call.tool:
            call.resolve(tool)
            # Then the secrets are those of a call around it, which is gone.
            call.hides_arguments |= open_call.has_secrets and tool.redactor is None
        else:
            # Another version may not know which of the arguments are secret.
            call.frozen_ref = open_call.tool
            call.digest_cache = open_call.digest
        return call

    async def _settle(self, call: Call, open_call: OpenCall) -> None:
        """Decide whether the call runs. Whatever is not clear here ends it."""
        from toolcrib.calls.request import is_about_doubt

        tool = await self._tool_of_now(call, open_call)
        self._check_caller(call, open_call)
        filed = await self._filed(open_call)
        if call.prepared is None:
            await self._ask_again(call, open_call, tool, filed)
            return
        take_again(call)
        is_asked_about_doubt = filed is not None and is_about_doubt(filed.request)
        is_open = filed is not None and filed.state != "used"
        if open_call.decided is not None:
            self._gate.get().apply(call, open_call.decided, is_doubt=is_asked_about_doubt)
        elif open_call.state == "in_doubt" and not (is_open and is_asked_about_doubt):
            await self._doubt(call)
        elif filed is not None and is_open:
            await self._gate.get().go_on(call, filed.request, filed.decided)
        else:
            raise CallEnded(
                "unavailable",
                f"The request to approve `{call.name}` is gone; the model has to call again.",
            )

    async def _filed(self, open_call: OpenCall) -> FiledApproval | None:
        if open_call.approval_id is None:
            return None
        session = self._session
        return await ask_store(session.store, session.store.approval, open_call.approval_id)

    def _check_caller(self, call: Call, open_call: OpenCall) -> None:
        """End a nested call: the one that made it died with its process and cannot take it."""
        if open_call.depth == 0:
            return
        if open_call.state == "in_doubt":
            raise CallEnded("in_doubt", f"`{call.name}` was interrupted, and so was its caller.")
        raise CallEnded(
            "cancelled", f"The caller of `{call.name}` was interrupted while it waited."
        )

    async def _doubt(self, call: Call) -> None:
        """Run an idempotent call again; ask about any other."""
        self._gate.get().refuse_denied(call, is_doubt=True)
        if not call.tool.tool.is_idempotent:
            await self._gate.get().ask_about_doubt(call)

    async def _ask_again(
        self, call: Call, open_call: OpenCall, tool: PreparedTool, filed: FiledApproval | None
    ) -> None:
        """Take up a call whose tool has changed: a no still counts, anything else is asked anew."""
        from toolcrib.calls.request import is_about_doubt

        is_asked_about_doubt = filed is not None and is_about_doubt(filed.request)
        is_doubt = open_call.state == "in_doubt" or is_asked_about_doubt
        decided = open_call.decided or (filed.decided if filed is not None else None)
        is_open = open_call.decided is not None or (filed is not None and filed.state != "used")
        if decided is not None and is_open and isinstance(decided.decision, Deny | Expire):
            await self._gate.get().refuse(call, decided, is_doubt=is_asked_about_doubt)
        self._path.adopt(call, tool)
        try:
            take(call, call.submitted)
        except CallEnded:
            await self._end_unavailable(call, open_call, "has changed")
        call.freeze()
        changes = changes_between(open_call.tool_parts, tool.identity.parts)
        earlier = filed if is_open else None
        await self._gate.get().ask_again(call, changes, earlier, is_doubt=is_doubt)

    async def _tool_of_now(self, call: Call, open_call: OpenCall) -> PreparedTool:
        """The tool that goes by the name of the call's. A decision was about one tool; another one
        of that name, or of another major version, does not run in its place, however it is asked
        about.
        """
        tool = self._table.get(open_call.tool.name)
        if tool is None or not is_visible(tool.tool, call.caller):
            await self._end_unavailable(call, open_call, "is gone")
        elif call.prepared is None and not _can_take_over(tool, open_call):
            await self._end_unavailable(call, open_call, "has changed")
        else:
            return tool
        raise AssertionError("the call has ended")

    async def _end_unavailable(self, call: Call, open_call: OpenCall, why: str) -> None:
        call.prepared = None
        call.frozen_ref, call.digest_cache = open_call.tool, open_call.digest
        session = self._session
        await session.record(
            ToolUnavailable(
                session_id=session.session_id,
                at=session.clock(),
                call_id=call.call_id,
                tool=open_call.tool,
                reason=f"the tool {why}",
            )
        )
        raise CallEnded(
            "unavailable",
            f"`{call.name}` {why} since this call was made; the model has to call again.",
        )


def _can_take_over(tool: PreparedTool, open_call: OpenCall) -> bool:
    """Whether people can be asked about running this tool for a call of an earlier one."""
    old, new = open_call.tool, tool.ref
    is_akin = (old.id, _major(old)) == (new.id, _major(new))
    # With other arguments it may not know which of those of the call are secret.
    knows_secrets = open_call.tool_parts.get("arguments") == tool.identity.parts["arguments"]
    return is_akin and (knows_secrets or not open_call.has_secrets)


def _major(tool: ToolRef) -> str:
    return tool.version.partition(".")[0]


def _check_same(open_call: OpenCall, name: str, arguments: RawArguments) -> None:
    call_id, first = open_call.call_id, open_call.request_digest
    if open_call.tool.name != name:
        raise UsageError(f"call {call_id!r} is of {open_call.tool.name!r}, not of {name!r}")
    if arguments is None or first is None:
        return
    if request_digest(name, encode_arguments(arguments)) != first:
        raise UsageError(
            f"call {call_id!r} waits, and was asked for with other arguments; leave them out to go "
            "on with it, or give every call an id of its own"
        )

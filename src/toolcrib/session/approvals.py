"""The approvals and grants of a session: what waits, deciding it, standing permissions."""

from __future__ import annotations

import os
from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from pydantic_core import to_json

from toolcrib.approval.decision import Actor, ApprovalRequest, Approve, Decided, Decision, Expire
from toolcrib.errors import InvalidDecision, StoreError
from toolcrib.ledger.events import GrantChanged
from toolcrib.store.codec import decode_decided
from toolcrib.store.store import FiledApproval, ask_store, every

if TYPE_CHECKING:
    from toolcrib.approval.grant import Grant, NewGrant
    from toolcrib.session.session import Session


class Approvals:
    """The inbox of one session."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def pending(self) -> list[ApprovalRequest]:
        """Requests that nobody has decided yet, oldest first."""
        session = self._session
        pending = every(
            lambda cursor: session.store.approvals(
                session_id=session.session_id, state="pending", cursor=cursor
            )
        )
        # Copies: whoever edits what it was shown must not edit the record of it.
        return [deepcopy(filed.request) for filed in pending]

    async def decide(
        self,
        which: str,
        decision: Decision,
        *,
        by: str | Actor,
        grant: NewGrant | None = None,
        digest: str | None = None,
    ) -> Decided:
        """Decide the request with this approval id or call id. `by` is the person, or an `Actor`.

        `digest`, when given, must be the one the decider saw. Raises `InvalidDecision` when the
        request is unknown, decided already, expired, or the decision is unclear or does not fit;
        nothing is lost then, and the request stays as it was. A grant for this call only is the
        decision itself.
        """
        session = self._session
        request = (await ask_store(session.store, self._find, which)).request
        now = session.clock()
        actor = by if isinstance(by, Actor) else Actor("person", by)
        decided = _checked(Decided(request.approval_id, request.digest, decision, actor, now))
        self._check(request, decided.decision, grant, digest)
        if request.deadline is not None and now >= request.deadline:
            await self.expire(request)
            raise InvalidDecision(
                f"request {request.approval_id} expired; the model has to call again"
            )
        if not await ask_store(session.store, session.store.decide, decided):
            raise InvalidDecision(f"request {request.approval_id} was decided by somebody else")
        if grant is not None and grant.scope != "once":
            await self.grant(request, grant, by=actor)
        return decided

    async def expire(self, request: ApprovalRequest) -> None:
        """Let the clock decide a request whose deadline has passed."""
        await ask_store(
            self._session.store,
            self._session.store.decide,
            Decided(
                request.approval_id,
                request.digest,
                Expire(),
                Actor("timeout", "deadline"),
                self._session.clock(),
            ),
        )

    async def grant(self, request: ApprovalRequest, new: NewGrant, *, by: Actor) -> Grant:
        """Allow calls like the one in `request` from now on, within the bounds of `new`."""
        session = self._session
        if new.scope == "once":
            # A call id may come again; the permission must not.
            new = replace(new, uses=1)
        grant = new.issue(
            grant_id=f"grant_{os.urandom(6).hex()}",
            tool=request.tool,
            session_id=session.session_id,
            call_id=request.call_id,
            actor=by,
            now=session.clock(),
        )
        grant = replace(grant, tool_parts=request.tool_parts)
        await ask_store(session.store, session.store.add_grant, grant)
        await self._note_grant(grant, "made", by)
        return grant

    def grants(self) -> list[Grant]:
        """Standing grants that hold in this session now."""
        session = self._session
        now = session.clock()
        return [
            grant
            for grant in every(lambda cursor: session.store.grants(cursor=cursor))
            if grant.is_live(now) and grant.session_id in (None, session.session_id)
        ]

    async def revoke(self, grant_id: str, *, by: str) -> bool:
        """Take a grant back, at once; False when it was not live."""
        session = self._session
        grant = session.store.grant(grant_id)
        if grant is None or not await ask_store(
            session.store, session.store.revoke_grant, grant_id, session.clock()
        ):
            return False
        await self._note_grant(grant, "revoked", Actor("person", by))
        return True

    async def note_use(self, grant: Grant, call_id: str) -> None:
        """Write down that a grant let a call run."""
        await self._note_grant(grant, "used", Actor("grant", grant.grant_id), call_id)

    def _find(self, which: str) -> FiledApproval:
        store = self._session.store
        session_id = self._session.session_id
        newest = store.approval(which)
        if newest is None or newest.request.session_id != session_id:
            newest = None
            # The id of a call is not ours to choose: one may look like the id of another's
            # request, which was looked for first.
            for filed in every(
                lambda cursor: store.approvals(session_id=session_id, cursor=cursor)
            ):
                newest = filed if filed.request.call_id == which else newest
        if newest is None:
            raise InvalidDecision(
                f"there is no request {which!r} in session {self._session.session_id}; "
                "list what waits with `pending()`"
            )
        if newest.state != "pending":
            raise InvalidDecision(
                f"request {newest.request.approval_id} is decided already; a decision is final"
            )
        return newest

    def _check(
        self,
        request: ApprovalRequest,
        decision: Decision,
        grant: NewGrant | None,
        digest: str | None,
    ) -> None:
        if digest is not None and digest != request.digest:
            raise InvalidDecision(
                f"the decision is for another call than request {request.approval_id} now holds; "
                "look at it again"
            )
        if isinstance(decision, Expire):
            raise InvalidDecision("only the clock expires a request; deny it instead")
        if isinstance(decision, Approve):
            if decision.arguments is not None:
                from toolcrib.approval.edit import check_edit

                check_edit(request, decision.arguments)
        elif grant is not None:
            raise InvalidDecision("a grant goes with an approval only")

    async def _note_grant(
        self,
        grant: Grant,
        change: Literal["made", "used", "revoked"],
        actor: Actor,
        call_id: str | None = None,
    ) -> None:
        await self._session.record(
            GrantChanged(
                session_id=self._session.session_id,
                at=self._session.clock(),
                grant_id=grant.grant_id,
                tool_id=grant.tool_id,
                change=change,
                actor=actor,
                call_id=call_id,
            )
        )


def _checked(decided: Decided) -> Decided:
    """The decision as a ledger will read it back; refuses what is unclear, or is not JSON.

    It is a copy, so that whoever decided cannot change it afterwards.
    """
    try:
        read = decode_decided(to_json(decided))
    except (StoreError, ValueError):
        raise _unclear(decided) from None
    # A program without types may pass anything, and an empty object would read as an approval.
    if type(read.decision) is not type(decided.decision):
        raise _unclear(decided)
    if read.actor.kind not in ("person", "rule") or not read.actor.name.strip():
        raise InvalidDecision("say who decides: a person or a rule, with a name")
    return read


def _unclear(decided: Decided) -> InvalidDecision:
    return InvalidDecision(
        f"not a clear decision on {decided.approval_id}; pass Approve(), Deny(reason) or "
        "Answer(value) with JSON values, and who decides"
    )

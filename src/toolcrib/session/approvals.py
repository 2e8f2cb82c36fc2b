"""The approvals and grants of a session: what waits, deciding it, standing permissions."""

from __future__ import annotations

import os
from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from pydantic_core import to_json

from toolcrib.approval.authority import cast_vote, check_decider, is_met, needed
from toolcrib.approval.decision import (
    HOST,
    Actor,
    ApprovalRequest,
    Approve,
    Authority,
    Ballot,
    Decided,
    Decision,
    Expire,
    Vote,
)
from toolcrib.errors import DecisionForbidden, InvalidDecision, StoreError
from toolcrib.ledger.events import ApprovalVoted, GrantChanged
from toolcrib.store.codec import decode_decided
from toolcrib.store.store import FiledApproval, Store, ask_store, every

if TYPE_CHECKING:
    from toolcrib.approval.grant import Grant, GrantPreview, NewGrant
    from toolcrib.session.session import Session

PREVIEW_CALLS = 1_000
"""How many past calls a preview looks at."""
_VOTE_ATTEMPTS = 100
"""How often a vote is tried again because others voted at the same time."""


class Approvals:
    """The inbox of one session."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def pending(self) -> list[ApprovalRequest]:
        """Requests that nobody has decided yet, oldest first."""
        session = self._session
        session.store.expire(session.clock())
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
        authority: Authority = HOST,
    ) -> Decided | None:
        """Decide the request with this approval id or call id. `by` is the person, or an `Actor`;
        `authority` is what they may decide. None: the approval counts, and the request needs more
        approvers.

        `digest`, when given, must be the one the decider saw. Raises `InvalidDecision` when the
        request is unknown, decided already, expired, or the decision is unclear or does not fit,
        and `DecisionForbidden` when somebody else has to make it; nothing is lost then, and the
        request stays as it was. A grant for this call only is the decision itself.
        """
        session = self._session
        await self.expire()
        request = (await ask_store(session.store, self._find, which)).request
        actor = by if isinstance(by, Actor) else Actor("person", by)
        if session.approve_own_calls:
            authority = replace(authority, may_approve_own=True)
        decided = _checked(
            Decided(request.approval_id, request.digest, decision, actor, session.clock())
        )
        check_decision(request, decided, authority, digest=digest, grant=grant)
        issued = None
        if grant is not None and grant.scope != "once":
            # Before the decision: one whose grant is refused decides nothing.
            issued = self._issue(request, grant, actor, authority)
        filed = await ask_store(session.store, file_decision, session.store, decided, authority)
        if isinstance(filed, Ballot):
            await self._note_vote(request, filed)
            return None
        if issued is not None:
            await self._add_grant(issued)
        return filed

    async def expire(self) -> None:
        """Let the clock decide the requests and end the grants whose time is over."""
        session = self._session
        await ask_store(session.store, session.store.expire, session.clock())

    async def grant(
        self, request: ApprovalRequest, new: NewGrant, *, by: Actor, authority: Authority = HOST
    ) -> Grant:
        """Allow calls like the one in `request` from now on, within the bounds of `new`. Raises
        `DecisionForbidden` when that is not for `by` to give.
        """
        grant = self._issue(request, new, by, authority)
        await self._add_grant(grant)
        return grant

    def _issue(
        self, request: ApprovalRequest, new: NewGrant, actor: Actor, authority: Authority
    ) -> Grant:
        if new.scope == "once":
            # A call id may come again; the permission must not.
            new = replace(new, uses=1)
        return new.issue(
            request,
            grant_id=f"grant_{os.urandom(6).hex()}",
            actor=actor,
            now=self._session.clock(),
            authority=authority,
        )

    async def _add_grant(self, grant: Grant) -> None:
        session = self._session
        await ask_store(session.store, session.store.add_grant, grant)
        await self._note_grant(grant, "made", grant.created_by)

    def grants(self) -> list[Grant]:
        """Standing grants that hold in this session now."""
        session = self._session
        now = session.clock()
        session.store.expire(now)
        return [
            grant
            for grant in every(lambda cursor: session.store.grants(cursor=cursor))
            if grant.is_live(now) and grant.session_id in (None, session.session_id)
        ]

    def preview(
        self, request: ApprovalRequest, new: NewGrant, *, by: str = "preview", limit: int = 20
    ) -> GrantPreview:
        """Which past calls of this session the grant would have covered, newest first."""
        from toolcrib.approval.grant import preview_grant
        from toolcrib.session.transcript import past_calls

        session = self._session
        grant = self._issue(request, new, Actor("person", by), HOST)
        calls = past_calls(session.store, session.session_id, PREVIEW_CALLS)
        return preview_grant(grant, calls, parameters=request.parameters, limit=limit)

    async def revoke(self, grant_id: str, *, by: str) -> bool:
        """Take a grant back, at once; False when it was not live."""
        session, actor = self._session, Actor("person", by)
        grant = session.store.grant(grant_id)
        if grant is None or not await ask_store(
            session.store, session.store.revoke_grant, grant_id, session.clock(), actor
        ):
            return False
        await self._note_grant(grant, "revoked", actor)
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
        _check_open(newest)
        return newest

    async def _note_vote(self, request: ApprovalRequest, ballot: Ballot) -> None:
        await self._session.record(
            ApprovalVoted(
                session_id=self._session.session_id,
                at=ballot.votes[-1].at,
                call_id=request.call_id,
                approval_id=request.approval_id,
                vote=ballot.votes[-1],
                votes=len(ballot.votes),
                needed=needed(request.approvers),
                is_edited=ballot.approval.arguments is not None,
            )
        )

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


def check_decision(
    request: ApprovalRequest,
    decided: Decided,
    authority: Authority,
    *,
    digest: str | None = None,
    grant: NewGrant | None = None,
) -> None:
    """Raise `InvalidDecision` unless this decision fits the request and its actor may make it.
    `digest`, when given, is the one that the actor saw.
    """
    decision = decided.decision
    if digest is not None and digest != request.digest:
        raise InvalidDecision(
            f"the decision is for another call than request {request.approval_id} now holds; "
            "look at it again"
        )
    if isinstance(decision, Expire):
        raise InvalidDecision("only the clock expires a request; deny it instead")
    if grant is not None and not isinstance(decision, Approve):
        raise InvalidDecision("a grant goes with an approval only")
    check_decider(request, decision, decided.actor, authority)
    if request.approvable_at is not None:
        from toolcrib.approval.early_approval import check_time

        check_time(request, decided)
    if grant is not None and needed(request.approvers) > 1:
        raise DecisionForbidden(
            f"request {request.approval_id} needs {needed(request.approvers)} approvers each time; "
            "no grant stands for them, so approve it without one"
        )
    if isinstance(decision, Approve) and decision.arguments is not None:
        from toolcrib.approval.edit import check_edit

        check_edit(request, decision.arguments)


def file_decision(store: Store, decided: Decided, authority: Authority) -> Decided | Ballot:
    """Record a checked decision, or the votes so far when its request needs more approvers.

    Raises `InvalidDecision` when the request is decided already or the person has approved it
    before.
    """
    for _ in range(_VOTE_ATTEMPTS):
        filed = store.approval(decided.approval_id)
        if filed is None:
            raise InvalidDecision(f"request {decided.approval_id} is gone")
        _check_open(filed)
        ballot = _next_ballot(filed, decided, authority)
        if ballot is None or is_met(filed.request.approvers, ballot.votes):
            votes = ballot.votes if ballot is not None else _votes_of(filed, decided, authority)
            final = replace(decided, votes=votes)
            if store.decide(final):
                return final
        elif store.vote(decided.approval_id, decided.digest, ballot, after=filed.ballot):
            return ballot
    raise InvalidDecision(f"too many people decide {decided.approval_id} at once; try again")


def _next_ballot(filed: FiledApproval, decided: Decided, authority: Authority) -> Ballot | None:
    """The votes with this one; None for a decision that takes only one person."""
    if not filed.request.approvers or not isinstance(decided.decision, Approve):
        return None
    return cast_vote(filed.ballot, decided.decision, Vote(decided.actor, decided.at, authority))


def _votes_of(filed: FiledApproval, decided: Decided, authority: Authority) -> tuple[Vote, ...]:
    """The votes with a decision that takes one person. That of an edit is kept: the edited
    arguments may need the approval of a group.
    """
    if isinstance(decided.decision, Approve) and decided.decision.arguments is not None:
        return (Vote(decided.actor, decided.at, authority),)
    return filed.ballot.votes if filed.ballot is not None else ()


def _check_open(filed: FiledApproval) -> None:
    if filed.state == "pending":
        return
    approval_id, decided = filed.request.approval_id, filed.decided
    if decided is not None and isinstance(decided.decision, Expire):
        raise InvalidDecision(f"request {approval_id} expired; the model has to call again")
    if decided is None:
        raise InvalidDecision(
            f"request {approval_id} is closed: its call ended, or the tool changed and a new "
            "request took its place; list what waits with `pending()`"
        )
    raise InvalidDecision(f"request {approval_id} is decided already; a decision is final")


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

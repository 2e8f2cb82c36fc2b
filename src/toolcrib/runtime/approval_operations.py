"""Approvals and grants, over all sessions of a store."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

from toolcrib.approval.decision import Actor, Approve, Decided, Deny
from toolcrib.approval.edit import check_edit
from toolcrib.approval.grant import NewGrant
from toolcrib.errors import InvalidDecision, Refused
from toolcrib.runtime.messages import ApprovalFacts, GrantFacts, Grants, Inbox
from toolcrib.store.store import ask_store, every

if TYPE_CHECKING:
    from toolcrib.approval.decision import Decision
    from toolcrib.approval.grant import Grant
    from toolcrib.runtime.messages import Decide, ListApprovals
    from toolcrib.runtime.sessions import LiveSessions
    from toolcrib.session.session import Session
    from toolcrib.store.store import FiledApproval, Store


async def inbox(store: Store, asked: ListApprovals) -> Inbox:
    """What waits, oldest first."""
    state = None if asked.is_all else "pending"

    def read() -> list[FiledApproval]:
        return list(
            every(
                lambda cursor: store.approvals(
                    session_id=asked.session_id, state=state, cursor=cursor
                )
            )
        )

    return Inbox(approvals=[approval_facts(filed) for filed in await ask_store(store, read)])


async def find(store: Store, approval_id: str) -> FiledApproval:
    """One request. Raises `Refused` (not_found)."""
    filed = await ask_store(store, store.approval, approval_id)
    if filed is None:
        raise Refused("not_found", f"there is no request for approval {approval_id[:128]!r}")
    return filed


def gives_grant(asked: Decide) -> bool:
    """Whether more is allowed than the one call."""
    return asked.grant not in (None, "once")


async def decide(session: Session, asked: Decide, by: str) -> ApprovalFacts:
    """Decide a request of a session that is open here."""
    decision = _decision(asked)
    grant = NewGrant(scope=asked.grant) if asked.grant else None
    try:
        await session.approvals.decide(
            asked.approval_id, decision, by=by, grant=grant, digest=asked.digest
        )
    except InvalidDecision as error:
        raise Refused("conflict", str(error)) from None
    return approval_facts(await find(session.store, asked.approval_id))


async def decide_elsewhere(store: Store, asked: Decide, by: str) -> ApprovalFacts:
    """Decide a request of a session that is not open here: whoever opens it finds the decision,
    and who has it open looks for it.
    """
    filed, decision = await find(store, asked.approval_id), _decision(asked)
    try:
        await _file(store, filed, asked, decision, by)
    except InvalidDecision as error:
        raise Refused("conflict", str(error)) from None
    return approval_facts(await find(store, asked.approval_id))


def _decision(asked: Decide) -> Decision:
    if asked.decision == "approve":
        if asked.reason is not None:
            raise Refused("invalid", "an approval has no reason; leave it out, or deny")
        return Approve(dict(asked.arguments) if asked.arguments is not None else None)
    if asked.arguments is not None or asked.grant is not None:
        raise Refused("invalid", "a denial has neither arguments nor a grant")
    return Deny(asked.reason) if asked.reason else Deny()


async def _file(
    store: Store, filed: FiledApproval, asked: Decide, decision: Decision, by: str
) -> None:
    request, now = filed.request, time.time()
    if asked.digest not in (None, request.digest):
        raise InvalidDecision("the call is not the one that was shown; look at it again")
    if request.deadline is not None and now >= request.deadline:
        raise InvalidDecision(f"request {request.approval_id} expired")
    if isinstance(decision, Approve) and decision.arguments is not None:
        check_edit(request, decision.arguments)
    decided = Decided(request.approval_id, request.digest, decision, Actor("person", by), now)
    if not await ask_store(store, store.decide, decided):
        raise InvalidDecision(f"request {request.approval_id} is decided already")


async def grants(store: Store) -> Grants:
    """Every grant of the store."""

    def read() -> list[Grant]:
        return list(every(lambda cursor: store.grants(cursor=cursor)))

    return Grants(grants=[_grant_facts(grant) for grant in await ask_store(store, read)])


async def find_grant(store: Store, grant_id: str) -> GrantFacts:
    """One grant. Raises `Refused` (not_found)."""
    grant = await ask_store(store, store.grant, grant_id)
    if grant is None:
        raise Refused("not_found", f"there is no grant {grant_id[:128]!r}")
    return _grant_facts(grant)


async def revoke(store: Store, sessions: LiveSessions, grant: GrantFacts, *, by: str) -> bool:
    """Take a grant back; False when it was not standing. It is written into the ledger of its own
    session, where its audit is looked for, or else of one that is open here; but a grant must go
    at once, also when there is no ledger to say so.
    """
    places = [each.session.session_id for each in sessions]
    for session_id in [grant.session_id, *places] if grant.session_id else places:
        with suppress(Refused):
            async with sessions.writing(session_id) as session:
                return await session.approvals.revoke(grant.grant_id, by=by)
    return await ask_store(store, store.revoke_grant, grant.grant_id, time.time())


def approval_facts(filed: FiledApproval) -> ApprovalFacts:
    """A request as it is told."""
    request, decided = filed.request, filed.decided
    return ApprovalFacts(
        approval_id=request.approval_id,
        session_id=request.session_id,
        call_id=request.call_id,
        tool=request.tool.name,
        arguments=request.arguments,
        digest=request.digest,
        state=filed.state,
        rule=request.rule,
        reason=request.reason,
        created_at=request.created_at,
        deadline=request.deadline,
        parameters=request.parameters,
        metadata=request.metadata,
        decided_by=decided.actor.name if decided else None,
    )


def _grant_facts(grant: Grant) -> GrantFacts:
    return GrantFacts(
        grant_id=grant.grant_id,
        tool=grant.tool_id,
        scope=grant.scope,
        created_by=grant.created_by.name,
        created_at=grant.created_at,
        session_id=grant.session_id,
        expires_at=grant.expires_at,
        uses_left=grant.uses_left,
        is_revoked=grant.revoked_at is not None,
    )

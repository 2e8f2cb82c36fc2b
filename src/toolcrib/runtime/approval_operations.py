"""Operations on the approval requests and grants of a store, over all its sessions."""

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


async def inbox(store: Store, params: ListApprovals) -> Inbox:
    """The approval requests, oldest first: the pending ones, or all."""
    state = None if params.is_all else "pending"

    def read() -> list[FiledApproval]:
        return list(
            every(
                lambda cursor: store.approvals(
                    session_id=params.session_id, state=state, cursor=cursor
                )
            )
        )

    return Inbox(approvals=[approval_facts(filed) for filed in await ask_store(store, read)])


async def find(store: Store, approval_id: str) -> FiledApproval:
    """One approval request. Raises `Refused` (not_found)."""
    filed = await ask_store(store, store.approval, approval_id)
    if filed is None:
        raise Refused("not_found", f"there is no approval request {approval_id[:128]!r}")
    return filed


def gives_grant(params: Decide) -> bool:
    """Whether the decision allows more than the one call."""
    return params.grant not in (None, "once")


async def decide(session: Session, params: Decide, by: str) -> ApprovalFacts:
    """Decide a request of a session that this process writes."""
    decision = _decision(params)
    grant = NewGrant(scope=params.grant) if params.grant else None
    try:
        await session.approvals.decide(
            params.approval_id, decision, by=by, grant=grant, digest=params.digest
        )
    except InvalidDecision as error:
        raise Refused("conflict", str(error)) from None
    return approval_facts(await find(session.store, params.approval_id))


async def decide_elsewhere(store: Store, params: Decide, by: str) -> ApprovalFacts:
    """Decide a request of a session that this process does not write. The decision goes to the
    store, where the process that has the session, or opens it next, finds it.
    """
    filed, decision = await find(store, params.approval_id), _decision(params)
    try:
        await _file(store, filed, params, decision, by)
    except InvalidDecision as error:
        raise Refused("conflict", str(error)) from None
    return approval_facts(await find(store, params.approval_id))


def _decision(params: Decide) -> Decision:
    if params.decision == "approve":
        if params.reason is not None:
            raise Refused("invalid", "an approval takes no reason; leave it out, or deny")
        return Approve(dict(params.arguments) if params.arguments is not None else None)
    if params.arguments is not None or params.grant is not None:
        raise Refused("invalid", "a denial takes neither arguments nor a grant; leave them out")
    return Deny(params.reason) if params.reason else Deny()


async def _file(
    store: Store, filed: FiledApproval, params: Decide, decision: Decision, by: str
) -> None:
    request, now = filed.request, time.time()
    if params.digest not in (None, request.digest):
        raise InvalidDecision("the call has changed since it was shown; read the request again")
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
    """Revoke a grant; False when it was not standing. The revocation is recorded in the ledger of
    the grant's own session or else of any live one, and takes effect even when there is none.
    """
    live_ids = [live.session.session_id for live in sessions]
    for session_id in [grant.session_id, *live_ids] if grant.session_id else live_ids:
        with suppress(Refused):
            async with sessions.writing(session_id) as session:
                return await session.approvals.revoke(grant.grant_id, by=by)
    return await ask_store(store, store.revoke_grant, grant.grant_id, time.time())


def approval_facts(filed: FiledApproval) -> ApprovalFacts:
    """The description of a request that a client gets."""
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
        changes=list(request.changes),
        supersedes=request.supersedes,
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

"""Operations on the approval requests of a store, over all its sessions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, assert_never

from toolcrib.approval.authority import is_routed_to
from toolcrib.approval.caller import Caller
from toolcrib.approval.decision import Actor, Answer, Approve, Authority, Decided, Deny
from toolcrib.approval.quorum import Quorum
from toolcrib.errors import (
    DecisionForbidden,
    InvalidDecision,
    Refused,
    SessionNotFound,
    UsageError,
)
from toolcrib.runtime.approval_messages import (
    ApprovalFacts,
    CallerFacts,
    Inbox,
    QuorumFacts,
    VoteFacts,
)
from toolcrib.runtime.grant_operations import new_grant
from toolcrib.session.approvals import check_decision, file_decision
from toolcrib.store.approval_query import ApprovalQuery, Viewer
from toolcrib.store.shared_store import Hint, is_shared
from toolcrib.store.store import ask_store

if TYPE_CHECKING:
    from toolcrib.approval.decision import ApprovalRequest, Decision
    from toolcrib.runtime.approval_messages import Decide, ListApprovals
    from toolcrib.runtime.config import RuntimeConfig
    from toolcrib.runtime.principal import Principal
    from toolcrib.session.session import Session
    from toolcrib.store.approval_query import InboxPage
    from toolcrib.store.store import FiledApproval, Store


def authority_of(who: Principal, config: RuntimeConfig) -> Authority:
    """What a principal may decide."""
    return Authority(
        is_admin="admin" in who.roles,
        groups=tuple(sorted(who.groups)),
        may_approve_own=who.may_approve_own or config.approve_own_calls,
    )


async def inbox(store: Store, params: ListApprovals, who: Principal) -> Inbox:
    """A page of the approval requests that a principal may see: the pending ones, or all. Raises
    `Refused` (invalid) for a cursor that is none.
    """
    query = ApprovalQuery(
        viewer=viewer_of(who),
        session_id=params.session_id,
        state=None if params.is_all else "pending",
        tool=params.tool,
        principal=params.principal,
        order=params.order,
    )

    def read() -> InboxPage:
        store.expire(store.clock())
        try:
            return store.inbox(query, cursor=params.cursor, limit=params.limit)
        except UsageError as error:
            raise Refused("invalid", str(error)) from None

    page = await ask_store(store, read)
    return Inbox(
        approvals=[approval_facts(filed) for filed in page.items],
        total=page.total,
        cursor=page.cursor,
    )


async def every_approval(
    list_approvals: Callable[[ListApprovals, Principal], Awaitable[Inbox]],
    params: ListApprovals,
    who: Principal,
) -> AsyncIterator[ApprovalFacts]:
    """The requests of all pages."""
    while True:
        page = await list_approvals(params, who)
        for approval in page.approvals:
            yield approval
        if page.cursor is None:
            return
        params = replace(params, cursor=page.cursor)


def viewer_of(who: Principal) -> Viewer | None:
    """Whose eyes the inbox is read with; None sees every request."""
    return None if who.sees_all else Viewer(who.name, who.may("approver"), who.groups)


async def find(store: Store, approval_id: str, who: Principal) -> FiledApproval:
    """One approval request. Raises `Refused` (not_found), also when it is not for `who` to see."""

    def read() -> FiledApproval | None:
        store.expire(store.clock())
        filed = store.approval(approval_id)
        is_found = filed is not None and is_visible(store, filed.request, who)
        return filed if is_found else None

    filed = await ask_store(store, read)
    if filed is None:
        raise Refused("not_found", f"there is no approval request {approval_id[:128]!r}")
    return filed


def is_visible(store: Store, request: ApprovalRequest, who: Principal) -> bool:
    """Whether a principal may see a request: its own, one that is routed to it, or any."""
    if who.sees_all or request.caller.principal == who.name:
        return True
    groups = Authority(groups=tuple(who.groups))
    if who.may("approver") and is_routed_to(request.approvers, groups):
        return True
    try:
        return store.session(request.session_id).owner == who.name
    except SessionNotFound:
        return False


def may_approve(approval: ApprovalFacts, who: Principal, config: RuntimeConfig) -> bool:
    """Whether a principal may approve this request: it is routed to them, and not about their own
    call unless they may approve that.
    """
    authority = authority_of(who, config)
    approvers = [Quorum(each.count, tuple(each.groups)) for each in approval.approvers]
    is_own = approval.caller.principal == who.name and not authority.may_approve_own
    return who.may("approver") and not is_own and is_routed_to(approvers, authority)


def asker_text(approval: ApprovalFacts) -> str:
    """Who asks for a call, for the people who decide."""
    caller = approval.caller
    return Caller(
        caller.principal, caller.transport, caller.is_model, frozenset(caller.groups)
    ).text()


def has_decided(filed: FiledApproval, who: Principal) -> bool:
    """Whether the decision on a request, or one of the votes for it, is this principal's."""
    actors = [filed.decided.actor] if filed.decided is not None else []
    actors += [vote.actor for vote in filed.ballot.votes] if filed.ballot is not None else []
    return any(actor.name == who.name for actor in actors)


def gives_grant(params: Decide) -> bool:
    """Whether the decision allows more than the one call."""
    return params.grant is not None and params.grant.scope != "once"


async def decide(
    session: Session, params: Decide, who: Principal, authority: Authority
) -> ApprovalFacts:
    """Decide a request of a session that this process writes."""
    decision = _decision(params)
    grant = new_grant(params.grant) if params.grant is not None else None
    try:
        await session.approvals.decide(
            params.approval_id,
            decision,
            by=who.name,
            grant=grant,
            digest=params.digest,
            authority=authority,
        )
    except InvalidDecision as error:
        raise _refused(error) from None
    return approval_facts(await find(session.store, params.approval_id, who))


async def decide_elsewhere(
    store: Store, params: Decide, who: Principal, authority: Authority
) -> ApprovalFacts:
    """Decide a request of a session that this process does not write. The decision goes to the
    store, where the process that has the session, or opens it next, finds it.
    """
    request = (await find(store, params.approval_id, who)).request
    decision, actor = _decision(params), Actor("person", who.name)
    decided = Decided(request.approval_id, request.digest, decision, actor, store.clock())
    try:
        check_decision(request, decided, authority, digest=params.digest)
        await ask_store(store, file_decision, store, decided, authority)
    except InvalidDecision as error:
        raise _refused(error) from None
    if is_shared(store):
        store.hint(Hint("decision", request.session_id))
    return approval_facts(await find(store, params.approval_id, who))


def _refused(error: InvalidDecision) -> Refused:
    kind = "forbidden" if isinstance(error, DecisionForbidden) else "conflict"
    faults = [{"pointer": fault.pointer, "message": fault.message} for fault in error.faults]
    return Refused(kind, str(error), {"faults": faults} if faults else None)


_UNUSED = {
    "approve": ("reason", "value"),
    "deny": ("arguments", "grant", "value"),
    "answer": ("arguments", "grant", "reason"),
}


def _decision(params: Decide) -> Decision:
    unused = [name for name in _UNUSED[params.decision] if getattr(params, name) is not None]
    if unused:
        raise Refused("invalid", f"{params.decision} takes no {' and no '.join(unused)}")
    match params.decision:
        case "approve":
            return Approve(dict(params.arguments) if params.arguments is not None else None)
        case "deny":
            return Deny(params.reason) if params.reason else Deny()
        case "answer":
            return Answer(params.value)
    assert_never(params.decision)


def approval_facts(filed: FiledApproval) -> ApprovalFacts:
    """The description of a request that a client gets."""
    request, decided, ballot = filed.request, filed.decided, filed.ballot
    votes = ballot.votes if ballot is not None else decided.votes if decided is not None else ()
    return ApprovalFacts(
        approval_id=request.approval_id,
        session_id=request.session_id,
        call_id=request.call_id,
        tool=request.tool.name,
        tool_source=request.tool.source,
        tool_version=request.tool.version,
        place=request.tool.place,
        arguments=request.arguments,
        digest=request.digest,
        state=filed.state,
        rule=request.rule,
        reason=request.reason,
        created_at=request.created_at,
        deadline=request.deadline,
        approvable_at=request.approvable_at,
        parameters=request.parameters,
        metadata=request.metadata,
        changes=list(request.changes),
        supersedes=request.supersedes,
        caller=CallerFacts(
            principal=request.caller.principal,
            groups=sorted(request.caller.groups),
            transport=request.caller.transport,
            is_model=request.caller.is_model,
        ),
        approvers=[
            QuorumFacts(count=quorum.count, groups=list(quorum.groups))
            for quorum in request.approvers
        ],
        votes=[VoteFacts(by=vote.actor.name, at=vote.at) for vote in votes],
        edited_arguments=ballot.approval.arguments if ballot is not None else None,
        decision=decided.decision.kind if decided else None,
        decided_by=decided.actor.name if decided else None,
        decided_at=decided.at if decided else None,
    )

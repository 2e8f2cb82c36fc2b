"""Operations on the grants of a store, over all its sessions."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Final

from toolcrib.approval.caller import Caller
from toolcrib.approval.decision import Actor, ApprovalRequest
from toolcrib.approval.grant import NewGrant, PastCall, preview_grant
from toolcrib.approval.pattern import first_mismatch
from toolcrib.approval.pattern_json import read_patterns, write_pattern
from toolcrib.errors import InvalidDecision, InvalidPolicy, Refused, SessionNotFound
from toolcrib.runtime.approval_messages import CoveredCall, GrantFacts, Grants, Preview
from toolcrib.session.approvals import PREVIEW_CALLS
from toolcrib.session.transcript import past_calls
from toolcrib.store.session_query import SessionQuery
from toolcrib.store.store import ask_store, every

if TYPE_CHECKING:
    from toolcrib.approval.grant import Grant
    from toolcrib.runtime.approval_messages import GrantTerms, PreviewGrant
    from toolcrib.runtime.principal import Principal
    from toolcrib.runtime.sessions import LiveSessions
    from toolcrib.store.store import Store

PREVIEW_SESSIONS: Final = 200
"""In how many sessions, the newest ones, a preview looks for past calls."""


def new_grant(terms: GrantTerms) -> NewGrant:
    """The grant that a decision asks for. Raises `Refused` (invalid) when its terms are unclear."""
    try:
        return NewGrant(
            terms.scope,
            read_patterns(terms.arguments),
            terms.expires_in_seconds,
            terms.uses,
            unlimited=terms.unlimited,
        )
    except (InvalidDecision, InvalidPolicy) as error:
        raise Refused("invalid", f"the grant: {error}") from None


async def grants(store: Store) -> Grants:
    """Every grant of the store."""

    def read() -> list[Grant]:
        store.expire(store.clock())
        return list(every(lambda cursor: store.grants(cursor=cursor)))

    found = await ask_store(store, read)
    return Grants(grants=[grant_facts(grant, store.clock()) for grant in found])


async def find_grant(store: Store, grant_id: str) -> GrantFacts:
    """One grant. Raises `Refused` (not_found)."""

    def read() -> Grant | None:
        store.expire(store.clock())
        return store.grant(grant_id)

    grant = await ask_store(store, read)
    if grant is None:
        raise Refused("not_found", f"there is no grant {grant_id[:128]!r}")
    return grant_facts(grant, store.clock())


async def revoke(store: Store, sessions: LiveSessions, grant: GrantFacts, *, by: str) -> bool:
    """Revoke a grant; False when it was not standing. The revocation is recorded in the ledger of
    the grant's own session, or else of a session of whose calls it covers, or of who revokes it. It
    takes effect even when there is none.
    """
    for session_id in await ask_store(store, _ledgers_for, store, sessions, grant, by):
        with suppress(Refused):
            async with sessions.writing(session_id) as session:
                return await session.approvals.revoke(grant.grant_id, by=by)
    return await ask_store(
        store, store.revoke_grant, grant.grant_id, store.clock(), Actor("person", by)
    )


def _ledgers_for(store: Store, sessions: LiveSessions, grant: GrantFacts, by: str) -> list[str]:
    """The sessions in whose ledgers a revocation may be recorded: others than those whose calls the
    grant covers, and who revokes it, are not to learn of it.
    """
    if grant.session_id is not None:
        own = [each.session for each in sessions if each.session.owner == by]
        return [grant.session_id, *(session.session_id for session in own)]
    owner = grant.principal
    live = [each.session for each in sessions if owner is None or each.session.owner == owner]
    closed = store.sessions(SessionQuery(owner=owner), limit=1).items if owner is not None else ()
    return [*(each.session_id for each in live), *(each.session_id for each in closed)]


async def preview(
    store: Store, params: PreviewGrant, request: ApprovalRequest | None, who: Principal
) -> Preview:
    """The past calls that a grant would have covered, of those that the principal may read. With
    `request`, the grant is the one that would go with its approval.
    """
    new = new_grant(params.grant)

    def read() -> Preview:
        calls = list(islice(_readable_calls(store, who), PREVIEW_CALLS))
        model = request or _like_the_last(calls, params.tool or "")
        try:
            grant = new.issue(
                model, grant_id="preview", actor=Actor("rule", "preview"), now=store.clock()
            )
        except InvalidDecision as error:
            raise Refused("invalid", f"the grant: {error}") from None
        result = preview_grant(
            grant,
            calls,
            parameters=request.parameters if request is not None else None,
            limit=params.limit,
        )
        is_covered = first_mismatch(grant.arguments, model.arguments, "narrow") is None
        return Preview(
            covered=[_covered_call(call) for call in result.covered],
            covered_count=result.covered_count,
            looked_at=result.looked_at,
            unknown_arguments=list(result.unknown_arguments),
            covers_request=None if request is None else is_covered,
        )

    return await ask_store(store, read)


def _readable_calls(store: Store, who: Principal) -> Iterator[PastCall]:
    """The past calls of the newest sessions that a principal may read, newest first."""
    owner = None if who.sees_all else who.name
    sessions = every(lambda cursor: store.sessions(SessionQuery(owner=owner), cursor=cursor))
    ids = [info.session_id for info in sessions][-PREVIEW_SESSIONS:]
    calls = (_calls_of(store, session_id) for session_id in ids)
    return heapq.merge(*calls, key=lambda call: call.at, reverse=True)


def _calls_of(store: Store, session_id: str) -> Iterator[PastCall]:
    # Deleted since it was listed: then it has no calls.
    with suppress(SessionNotFound):
        yield from past_calls(store, session_id, PREVIEW_CALLS)


def _like_the_last(calls: list[PastCall], tool: str) -> ApprovalRequest:
    """A request about the last call of a tool, for a preview without one."""
    for call in calls:
        if tool in (call.tool.name, call.tool.id):
            return ApprovalRequest(
                approval_id="preview",
                session_id=call.session_id,
                call_id=call.call_id,
                tool=call.tool,
                arguments=dict(call.arguments),
                digest="",
                rule="preview",
                reason="",
                created_at=call.at,
                caller=Caller(call.principal),
            )
    raise Refused("not_found", f"no call of {tool[:128]!r} is recorded that you may read")


def _covered_call(call: PastCall) -> CoveredCall:
    return CoveredCall(
        session_id=call.session_id,
        call_id=call.call_id,
        at=call.at,
        principal=call.principal,
        arguments=dict(call.arguments),
    )


def grant_facts(grant: Grant, now: float) -> GrantFacts:
    """The description of a grant that a client gets."""
    return GrantFacts(
        grant_id=grant.grant_id,
        tool=grant.tool_id,
        scope=grant.scope,
        created_by=grant.created_by.name,
        created_at=grant.created_at,
        is_live=grant.is_live(now),
        session_id=grant.session_id,
        principal=grant.principal,
        arguments={pointer: write_pattern(each) for pointer, each in grant.arguments.items()},
        expires_at=grant.expires_at,
        uses_left=grant.uses_left,
        is_expired=grant.expired_at is not None,
        is_revoked=grant.revoked_at is not None,
        revoked_by=grant.revoked_by.name if grant.revoked_by is not None else None,
        revoked_at=grant.revoked_at,
    )

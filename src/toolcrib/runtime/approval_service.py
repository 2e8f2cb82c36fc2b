"""The operations of the service on approval requests, questions and grants."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolcrib.errors import Refused
from toolcrib.runtime import approval_operations, grant_operations, question_operations
from toolcrib.runtime.approval_context import context_of
from toolcrib.runtime.approval_messages import (
    AnsweredQuestion,
    AnswerQuestion,
    ApprovalContext,
    ApprovalFacts,
    Decide,
    GrantFacts,
    Grants,
    Inbox,
    InboxState,
    ListApprovals,
    ListQuestions,
    OneApproval,
    OneGrant,
    OpenQuestions,
    Preview,
    PreviewGrant,
    Revoked,
)
from toolcrib.runtime.messages import Nothing
from toolcrib.store.store import ask_store

if TYPE_CHECKING:
    from toolcrib.runtime.config import RuntimeConfig
    from toolcrib.runtime.idempotency import IdempotencyKeys
    from toolcrib.runtime.inbox_watch import InboxWatch
    from toolcrib.runtime.principal import Principal
    from toolcrib.runtime.sessions import LiveSessions
    from toolcrib.store.store import KeyClaim, Store


class ApprovalService:
    """What waits for people, and what they decide. A part of `Service`."""

    _config: RuntimeConfig
    _store: Store
    _sessions: LiveSessions
    _keys: IdempotencyKeys
    inbox: InboxWatch
    """Tells readers when the inbox changes."""

    async def list_approvals(self, params: ListApprovals, who: Principal) -> Inbox:
        """The requests for approval that the principal may see."""
        return await approval_operations.inbox(self._store, params, who)

    async def get_approval(self, params: OneApproval, who: Principal) -> ApprovalFacts:
        """One request for approval."""
        return approval_operations.approval_facts(
            await approval_operations.find(self._store, params.approval_id, who)
        )

    async def approval_context(self, params: OneApproval, who: Principal) -> ApprovalContext:
        """What a person should know before they decide a request."""
        filed = await approval_operations.find(self._store, params.approval_id, who)
        live = self._sessions.find(filed.request.session_id)
        return await ask_store(self._store, context_of, self._store, filed, live, self._config, who)

    async def inbox_state(self, params: Nothing, who: Principal) -> InboxState:
        """How many requests and questions wait; as server-sent events, again with each change."""
        return await self.inbox.state(who)

    async def decide(self, params: Decide, who: Principal) -> ApprovalFacts:
        """Decide a request for approval."""
        authority = approval_operations.authority_of(who, self._config)

        async def decide() -> ApprovalFacts:
            filed = await approval_operations.find(self._store, params.approval_id, who)
            session_id = filed.request.session_id
            live = self._sessions.find(session_id)
            if live is None and not approval_operations.gives_grant(params):
                return await approval_operations.decide_elsewhere(
                    self._store, params, who, authority
                )
            # A grant is written into the ledger of its session.
            async with self._sessions.writing(session_id) as session:
                decided = await approval_operations.decide(session, params, who, authority)
            if live is not None:
                live.decision_made()
            return decided

        async def decided_again(claim: KeyClaim) -> ApprovalFacts:
            filed = await approval_operations.find(self._store, params.approval_id, who)
            if claim.outcome is None and not approval_operations.has_decided(filed, who):
                return await decide()
            return approval_operations.approval_facts(filed)

        filed = await approval_operations.find(self._store, params.approval_id, who)
        return await self._keys.run(
            (who.name, "approvals.decide", params.idempotency_key),
            params,
            decide,
            decided_again,
            session_id=filed.request.session_id,
        )

    async def list_questions(self, params: ListQuestions, who: Principal) -> OpenQuestions:
        """The open questions of running calls that the principal may see."""
        return question_operations.open_questions(self._sessions, params, who)

    async def answer_question(self, params: AnswerQuestion, who: Principal) -> AnsweredQuestion:
        """Answer a question of a running call, or decline to."""
        return await question_operations.answer(self._sessions, params, who)

    async def list_grants(self, params: Nothing, who: Principal) -> Grants:
        """The grants, also those that no longer hold."""
        return await grant_operations.grants(self._store)

    async def get_grant(self, params: OneGrant, who: Principal) -> GrantFacts:
        """One grant."""
        return await grant_operations.find_grant(self._store, params.grant_id)

    async def preview_grant(self, params: PreviewGrant, who: Principal) -> Preview:
        """The past calls that a grant would have covered, of those that the principal may read."""
        if (params.approval_id is None) == (params.tool is None):
            raise Refused("invalid", "a preview takes an approval_id or a tool: one of them")
        request = None
        if params.approval_id is not None:
            filed = await approval_operations.find(self._store, params.approval_id, who)
            request = filed.request
        return await grant_operations.preview(self._store, params, request, who)

    async def revoke_grant(self, params: OneGrant, who: Principal) -> Revoked:
        """Revoke a grant."""
        grant = await grant_operations.find_grant(self._store, params.grant_id)
        was_standing = await grant_operations.revoke(
            self._store, self._sessions, grant, by=who.name
        )
        return Revoked(was_standing=was_standing)

"""The operations on approval requests, questions and grants as typed methods."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal

from toolcrib.errors import Refused

if TYPE_CHECKING:
    from toolcrib.runtime.approval_messages import (
        AnswerAction,
        AnsweredQuestion,
        ApprovalContext,
        ApprovalFacts,
        GrantFacts,
        Grants,
        GrantTerms,
        Inbox,
        InboxState,
        OpenQuestions,
        Preview,
        Revoked,
    )


class ApprovalOperations(ABC):
    """What waits for people, and what they decide. A part of `TypedOperations`."""

    @abstractmethod
    async def run_operation(self, name: str, params: Mapping[str, Any]) -> Any:
        """Run an operation by its name; the result is of the operation's result type."""

    async def list_approvals(
        self,
        *,
        session_id: str | None = None,
        is_all: bool = False,
        tool: str | None = None,
        principal: str | None = None,
        order: Literal["created", "deadline"] | None = None,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> Inbox:
        """A page of the pending requests of one session or of all; with `is_all`, the decided ones
        too.
        """
        params = without_none(
            session_id=session_id,
            is_all=is_all,
            tool=tool,
            principal=principal,
            order=order,
            cursor=cursor,
            limit=limit,
        )
        return await self.run_operation("approvals.list", params)

    async def approval_context(self, approval_id: str) -> ApprovalContext:
        """What a person should know before they decide a request."""
        return await self.run_operation("approvals.context", {"approval_id": approval_id})

    async def inbox_state(self) -> InboxState:
        """How many requests and questions wait."""
        return await self.run_operation("approvals.events", {})

    async def get_approval(self, approval_id: str) -> ApprovalFacts:
        """One request for approval."""
        return await self.run_operation("approvals.get", {"approval_id": approval_id})

    async def watch_approvals(
        self,
        *,
        session_id: str | None = None,
        poll_seconds: float = 1.0,
        patience_seconds: float = 60.0,
    ) -> AsyncGenerator[ApprovalFacts]:
        """Yield every request that waits, and then each one that comes. A runtime that is away for
        less than `patience_seconds` is waited for.
        """
        known, last_answer = set[str](), time.monotonic()
        while True:
            try:
                waiting = await every_request(self, session_id=session_id)
            except Refused as refused:
                is_away = refused.kind in ("unavailable", "closing")
                if not is_away or time.monotonic() - last_answer > patience_seconds:
                    raise
            else:
                last_answer = time.monotonic()
                for approval in waiting:
                    if approval.approval_id not in known:
                        yield approval
                known = {approval.approval_id for approval in waiting}
            await asyncio.sleep(poll_seconds)

    async def decide(
        self,
        approval_id: str,
        decision: Literal["approve", "deny", "answer"],
        *,
        digest: str | None = None,
        arguments: Mapping[str, Any] | None = None,
        reason: str | None = None,
        value: Any = None,
        grant: GrantTerms | None = None,
        idempotency_key: str | None = None,
    ) -> ApprovalFacts:
        """Decide a request for approval. `arguments` and `grant` go with `approve`, `reason` with
        `deny`, `value` with `answer`: it replaces the result of the call, which does not run.
        """
        params = without_none(
            approval_id=approval_id,
            decision=decision,
            digest=digest,
            arguments=arguments,
            reason=reason,
            value=value,
            grant=None if grant is None else asdict(grant),
            idempotency_key=idempotency_key,
        )
        return await self.run_operation("approvals.decide", params)

    async def list_questions(self, *, session_id: str | None = None) -> OpenQuestions:
        """The open questions of running calls, of one session or of all."""
        return await self.run_operation("questions.list", without_none(session_id=session_id))

    async def answer_question(
        self,
        question_id: str,
        value: Any = None,
        *,
        action: AnswerAction = "answer",
        reason: str | None = None,
    ) -> AnsweredQuestion:
        """Answer a question of a running call with JSON that fits its schema; `decline` and
        `cancel` take a `reason` in the place of a value.
        """
        params = without_none(question_id=question_id, action=action, value=value, reason=reason)
        return await self.run_operation("questions.answer", params)

    async def list_grants(self) -> Grants:
        """The grants, also those that no longer hold."""
        return await self.run_operation("grants.list", {})

    async def get_grant(self, grant_id: str) -> GrantFacts:
        """One grant."""
        return await self.run_operation("grants.get", {"grant_id": grant_id})

    async def preview_grant(
        self,
        grant: GrantTerms,
        *,
        approval_id: str | None = None,
        tool: str | None = None,
        limit: int = 20,
    ) -> Preview:
        """The past calls that a grant would have covered: one that goes with an approval request,
        or one for a tool by its name.
        """
        params = without_none(grant=asdict(grant), approval_id=approval_id, tool=tool, limit=limit)
        return await self.run_operation("grants.preview", params)

    async def revoke_grant(self, grant_id: str) -> Revoked:
        """Revoke a grant."""
        return await self.run_operation("grants.revoke", {"grant_id": grant_id})


async def every_request(
    operations: ApprovalOperations, *, session_id: str | None = None
) -> list[ApprovalFacts]:
    """The pending requests of all pages, oldest first."""
    page = await operations.list_approvals(session_id=session_id)
    requests = page.approvals
    while page.cursor is not None:
        page = await operations.list_approvals(session_id=session_id, cursor=page.cursor)
        requests = [*requests, *page.approvals]
    return requests


def without_none(**params: Any) -> dict[str, Any]:
    """The parameters that were named; the others have the defaults of the operation."""
    return {name: value for name, value in params.items() if value is not None}

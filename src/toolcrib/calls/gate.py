"""Stage five: may this call run? Policy first, then grants, then people.

There is one gate. Whatever is not a clear yes leaves the tool unrun.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, assert_never

from pydantic_core import from_json, to_json

from toolcrib.approval.approvers import Approver, Reply, read_reply
from toolcrib.approval.decision import Actor, Answer, Approve, Decided, Deny, Expire
from toolcrib.approval.edit import restore_secrets
from toolcrib.approval.explain import Explanation
from toolcrib.approval.policy import Policy, default_verdict
from toolcrib.approval.request import ApprovalRequest
from toolcrib.approval.rule import Subject, Verdict
from toolcrib.calls.failure import Failure
from toolcrib.calls.halt import Halt, Suspend
from toolcrib.calls.recording import open_call
from toolcrib.calls.redact import shown_arguments
from toolcrib.calls.validate import digest, freeze, parse_arguments
from toolcrib.errors import InvalidDecision
from toolcrib.session.events import ApprovalDecided, ApprovalRequested
from toolcrib.store.store import ApprovalFiled, ApprovalUsed, CallOpened, OpenCallState

if TYPE_CHECKING:
    from toolcrib.calls.call import Call
    from toolcrib.session.session import Session

logger = logging.getLogger(__name__)

LISTED = Verdict("ask", "need_user_approve_tools", "The session asks before this tool runs.")
ASKED_BY_TOOL = Verdict("ask", "tool", "The tool asks for approval of this call.")
IN_DOUBT = Verdict(
    "ask",
    "in_doubt",
    "The process died while this call ran: it may or may not have taken effect. "
    "Approving runs it again.",
)


class Gate:
    """Decides calls of one session."""

    def __init__(self, session: Session, policy: Policy | None, approver: Approver | None) -> None:
        self._session = session
        self._policy = policy
        self._approver = approver

    def is_open_for(self, call: Call) -> bool:
        """True when there is nothing to decide: no policy, and nobody asks about this tool."""
        return (
            self._policy is None
            and not call.tool.tool.requires_approval
            and call.approval_metadata is None
            and not self._session.need_user_approve_tools
        )

    async def decide(self, call: Call) -> None:
        """Return when the call may run (or has been answered); else end or suspend it."""
        subject = subject_of(call)
        verdict = self.judge(call, subject)
        match verdict.effect:
            case "allow":
                call.decided_by = Actor("rule", verdict.rule)
            case "deny":
                call.decided_by = Actor("rule", verdict.rule)
                raise Halt("not_permitted", verdict.reason)
            case "ask":
                await self.ask(call, verdict, subject)
            case _:
                assert_never(verdict.effect)

    def judge(self, call: Call, subject: Subject) -> Verdict:
        """What policy and session say about a frozen call."""
        policy = self._policy
        verdict = policy.judge(subject) if policy is not None else default_verdict(subject)
        if verdict.effect == "allow" and call.name in self._session.need_user_approve_tools:
            return LISTED
        if verdict.effect == "allow" and call.approval_metadata is not None:
            return ASKED_BY_TOOL
        return verdict

    async def ask(self, call: Call, verdict: Verdict, subject: Subject) -> None:
        """Get a yes from a grant or a person, or end or suspend the call."""
        if not await self._use_grant(call, subject):
            await self._settle(call, await self._file(call, verdict, "waiting"))

    async def ask_about_doubt(self, call: Call) -> None:
        """Ask a person, and no grant, whether a call that may have run should run again."""
        call.failure = Failure("in_doubt", IN_DOUBT.reason)
        await self._settle(call, await self._file(call, IN_DOUBT, "in_doubt"))

    async def go_on(self, call: Call, request: ApprovalRequest, decided: Decided | None) -> None:
        """Take up a call that waited, with the decision on it if there is one."""
        if decided is not None:
            await self._obey(call, request, decided)
            return
        is_doubt = request.rule == IN_DOUBT.rule
        if is_doubt or not await self._use_grant(call, subject_of(call)):
            await self._settle(call, request)

    def explain(self, call: Call) -> Explanation:
        """How every rule takes part in deciding a call."""
        subject = subject_of(call)
        policy = self._policy
        if policy is None:
            return Explanation(subject.tool.id, self.judge(call, subject), ())
        return replace(policy.explain(subject), verdict=self.judge(call, subject))

    async def _file(self, call: Call, verdict: Verdict, state: OpenCallState) -> ApprovalRequest:
        session = self._session
        now = session.clock()
        limit = verdict.deadline_seconds
        call.approval_id = f"apr_{uuid.uuid4().hex[:16]}"
        request = ApprovalRequest(
            approval_id=call.approval_id,
            session_id=session.session_id,
            call_id=call.call_id,
            tool=call.tool.ref,
            arguments=shown_arguments(call),
            digest=digest(call),
            rule=verdict.rule,
            reason=verdict.reason,
            created_at=now,
            deadline=None if limit is None else now + limit,
            parameters=call.tool.declaration.parameters,
            metadata=self._metadata(call),
            parent_call_id=call.parent.call_id if call.parent else None,
            turn=call.turn,
        )
        session.claimed.add(call.call_id)
        session.waiting.add(call.call_id)
        await session.ask_store(session.save_settings)
        await session.record(
            ApprovalRequested(
                session_id=session.session_id, at=now, call_id=call.call_id, request=request
            ),
            (ApprovalFiled(request), CallOpened(open_call(call, state))),
        )
        return request

    def _metadata(self, call: Call) -> dict[str, Any] | None:
        """What the tool tells approvers. A viewer that fails must not open or block the gate."""
        metadata: Mapping[str, Any] | None = call.approval_metadata or None
        viewer = call.tool.tool.approval_metadata
        if metadata is None and viewer is not None:
            try:
                metadata = viewer()
            except Exception:
                logger.exception("the approval metadata of %s failed", call.name)
        try:
            return None if metadata is None else from_json(to_json(metadata))
        except ValueError:
            logger.warning("the approval metadata of %s is not JSON", call.name)
            return None

    async def _settle(self, call: Call, request: ApprovalRequest) -> None:
        """Ask whoever can answer now; without a clear answer the call does not run."""
        session = self._session
        asked_at = session.clock()
        reply = await self._ask_approver(request)
        call.waited += max(0.0, session.clock() - asked_at)
        if reply is not None:
            await self._record_reply(request, reply)
        elif request.deadline is not None and session.clock() >= request.deadline:
            await session.approvals.expire(request)
        filed = await session.ask_store(session.store.approval, request.approval_id)
        if filed is not None and filed.decided is not None:
            await self._obey(call, request, filed.decided)
        elif session.unanswered == "deny" or call.depth > 0:
            await self._deny_unanswered(call, request)
        else:
            raise Suspend(request)

    async def _ask_approver(self, request: ApprovalRequest) -> Reply | None:
        if self._approver is None:
            return None
        left = None
        if request.deadline is not None:
            left = max(0.0, request.deadline - self._session.clock())
        try:
            async with asyncio.timeout(left):
                answer: object = await self._approver.ask(request)
        except TimeoutError:
            return None
        except Exception:
            logger.exception("the approver failed on %s; nothing runs", request.approval_id)
            return None
        reply = read_reply(answer, Actor("rule", "approver"))
        if reply is None:
            logger.warning("no clear answer to %s; nothing runs", request.approval_id)
        return reply

    async def _record_reply(self, request: ApprovalRequest, reply: Reply) -> None:
        try:
            await self._session.approvals.decide(
                request.approval_id, reply.decision, by=reply.actor, grant=reply.grant
            )
        except InvalidDecision as error:
            # Somebody else was faster, or the edit does not fit: the filed decision, if there is
            # one, counts.
            logger.warning("an answer to %s was not taken: %s", request.approval_id, error)

    async def _deny_unanswered(self, call: Call, request: ApprovalRequest) -> None:
        """A nested call cannot wait: its caller is on the stack and would not survive."""
        nested = " A nested call cannot wait for one." if call.depth > 0 else ""
        denial = Deny(f"`{call.name}` needs approval and nobody is here to give it.{nested}")
        decided = Decided(
            request.approval_id,
            request.digest,
            denial,
            Actor("rule", "unanswered"),
            self._session.clock(),
        )
        await self._session.ask_store(self._session.store.decide, decided)
        await self._obey(call, request, decided)

    async def _obey(self, call: Call, request: ApprovalRequest, decided: Decided) -> None:
        """Act on a decision. It is used up in the same step as it enters the ledger."""
        session = self._session
        call.decided_by = decided.actor
        if decided.digest != digest(call):
            raise Halt("unavailable", f"`{call.name}` is not the call that was decided.")
        await session.record(
            ApprovalDecided(
                session_id=session.session_id,
                at=session.clock(),
                call_id=call.call_id,
                decided=decided,
            ),
            (
                ApprovalUsed(request.approval_id),
                CallOpened(open_call(call, "waiting", decided)),
            ),
        )
        self.apply(call, decided, is_doubt=request.rule == IN_DOUBT.rule)

    def apply(self, call: Call, decided: Decided, *, is_doubt: bool = False) -> None:
        """Do to the call what was decided."""
        call.decided_by = decided.actor
        call.failure = None
        match decided.decision:
            case Approve(arguments=edited):
                if edited is not None:
                    self._edit(call, edited)
                call.is_approved = True
            case Deny(reason=reason):
                raise Halt("in_doubt" if is_doubt else "denied", reason)
            case Answer(value=value):
                call.succeed(value)
            case Expire():
                raise Halt("expired", f"Nobody approved `{call.name}` in time; nothing ran.")
            case _:
                assert_never(decided.decision)
        if call.context is not None:
            call.context.tool_call_approved = call.is_approved

    def _edit(self, call: Call, edited: dict[str, Any]) -> None:
        """Put edited arguments in place: they are validated, frozen and judged like any others."""
        if call.tool.redactor is not None:
            edited = restore_secrets(edited, from_json(call.arguments))
        call.arguments = to_json(edited)
        call.params = parse_arguments(call, call.arguments, after=" after they were edited")
        freeze(call)
        call.was_edited = True
        verdict = self.judge(call, subject_of(call))
        if verdict.effect == "deny":
            raise Halt("not_permitted", verdict.reason)

    async def _use_grant(self, call: Call, subject: Subject) -> bool:
        session = self._session
        now = session.clock()
        live = await session.ask_store(self._grants_of, subject.tool.id)
        for grant in live:
            if not grant.covers(
                subject, session_id=session.session_id, now=now, call_id=call.call_id
            ):
                continue
            if await session.ask_store(session.store.use_grant, grant.grant_id, now):
                call.decided_by = Actor("grant", grant.grant_id)
                call.is_approved = True
                await session.approvals.note_use(grant, call.call_id)
                return True
        return False

    def _grants_of(self, tool_id: str) -> list[Any]:
        return self._session.store.grants(tool_id=tool_id)


def subject_of(call: Call) -> Subject:
    """The frozen call as a policy sees it."""
    tool = call.tool.tool
    return Subject(
        tool=call.tool.ref,
        arguments=from_json(call.arguments),
        is_read_only=tool.is_read_only,
        requires_approval=tool.requires_approval,
    )

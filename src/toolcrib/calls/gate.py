"""Stage five: may this call run? Policy first, then grants, then people.

There is one gate. Whatever is not a clear yes leaves the tool unrun.
"""

from __future__ import annotations

import asyncio
import logging
from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, assert_never

from pydantic_core import from_json, to_json

from toolcrib.approval.approvers import Approver, Reply, read_reply
from toolcrib.approval.authority import needed
from toolcrib.approval.caller import NOBODY
from toolcrib.approval.decision import Actor, Answer, Approve, Decided, Deny, Expire
from toolcrib.approval.edit import changed_unseen, restore_secrets
from toolcrib.approval.globs import name_matches
from toolcrib.approval.policy import Explanation, Policy, default_verdict
from toolcrib.approval.rule import Subject, Verdict
from toolcrib.calls.call import CallSuspended, calls_of
from toolcrib.calls.digest import digest
from toolcrib.calls.nested_calls import wait_for_decision
from toolcrib.calls.person_wait import waiting_for_person
from toolcrib.calls.records import open_call
from toolcrib.calls.request import (
    ASKED_BY_TOOL,
    CHANGED,
    LISTED,
    changes_since,
    check_approvers,
    check_decided,
    doubt_about,
    is_about_doubt,
    request_for,
    superseded,
)
from toolcrib.calls.tool_table import blind_verdict
from toolcrib.calls.validate import take
from toolcrib.errors import CallEnded, InvalidDecision
from toolcrib.failures import Failure
from toolcrib.ledger.events import ApprovalDecided, ApprovalRequested
from toolcrib.store.store import (
    ApprovalFiled,
    ApprovalUsed,
    CallOpened,
    OpenCallState,
    ask_store,
    every,
)
from toolcrib.tools.provider_tools import kind_of, provider_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from toolcrib.approval.decision import ApprovalRequest
    from toolcrib.approval.grant import Grant
    from toolcrib.approval.quorum import Quorum
    from toolcrib.calls.call import Call
    from toolcrib.session.session import Session
    from toolcrib.store.store import FiledApproval
    from toolcrib.tools.prepared_tool import PreparedTool

logger = logging.getLogger(__name__)


class Gate:
    """Decides calls of one session."""

    def __init__(
        self,
        session: Session,
        policy: Policy | None,
        approver: Approver | None,
        listed_elsewhere: Callable[[Call], Collection[str]] | None = None,
    ) -> None:
        self._session = session
        self._policy = policy
        self._approver = approver
        self._listed_elsewhere = listed_elsewhere
        self._blind: dict[PreparedTool, Verdict | None] = {}

    async def decide(self, call: Call) -> None:
        """Return when the call may run (or has been answered); else end or suspend it."""
        subject = subject_of(call)
        verdict = self.judge(call, subject)
        match verdict.effect:
            case "allow":
                call.decided_by = Actor("rule", verdict.rule)
            case "deny":
                call.decided_by = Actor("rule", verdict.rule)
                raise CallEnded("not_permitted", verdict.reason)
            case "ask":
                await self.ask(call, verdict, subject)
            case _:
                assert_never(verdict.effect)

    def judge(self, call: Call, subject: Subject) -> Verdict:
        """What policy and session say about a frozen call."""
        policy = self._policy
        verdict = policy.judge(subject) if policy is not None else default_verdict(subject)
        if policy is not None and call.tool not in self._blind:
            self._blind[call.tool] = blind_verdict(policy, call.tool)
        if policy is not None and (blind := self._blind[call.tool]) is not None:
            return blind
        # Session and tool can turn an allow into a question; they never soften a deny.
        if verdict.effect == "allow" and self._is_listed(call):
            return LISTED
        if verdict.effect == "allow" and call.approval_metadata is not None:
            return ASKED_BY_TOOL
        return verdict

    def _is_listed(self, call: Call) -> bool:
        elsewhere = self._listed_elsewhere(call) if self._listed_elsewhere is not None else ()
        names = (*self._session.need_user_approve_tools, *elsewhere)
        return any(name_matches(name, call.name) for name in names)

    async def ask(self, call: Call, verdict: Verdict, subject: Subject) -> None:
        """Get a yes from a grant or a person, or end or suspend the call."""
        grant = await self._take_grant(call, subject, verdict.approvers)
        if grant is None:
            changes = await self._changes_since_grant(call, subject)
            await self._settle(call, await self._file(call, verdict, "waiting", changes))
            return
        call.decided_by = Actor("grant", grant.grant_id)
        await self._session.approvals.note_use(grant, call.call_id)
        _approve(call)

    async def ask_for_handler(self, call: Call, *, ignore_grants: bool = False) -> None:
        """Get a yes that a handler found out it needs while it ran; from no grant if it says so."""
        subject = subject_of(call)
        verdict = self._routed(call, subject, ASKED_BY_TOOL)
        if ignore_grants:
            await self._settle(call, await self._file(call, verdict, "waiting"))
        else:
            await self.ask(call, verdict, subject)

    async def ask_about_doubt(self, call: Call) -> None:
        """Ask a person, and no grant, whether a call that may have run should run again."""
        verdict = self._routed(call, subject_of(call), doubt_about(call))
        call.failure = Failure("in_doubt", verdict.reason)
        await self._settle(call, await self._file(call, verdict, "in_doubt"))

    def _routed(self, call: Call, subject: Subject, verdict: Verdict) -> Verdict:
        """The verdict, with the approvers that the policy demands for such a call."""
        return replace(verdict, approvers=self.judge(call, subject).approvers)

    async def ask_again(
        self,
        call: Call,
        changes: tuple[str, ...],
        earlier: FiledApproval | None,
        *,
        is_doubt: bool,
    ) -> None:
        """Ask about a call that was made when its tool was another. What was decided then is void,
        and those who decide are shown what changed.
        """
        self.refuse_denied(call, is_doubt=is_doubt)
        subject = subject_of(call)
        verdict = self.judge(call, subject)
        state: OpenCallState = "waiting"
        if is_doubt:
            verdict, state = self._routed(call, subject, doubt_about(call)), "in_doubt"
        elif verdict.effect != "ask":
            verdict = self._routed(call, subject, CHANGED)
        request = await self._file(call, verdict, state, changes, earlier)
        await self.go_on(call, request, None)

    async def refuse(self, call: Call, decided: Decided, *, is_doubt: bool) -> None:
        """End a call whose tool has changed with the no that it got before: it needs no new one."""
        call.decided_by = decided.actor
        session = self._session
        await session.record(
            ApprovalDecided(
                session_id=session.session_id,
                at=session.clock(),
                call_id=call.call_id,
                decided=decided,
                principal=(call.caller or NOBODY).principal,
            ),
            (ApprovalUsed(decided.approval_id),),
        )
        self.apply(call, decided, is_doubt=is_doubt)

    async def go_on(self, call: Call, request: ApprovalRequest, decided: Decided | None) -> None:
        """Take up a call that waited, with the decision on it if there is one."""
        is_doubt = is_about_doubt(request)
        if decided is None:
            self.refuse_denied(call, is_doubt=is_doubt)
        if is_doubt:
            call.failure = Failure("in_doubt", request.reason)
        elif decided is None:
            decided = await self._decide_by_grant(call, request)
        if decided is None:
            await self._settle(call, request)
        else:
            await self._obey(call, request, decided)

    def refuse_denied(self, call: Call, *, is_doubt: bool = False) -> None:
        """End a call that the policy denies by now. No yes, whoever gave it, beats that."""
        verdict = self.judge(call, subject_of(call))
        if verdict.effect == "deny":
            call.decided_by = Actor("rule", verdict.rule)
            raise CallEnded("in_doubt" if is_doubt else "not_permitted", verdict.reason)

    def explain(self, call: Call) -> Explanation:
        """How every rule takes part in deciding a call."""
        subject = subject_of(call)
        policy = self._policy
        if policy is None:
            return Explanation(subject.tool.id, self.judge(call, subject), ())
        return replace(policy.explain(subject), verdict=self.judge(call, subject))

    async def _file(
        self,
        call: Call,
        verdict: Verdict,
        state: OpenCallState,
        changes: tuple[str, ...] = (),
        earlier: FiledApproval | None = None,
    ) -> ApprovalRequest:
        session = self._session
        supersedes = None if earlier is None else earlier.request.approval_id
        request = request_for(call, verdict, changes=changes, supersedes=supersedes)
        call.approval_id = request.approval_id
        calls = calls_of(session)
        # Claimed before it is filed: from then on another task could take the call up.
        calls.claimed.add(call.call_id)
        calls.waiting.add(call.call_id)
        await ask_store(session.store, session.save_settings)
        await session.record(
            ApprovalRequested(
                session_id=session.session_id,
                at=request.created_at,
                call_id=call.call_id,
                request=request,
            ),
            (
                *(() if supersedes is None else (ApprovalUsed(supersedes),)),
                ApprovalFiled(request),
                CallOpened(open_call(call, state)),
            ),
        )
        if earlier is not None:
            await session.record(superseded(request, earlier))
        return request

    async def _settle(self, call: Call, request: ApprovalRequest) -> None:
        """Ask whoever can answer now; without a clear answer the call does not run."""
        session = self._session
        asked_at = session.clock()
        # The request is filed already: if this process dies while the approver thinks, the call
        # waits in the store and anybody can decide it.
        with waiting_for_person(call, runs=False):
            reply = await self._ask_approver(request)
        call.waited += max(0.0, session.clock() - asked_at)
        if reply is not None:
            await self._record_reply(request, reply)
        elif request.deadline is not None:
            await session.approvals.expire()
        decided = await self._decision_on(request)
        if decided is None and call.is_nested and await wait_for_decision(call, request):
            await session.approvals.expire()
            decided = await self._decision_on(request)
        if decided is not None:
            await self._obey(call, request, decided)
        elif session.unanswered == "deny" or call.is_nested:
            await self._deny_unanswered(call, request)
        else:
            raise CallSuspended(deepcopy(request))

    async def _ask_approver(self, request: ApprovalRequest) -> Reply | None:
        if self._approver is None:
            return None
        left = None
        if request.deadline is not None:
            left = max(0.0, request.deadline - self._session.clock())
        try:
            async with asyncio.timeout(left):
                # A copy: whoever edits what it was shown must not edit the record of it.
                answer: object = await self._approver.ask(deepcopy(request))
        except TimeoutError:
            return None
        except asyncio.CancelledError:
            if _is_being_cancelled():
                raise
            logger.warning("the approver left %s unanswered; nothing runs", request.approval_id)
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
                request.approval_id,
                reply.decision,
                by=reply.actor,
                grant=reply.grant,
                authority=reply.authority,
            )
        except InvalidDecision as error:
            # Somebody else was faster, or the edit does not fit: the filed decision, if there is
            # one, counts.
            logger.warning("an answer to %s was not taken: %s", request.approval_id, error)

    async def _deny_unanswered(self, call: Call, request: ApprovalRequest) -> None:
        """Where nobody can decide while its caller runs, a nested call cannot wait."""
        nested = " A nested call cannot wait for one." if call.is_nested else ""
        denial = Deny(f"`{call.name}` needs approval and nobody is here to give it.{nested}")
        decided = Decided(
            request.approval_id,
            request.digest,
            denial,
            Actor("rule", "unanswered"),
            self._session.clock(),
        )
        await ask_store(self._session.store, self._session.store.decide, decided)
        # Somebody may have answered at the last moment; what is filed counts.
        await self._obey(call, request, await self._decision_on(request) or decided)

    async def _decision_on(self, request: ApprovalRequest) -> Decided | None:
        """The decision that is filed and has not been acted on."""
        session = self._session
        filed = await ask_store(session.store, session.store.approval, request.approval_id)
        return filed.decided if filed is not None and filed.state == "decided" else None

    async def _obey(self, call: Call, request: ApprovalRequest, decided: Decided) -> None:
        """Act on a decision. It is used up in the same step as it enters the ledger."""
        session = self._session
        call.decided_by = decided.actor
        # Before it is used up: a decision on another call than this one lets nothing run.
        _check_digest(call, decided)
        check_decided(request, decided)
        await session.record(
            ApprovalDecided(
                session_id=session.session_id,
                at=session.clock(),
                call_id=call.call_id,
                decided=decided,
                principal=(call.caller or NOBODY).principal,
            ),
            (
                ApprovalUsed(request.approval_id),
                CallOpened(open_call(call, "waiting", decided)),
            ),
        )
        self.apply(call, decided, is_doubt=is_about_doubt(request))

    def apply(self, call: Call, decided: Decided, *, is_doubt: bool = False) -> None:
        """Do to the call what was decided."""
        _check_digest(call, decided)
        call.decided_by = decided.actor
        call.failure = None
        match decided.decision:
            case Approve(arguments=edited):
                if edited is not None:
                    self._edit(call, edited)
                # The policy may have changed since the question, and edited arguments are new to
                # it: a deny rule beats any yes.
                self.refuse_denied(call, is_doubt=is_doubt)
                check_approvers(self.judge(call, subject_of(call)), decided)
                _approve(call)
            case Deny(reason=reason):
                raise CallEnded("in_doubt" if is_doubt else "denied", reason)
            case Answer(value=value):
                call.succeed(value)
            case Expire():
                raise CallEnded("expired", f"Nobody approved `{call.name}` in time; nothing ran.")
            case _:
                assert_never(decided.decision)

    def _edit(self, call: Call, edited: dict[str, Any]) -> None:
        """Put edited arguments in place: they are validated and frozen like any others."""
        names, shown = call.tool.params.names, from_json(call.arguments)
        if names is not None:
            edited = names.respell(edited, names.shape)
        if call.tool.redactor is not None:
            edited = restore_secrets(edited, shown)
        call.arguments = to_json(edited)
        call.freeze()
        take(call, call.arguments, after=" after they were edited")
        call.freeze()
        call.was_edited = True
        pointer = changed_unseen(shown, edited, from_json(call.arguments))
        if pointer is not None:
            raise CallEnded(
                "invalid_arguments",
                f"`{call.name}` was not run: with the edit, validation changes {pointer}, which "
                "the edit left as it was shown. Deny the call, and let the model call again.",
            )

    async def _decide_by_grant(self, call: Call, request: ApprovalRequest) -> Decided | None:
        """Let a grant answer a filed request, unless somebody has: an exact decision comes first.

        The answer is filed before the call runs, so that nobody can deny it in vain meanwhile.
        """
        session = self._session
        if request.deadline is not None and session.clock() >= request.deadline:
            return None
        subject = subject_of(call)
        # Those of the rules now, too: they may have changed since the question.
        approvers = (*request.approvers, *self.judge(call, subject).approvers)
        grant = await self._take_grant(call, subject, approvers)
        if grant is None:
            return None
        actor = Actor("grant", grant.grant_id)
        decided = Decided(request.approval_id, request.digest, Approve(), actor, session.clock())
        if not await ask_store(session.store, session.store.decide, decided):
            return await self._decision_on(request)
        await session.approvals.note_use(grant, call.call_id)
        return decided

    async def _take_grant(
        self, call: Call, subject: Subject, approvers: Sequence[Quorum]
    ) -> Grant | None:
        """Take one use of a grant that covers the call, if there is one."""
        session = self._session
        if needed(approvers) > 1:
            return None
        await session.approvals.expire()
        now = session.clock()
        live = await ask_store(session.store, self._grants_of, subject.tool.id)
        for grant in live:
            is_covered = grant.meets(approvers) and grant.covers(
                subject, session_id=session.session_id, now=now, call_id=call.call_id
            )
            if not is_covered:
                continue
            # The store decides: another process may have taken the last use since the listing.
            if await ask_store(session.store, session.store.use_grant, grant.grant_id, now):
                return grant
        return None

    async def _changes_since_grant(self, call: Call, subject: Subject) -> tuple[str, ...]:
        """What changed since a grant covered calls like this one; nothing when none did."""
        session = self._session
        now = session.clock()
        for grant in await ask_store(session.store, self._grants_of, subject.tool.id):
            earlier = replace(subject, tool=replace(subject.tool, digest=grant.tool_digest))
            if earlier != subject and grant.covers(
                earlier, session_id=session.session_id, now=now, call_id=call.call_id
            ):
                return changes_since(grant, call.tool)
        return ()

    def _grants_of(self, tool_id: str) -> list[Grant]:
        store = self._session.store
        return list(every(lambda cursor: store.grants(tool_id=tool_id, cursor=cursor)))


def subject_of(call: Call) -> Subject:
    """The frozen call as a policy sees it."""
    tool = call.tool.tool
    return Subject(
        tool=call.tool.ref,
        arguments=from_json(call.arguments),
        names=call.tool.params.names,
        is_read_only=tool.is_read_only,
        requires_approval=tool.requires_approval,
        kind=kind_of(tool),
        provider=provider_of(tool),
        caller=call.caller or NOBODY,
    )


def _approve(call: Call) -> None:
    call.is_approved = True
    if call.context is not None:
        call.context.tool_call_approved = True
        decided_by = call.decided_by
        call.context.approved_when_asked = decided_by is None or decided_by.kind != "grant"


def _check_digest(call: Call, decided: Decided) -> None:
    if decided.digest != digest(call):
        raise CallEnded("unavailable", f"`{call.name}` is not the call that was decided.")


def _is_being_cancelled() -> bool:
    """Whether this task is to stop; else the cancelled thing was the approver's own."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0

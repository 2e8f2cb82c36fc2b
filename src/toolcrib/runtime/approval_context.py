"""What a person should know before they decide: where the call comes from, which rule asked, and
what is different from the last time.

Whoever may see a request may read this about it: the words around the call belong to the question.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, cast

from toolcrib.approval.authority import is_enough, is_own, is_routed_to, needed
from toolcrib.approval.decision import Actor, Approve
from toolcrib.approval.early_approval import why_too_early
from toolcrib.approval.quorum import quorum_text
from toolcrib.errors import SessionNotFound
from toolcrib.ledger.prompt_events import ModelResponded, PromptStarted
from toolcrib.runtime.approval_messages import (
    ApprovalContext,
    ApprovedCall,
    ArgumentChange,
    AskingRule,
    DecisionWay,
    ToolRisk,
    Unanswered,
)
from toolcrib.runtime.approval_operations import authority_of, viewer_of
from toolcrib.runtime.model_items import answer_in
from toolcrib.runtime.ownership import may_see
from toolcrib.store.approval_query import ApprovalQuery
from toolcrib.tools.faults import pointer_of
from toolcrib.tools.identity import changes_between

if TYPE_CHECKING:
    from toolcrib.approval.decision import ApprovalRequest
    from toolcrib.approval.policy import Policy
    from toolcrib.runtime.config import RuntimeConfig
    from toolcrib.runtime.live_session import LiveSession
    from toolcrib.runtime.principal import Principal
    from toolcrib.store.store import FiledApproval, Store
    from toolcrib.tools.tool import Tool

_LONGEST: Final = 2_000
_LAST_RECORDS: Final = 2_000
"""Among how many, from the end, the words before the call are looked for."""
_MOST_CHANGES: Final = 100


def context_of(
    store: Store,
    filed: FiledApproval,
    live: LiveSession | None,
    config: RuntimeConfig,
    who: Principal,
) -> ApprovalContext:
    """The context of a request that `who` may see. May read from disk, a bounded part of one
    ledger.
    """
    request = filed.request
    owner, prompt, last_words = _owner(store, request), None, None
    if request.turn:
        prompt, last_words = _words_before(store, request)
    last = _last_approved(store, request, who)
    ways, why_not = ways_of(filed, config, who, store.clock())
    tool = _tool_now(request, live)
    return ApprovalContext(
        approval_id=request.approval_id,
        session_id=request.session_id,
        session_title=_title(store, request.session_id),
        session_owner=owner,
        may_read_session=may_see(who, owner) and (who.may("caller") or who.may("auditor")),
        prompt=prompt,
        last_words=last_words,
        description=None if tool is None else tool.description,
        risk=None if tool is None else risk_of(tool),
        rule=_rule(request, config.policy),
        unanswered=_unanswered(request, live),
        last_approved=None if last is None else _approved_call(last),
        argument_changes=[] if last is None else argument_changes(last.request, request),
        tool_changes=_tool_changes(request, last, live),
        superseded_by=_superseded_by(store, filed, who),
        ways=ways,
        why_not=why_not,
    )


def ways_of(
    filed: FiledApproval, config: RuntimeConfig, who: Principal, now: float
) -> tuple[list[DecisionWay], str | None]:
    """What a principal may do about a request, and why not more."""
    request, authority = filed.request, authority_of(who, config)
    actor = Actor("person", who.name)
    if filed.state != "pending" or not who.may("approver"):
        return [], None
    if not is_routed_to(request.approvers, authority):
        needs = " and ".join(map(quorum_text, request.approvers))
        return [], f"This request is for the approvers of {needs}."
    if is_own(request, actor, authority):
        return ["deny"], "You asked for this call, so somebody else has to approve it."
    votes = filed.ballot.votes if filed.ballot is not None else ()
    if any(vote.actor == actor for vote in votes):
        return ["deny"], "You have approved this request; it needs somebody else too."
    if (reason := why_too_early(request, now)) is not None:
        return ["deny"], reason
    ways: list[DecisionWay] = ["approve", "edit", "deny"]
    if is_enough(request.approvers, actor, authority):
        ways.append("answer")
    if needed(request.approvers) == 1:
        ways.append("grant")
        if authority.is_admin:
            ways.append("grant_everyone")
    return ways, None


def risk_of(tool: Tool[Any, Any]) -> ToolRisk:
    """What a tool says about its effects."""
    if tool.is_read_only:
        return "read_only"
    return "idempotent" if tool.is_idempotent else "changes"


def argument_changes(before: ApprovalRequest, after: ApprovalRequest) -> list[ArgumentChange]:
    """The arguments that are not as in an earlier request."""
    return list(islice(_differences(before.arguments, after.arguments, ()), _MOST_CHANGES))


def _differences(
    before: Mapping[str, Any], after: Mapping[str, Any], at: tuple[str, ...]
) -> Iterator[ArgumentChange]:
    for name in [*before, *(name for name in after if name not in before)]:
        path = (*at, name)
        old, new, pointer = before.get(name), after.get(name), pointer_of(path)
        if name not in after:
            yield ArgumentChange(pointer=pointer, change="removed", before=old)
        elif name not in before:
            yield ArgumentChange(pointer=pointer, change="added", after=new)
        elif isinstance(old, dict) and isinstance(new, dict):
            yield from _differences(cast("dict[str, Any]", old), cast("dict[str, Any]", new), path)
        elif old != new:
            yield ArgumentChange(pointer=pointer, change="changed", before=old, after=new)


def _owner(store: Store, request: ApprovalRequest) -> str | None:
    try:
        return store.session(request.session_id).owner
    except SessionNotFound:
        return None


def _title(store: Store, session_id: str) -> str | None:
    summary = store.summaries([session_id]).get(session_id)
    return None if summary is None else summary.title


def _words_before(store: Store, request: ApprovalRequest) -> tuple[str | None, str | None]:
    """The prompt of the turn, and what the model said last in it."""
    last_words = None
    try:
        head = store.head(request.session_id)
        records = store.records(
            request.session_id,
            after=max(0, (head.seq if head else 0) - _LAST_RECORDS),
            kinds=(PromptStarted.kind, ModelResponded.kind),
            newest_first=True,
        )
        for record in records:
            if record.payload is None or record.at > request.created_at:
                continue
            match record.event:
                case PromptStarted(turn=request.turn, text=text):
                    return text[:_LONGEST], last_words
                case ModelResponded(turn=request.turn, items=items) if last_words is None:
                    last_words = answer_in(items).strip()[-_LONGEST:] or None
                case _:
                    pass
    except SessionNotFound:
        pass
    return None, last_words


def _last_approved(store: Store, request: ApprovalRequest, who: Principal) -> FiledApproval | None:
    query = ApprovalQuery(
        viewer=viewer_of(who), tool=request.tool.name, is_approved=True, newest_first=True
    )
    for filed in store.inbox(query, limit=5).items:
        is_same_tool = filed.request.tool.source == request.tool.source
        if is_same_tool and filed.request.approval_id != request.approval_id:
            return filed
    return None


def _approved_call(filed: FiledApproval) -> ApprovedCall | None:
    request, decided = filed.request, filed.decided
    if decided is None:
        return None
    decision = decided.decision
    return ApprovedCall(
        approval_id=request.approval_id,
        session_id=request.session_id,
        by=decided.actor.name,
        at=decided.at,
        principal=request.caller.principal,
        arguments=request.arguments,
        was_edited=isinstance(decision, Approve) and decision.arguments is not None,
    )


def _tool_now(request: ApprovalRequest, live: LiveSession | None) -> Tool[Any, Any] | None:
    prepared = None if live is None else live.executor.tools.get(request.tool.name)
    return None if prepared is None else prepared.tool


def _tool_changes(
    request: ApprovalRequest, last: FiledApproval | None, live: LiveSession | None
) -> list[str]:
    changes = list(request.changes)
    if last is not None and last.request.tool.digest != request.tool.digest:
        parts = changes_between(last.request.tool_parts, request.tool_parts)
        changes += [each for each in parts if each not in changes]
    prepared = None if live is None else live.executor.tools.get(request.tool.name)
    if prepared is not None and prepared.ref.digest != request.tool.digest:
        changes.append(
            "the tool has changed since this request was made: a new one takes its place when the "
            "call goes on"
        )
        changes += changes_between(request.tool_parts, prepared.identity.parts)
    return changes


def _rule(request: ApprovalRequest, policy: Policy | None) -> AskingRule:
    rules = () if policy is None else policy.rules
    rule = next((each for each in rules if each.id == request.rule), None)
    is_in_file = rule is not None and rule.file is not None
    return AskingRule(
        id=request.rule,
        reason=request.reason,
        # Where the file lies on the host is nobody's business.
        file=os.path.basename(rule.file) if rule and rule.file else None,
        line=rule.line if rule and is_in_file else None,
    )


def _unanswered(request: ApprovalRequest, live: LiveSession | None) -> Unanswered:
    if request.deadline is not None:
        return "expires"
    denies = live is not None and live.session.unanswered == "deny"
    return "denied" if denies or request.parent_call_id is not None else "waits"


def _superseded_by(store: Store, filed: FiledApproval, who: Principal) -> str | None:
    """The request that took the place of a closed one."""
    request = filed.request
    if filed.state != "used":
        return None
    query = ApprovalQuery(
        viewer=viewer_of(who),
        session_id=request.session_id,
        tool=request.tool.name,
        newest_first=True,
    )
    page = store.inbox(query, limit=100)
    newer = (each.request for each in page.items if each.request.supersedes == request.approval_id)
    return next((each.approval_id for each in newer), None)

"""The question about a call: what whoever decides gets to see."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json, to_json

from toolcrib.approval.authority import check_votes, is_met
from toolcrib.approval.caller import NOBODY
from toolcrib.approval.decision import ApprovalRequest, Approve, Decided
from toolcrib.approval.early_approval import check_time, time_text
from toolcrib.approval.edit import check_edit
from toolcrib.approval.quorum import quorum_text
from toolcrib.approval.rule import Verdict
from toolcrib.calls.digest import digest
from toolcrib.calls.redaction import scrub, shown_arguments
from toolcrib.errors import CallEnded, InvalidDecision
from toolcrib.ledger.events import ApprovalSuperseded
from toolcrib.tools.identity import changes_between

if TYPE_CHECKING:
    from toolcrib.approval.grant import Grant
    from toolcrib.calls.call import Call
    from toolcrib.store.store import FiledApproval
    from toolcrib.tools.prepared_tool import PreparedTool

logger = logging.getLogger(__name__)

LISTED = Verdict("ask", "need_user_approve_tools", "The session asks before this tool runs.")
ASKED_BY_TOOL = Verdict("ask", "tool", "The tool asks for approval of this call.")
IN_DOUBT = Verdict(
    "ask",
    "in_doubt",
    "The process died while this call ran: it may or may not have taken effect. "
    "Approving runs it again.",
)


def doubt_about(call: Call) -> Verdict:
    """Why somebody is asked about a call in doubt, with what is known of its process."""
    until = call.may_run_until
    if until is None:
        return IN_DOUBT
    return replace(
        IN_DOUBT,
        reason="Another process ran this call and did not record its end: it may or may not have "
        f"taken effect. The other process is not known to be dead and may run it until "
        f"{time_text(until)}. Approving runs it again, and is possible from then on.",
    )


CHANGED = Verdict(
    "ask",
    "tool_changed",
    "The tool has changed since this call was made; no earlier decision counts.",
)


def request_for(
    call: Call,
    verdict: Verdict,
    *,
    changes: tuple[str, ...] = (),
    supersedes: str | None = None,
) -> ApprovalRequest:
    """A new request about a frozen call, bound to its digest. `changes` say what is new about the
    tool, in place of the request `supersedes`.
    """
    session = call.session
    now = session.clock()
    limit = verdict.deadline_seconds
    names = call.tool.params.names
    return ApprovalRequest(
        approval_id=f"apr_{uuid.uuid4().hex[:16]}",
        session_id=session.session_id,
        call_id=call.call_id,
        tool=call.tool.ref,
        arguments=shown_arguments(call),
        digest=digest(call),
        rule=verdict.rule,
        reason=verdict.reason,
        created_at=now,
        deadline=None if limit is None else now + limit,
        approvable_at=call.may_run_until if verdict.rule == IN_DOUBT.rule else None,
        parameters=call.tool.declaration.parameters,
        argument_names=dict(names.spellings) if names is not None else {},
        metadata=_metadata(call),
        changes=changes,
        supersedes=supersedes,
        tool_parts=dict(call.tool.identity.parts),
        parent_call_id=call.parent_call_id,
        turn=call.turn,
        caller=call.caller or NOBODY,
        approvers=verdict.approvers,
    )


def superseded(request: ApprovalRequest, earlier: FiledApproval) -> ApprovalSuperseded:
    """The event that a request took the place of an earlier one, whose decision is void."""
    return ApprovalSuperseded(
        session_id=request.session_id,
        at=request.created_at,
        call_id=request.call_id,
        approval_id=earlier.request.approval_id,
        superseded_by=request.approval_id,
        void=earlier.decided,
        changes=request.changes,
    )


def changes_since(grant: Grant, tool: PreparedTool) -> tuple[str, ...]:
    """What changed in a tool since a grant covered it, after a word about the grant."""
    time = datetime.fromtimestamp(grant.created_at, UTC).strftime("%Y-%m-%d %H:%M")
    mention = f"a grant by {grant.created_by.name} of {time} covered the earlier tool"
    return (mention, *changes_between(grant.tool_parts, tool.identity.parts))


def is_about_doubt(request: ApprovalRequest) -> bool:
    """Whether the question is if a call that may have run should run again."""
    return request.rule == IN_DOUBT.rule


def check_decided(request: ApprovalRequest, decided: Decided) -> None:
    """End a call whose edit does not fit, or that fewer people approved than have to: other
    processes may file decisions unchecked.
    """
    try:
        check_votes(request, decided)
        if request.approvable_at is not None:
            check_time(request, decided)
    except InvalidDecision as error:
        raise CallEnded("unavailable", f"The call was not run: {error}.") from None
    edited = decided.decision.arguments if isinstance(decided.decision, Approve) else None
    if edited is None:
        return
    try:
        check_edit(request, edited)
    except InvalidDecision as error:
        raise CallEnded("invalid_arguments", f"The call was not run: {error}.") from None


def check_approvers(verdict: Verdict, decided: Decided) -> None:
    """End a call for which the rules demand approvers that it does not have: its arguments were
    edited since they were judged, or the rules have changed.
    """
    if decided.actor.kind == "grant" or not verdict.approvers:
        return
    if not is_met(verdict.approvers, decided.votes):
        needs = " and ".join(map(quorum_text, verdict.approvers))
        raise CallEnded(
            "not_permitted",
            f"The call was not run: with these arguments it needs the approval of {needs}.",
        )


def _metadata(call: Call) -> dict[str, Any] | None:
    """What the tool tells approvers. A viewer that fails must neither open nor block the gate, and
    one that quotes a secret must not publish it.
    """
    metadata: Mapping[str, Any] | None = call.approval_metadata or None
    viewer = call.tool.tool.approval_metadata
    if metadata is None and viewer is not None:
        try:
            metadata = viewer()
        except Exception:
            logger.exception("the approval metadata of %s failed", call.name)
    try:
        return None if metadata is None else scrub(call, from_json(to_json(metadata)))
    except ValueError:
        logger.warning("the approval metadata of %s is not JSON", call.name)
        return None

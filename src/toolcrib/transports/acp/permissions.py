"""Approval requests as permission requests to the person at the editor."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from acp.schema import (
    AllowedOutcome,
    PermissionOption,
    PermissionOptionKind,
    RequestPermissionRequest,
    ToolCallUpdate,
    ToolKind,
)

from toolcrib.errors import ClientGone, EditorFailed, Refused
from toolcrib.runtime.approval_operations import asker_text, may_approve
from toolcrib.transports.acp.tool_calls import (
    locations_of,
    proposed_edit,
    text_content,
    title_of,
)

if TYPE_CHECKING:
    from toolcrib.approval.decision import GrantScope
    from toolcrib.runtime.approval_messages import ApprovalFacts
    from toolcrib.runtime.principal import Principal
    from toolcrib.runtime.runtime import Runtime
    from toolcrib.transports.acp.editor import Editor

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PermissionChoice:
    """An option for the person, and the decision that it stands for."""

    name: str
    kind: PermissionOptionKind
    decision: Literal["approve", "deny"]
    grant: GrantScope | None = None
    is_for_session: bool = False
    """Whether later calls of the tool in the session are denied without a request."""


CHOICES: Final[dict[str, PermissionChoice]] = {
    "allow": PermissionChoice("Allow once", "allow_once", "approve"),
    # Before the longer grant: a client that chooses by kind alone gets the lesser one.
    "allow_session": PermissionChoice(
        "Allow for this session", "allow_always", "approve", "session"
    ),
    "allow_principal": PermissionChoice(
        "Allow my calls for 30 days", "allow_always", "approve", "principal"
    ),
    "reject": PermissionChoice("Reject", "reject_once", "deny"),
    "reject_session": PermissionChoice(
        "Reject for this session", "reject_always", "deny", is_for_session=True
    ),
}


class Permissions:
    """Requests permission for approval requests, each once at a time. Only a clear answer decides:
    when the editor fails, disconnects or sends an unknown option, the request stays pending.
    """

    def __init__(self, runtime: Runtime, who: Principal, editor: Editor) -> None:
        self._runtime = runtime
        self._who = who
        self._editor = editor
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._of_call: dict[tuple[str, str], str] = {}
        self._rejected: set[tuple[str, str]] = set()

    def ask(self, approval_id: str, kind: ToolKind) -> None:
        """Request permission, unless that is under way or this principal may not approve."""
        if approval_id in self._asking or not self._who.may("approver"):
            return
        task = asyncio.ensure_future(self._ask(approval_id, kind))
        self._asking[approval_id] = task
        task.add_done_callback(lambda _: self._asking.pop(approval_id, None))

    def settled(self, approval_id: str) -> None:
        """The request was decided elsewhere; the editor's answer no longer counts."""
        if (task := self._asking.get(approval_id)) is not None:
            task.cancel()

    def ended(self, session_id: str, call_id: str) -> None:
        """The call has ended, also without a decision: cancelled or expired."""
        if approval_id := self._of_call.pop((session_id, call_id), None):
            self.settled(approval_id)

    def close(self) -> None:
        """The editor has disconnected; its requests stay pending."""
        for task in tuple(self._asking.values()):
            task.cancel()

    async def _ask(self, approval_id: str, kind: ToolKind) -> None:
        try:
            approval = await self._runtime.ask(
                "approvals.get", {"approval_id": approval_id}, self._who
            )
            if approval.state == "pending" and may_approve(
                approval, self._who, self._runtime.config
            ):
                self._of_call[approval.session_id, approval.call_id] = approval_id
                await self._decide(approval, await self._answer(approval, kind))
        except ClientGone:
            return
        except EditorFailed as error:
            _log.warning("permission for approval %s was not requested: %s", approval_id, error)
        except Refused as refused:
            _log.warning("approval %s was not decided: %s", approval_id, refused.message)
        except Exception:
            _log.exception("requesting permission for approval %s failed", approval_id)

    async def _answer(self, approval: ApprovalFacts, kind: ToolKind) -> PermissionChoice | None:
        """The choice of the person; None when the answer is unclear."""
        if (approval.session_id, approval.tool) in self._rejected:
            return CHOICES["reject_session"]
        choices = self._choices(approval)
        outcome = (await self._editor.permission(_request(approval, kind, choices))).outcome
        if not isinstance(outcome, AllowedOutcome):
            return CHOICES["reject"]
        return choices.get(outcome.option_id)

    def _choices(self, approval: ApprovalFacts) -> dict[str, PermissionChoice]:
        """The options for a request. No grant stands for several approvers, and one that is to
        outlive the session needs a store that outlives the program.
        """
        if any(quorum.count > 1 for quorum in approval.approvers):
            return {name: choice for name, choice in CHOICES.items() if choice.grant is None}
        is_lasting = self._runtime.store.is_durable and approval.caller.principal is not None
        return {
            name: choice
            for name, choice in CHOICES.items()
            if choice.grant != "principal" or is_lasting
        }

    async def _decide(self, approval: ApprovalFacts, choice: PermissionChoice | None) -> None:
        if choice is None:
            _log.warning("approval %s: the client sent an unknown option", approval.approval_id)
            return
        if choice.is_for_session:
            self._rejected.add((approval.session_id, approval.tool))
        decision: dict[str, Any] = {
            "approval_id": approval.approval_id,
            "decision": choice.decision,
            "digest": approval.digest,
        }
        if choice.grant is not None:
            decision["grant"] = {"scope": choice.grant}
        # The event of this very decision cancels this task; the decision must not be cut short.
        await asyncio.shield(self._runtime.ask("approvals.decide", decision, self._who))


def _request(
    approval: ApprovalFacts, kind: ToolKind, choices: Mapping[str, PermissionChoice]
) -> RequestPermissionRequest:
    """The permission request, with all that the decision is about."""
    call = ToolCallUpdate(
        tool_call_id=approval.call_id,
        title=title_of(approval.tool, approval.arguments),
        kind=kind,
        status="pending",
        raw_input=approval.arguments,
        content=[
            *proposed_edit(approval.tool, approval.arguments),
            text_content(approval.reason),
            text_content(f"Asked by {asker_text(approval)}"),
            *(text_content(f"Changed: {change}") for change in approval.changes),
        ],
        locations=locations_of(approval.arguments),
    )
    options = [
        PermissionOption(option_id=option_id, name=choice.name, kind=choice.kind)
        for option_id, choice in choices.items()
    ]
    meta = {"toolcrib": {"approvalId": approval.approval_id, "rule": approval.rule}}
    return RequestPermissionRequest(
        session_id=approval.session_id, tool_call=call, options=options, field_meta=meta
    )

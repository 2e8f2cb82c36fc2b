"""Requests for approval, put to the person in front of the editor."""

from __future__ import annotations

import asyncio
import logging
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
from toolcrib.transports.acp.tool_calls import (
    locations_of,
    proposed_edit,
    text_content,
    title_of,
)

if TYPE_CHECKING:
    from toolcrib.approval.decision import GrantScope
    from toolcrib.runtime.messages import ApprovalFacts
    from toolcrib.runtime.principal import Principal
    from toolcrib.runtime.runtime import Runtime
    from toolcrib.transports.acp.editor import Editor

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PermissionChoice:
    """One answer that a person may give, and what it comes to."""

    name: str
    kind: PermissionOptionKind
    decision: Literal["approve", "deny"]
    grant: GrantScope | None = None
    is_for_session: bool = False
    """Whether later calls of the tool in the session are denied without asking."""


CHOICES: Final[dict[str, PermissionChoice]] = {
    "allow": PermissionChoice("Allow once", "allow_once", "approve"),
    # Before the grant without an end: who chooses by the kind alone gets the lesser one.
    "allow_session": PermissionChoice(
        "Allow for this session", "allow_always", "approve", "session"
    ),
    "allow_always": PermissionChoice("Always allow", "allow_always", "approve", "always"),
    "reject": PermissionChoice("Reject", "reject_once", "deny"),
    "reject_session": PermissionChoice(
        "Reject for this session", "reject_always", "deny", is_for_session=True
    ),
}


class Permissions:
    """Asks for each request once at a time. Only a clear answer decides anything: when the client
    fails, leaves or says what was not offered, the request stays as it is.
    """

    def __init__(self, runtime: Runtime, who: Principal, editor: Editor) -> None:
        self._runtime = runtime
        self._who = who
        self._editor = editor
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._of_call: dict[tuple[str, str], str] = {}
        self._rejected: set[tuple[str, str]] = set()

    def ask(self, approval_id: str, kind: ToolKind) -> None:
        """Begin to ask, unless that goes on already or this client may not approve."""
        if approval_id in self._asking or not self._who.may("approve"):
            return
        task = asyncio.ensure_future(self._ask(approval_id, kind))
        self._asking[approval_id] = task
        task.add_done_callback(lambda _: self._asking.pop(approval_id, None))

    def settled(self, approval_id: str) -> None:
        """The request was decided; an answer of the client's no longer counts."""
        if (task := self._asking.get(approval_id)) is not None:
            task.cancel()

    def ended(self, session_id: str, call_id: str) -> None:
        """The call is over, decided or not: cancelled, say, or out of time."""
        if approval_id := self._of_call.pop((session_id, call_id), None):
            self.settled(approval_id)

    def close(self) -> None:
        """The client is gone. What it was asked stays to be decided."""
        for task in tuple(self._asking.values()):
            task.cancel()

    async def _ask(self, approval_id: str, kind: ToolKind) -> None:
        try:
            asked = await self._runtime.ask(
                "approvals.get", {"approval_id": approval_id}, self._who
            )
            if asked.state == "pending":
                self._of_call[asked.session_id, asked.call_id] = approval_id
                await self._decide(asked, await self._answer(asked, kind))
        except ClientGone:
            return
        except EditorFailed as error:
            _log.warning("nobody was asked for approval %s: %s", approval_id, error)
        except Refused as refused:
            _log.warning("approval %s was not decided: %s", approval_id, refused.message)
        except Exception:
            _log.exception("asking for approval %s failed", approval_id)

    async def _answer(self, asked: ApprovalFacts, kind: ToolKind) -> PermissionChoice | None:
        """What the person chose; None when the answer is not clear."""
        if (asked.session_id, asked.tool) in self._rejected:
            return CHOICES["reject_session"]
        outcome = (await self._editor.permission(_request(asked, kind))).outcome
        if not isinstance(outcome, AllowedOutcome):
            return CHOICES["reject"]
        return CHOICES.get(outcome.option_id)

    async def _decide(self, asked: ApprovalFacts, choice: PermissionChoice | None) -> None:
        if choice is None:
            _log.warning(
                "approval %s: the client chose nothing that was offered", asked.approval_id
            )
            return
        if choice.is_for_session:
            self._rejected.add((asked.session_id, asked.tool))
        decision: dict[str, Any] = {
            "approval_id": asked.approval_id,
            "decision": choice.decision,
            "digest": asked.digest,
        }
        if choice.grant is not None:
            decision["grant"] = choice.grant
        # Not to be cancelled halfway by the event that tells of this very decision.
        await asyncio.shield(self._runtime.ask("approvals.decide", decision, self._who))


def _request(asked: ApprovalFacts, kind: ToolKind) -> RequestPermissionRequest:
    """A request, with all that the decision is about."""
    call = ToolCallUpdate(
        tool_call_id=asked.call_id,
        title=title_of(asked.tool, asked.arguments),
        kind=kind,
        status="pending",
        raw_input=asked.arguments,
        content=[*proposed_edit(asked.tool, asked.arguments), text_content(asked.reason)],
        locations=locations_of(asked.arguments),
    )
    options = [
        PermissionOption(option_id=option_id, name=choice.name, kind=choice.kind)
        for option_id, choice in CHOICES.items()
    ]
    meta = {"toolcrib": {"approvalId": asked.approval_id, "rule": asked.rule}}
    return RequestPermissionRequest(
        session_id=asked.session_id, tool_call=call, options=options, field_meta=meta
    )

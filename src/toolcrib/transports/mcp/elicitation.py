"""Approval by elicitation: a form for the person at the client, and the decision in its answer."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from mcp.shared.exceptions import MCPError
from mcp_types import ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequiredResult

from toolcrib.approval.panel import shown_json
from toolcrib.errors import Refused
from toolcrib.runtime.approval_operations import asker_text, authority_of
from toolcrib.terminal_text import showable
from toolcrib.transports.mcp.questions import can_show_forms

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp_types import CallToolRequestParams

    from toolcrib.runtime.approval_messages import ApprovalFacts
    from toolcrib.runtime.principal import Principal
    from toolcrib.runtime.runtime import Runtime
    from toolcrib.transports.mcp.client_sessions import ClientSession
    from toolcrib.transports.mcp.options import ElicitedApproval

logger = logging.getLogger(__name__)

_KEY: Final = "approval"
_STATE: Final = "toolcrib-approval"
_MAX_CHARS: Final = 20_000
"""Nobody reads a longer form before they agree to it."""
_FORM: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "decision": {
            "type": "string",
            "title": "Decision",
            "description": "Whether the call may run, this once. To decline or close this form "
            "decides nothing: the call waits for somebody else.",
            "enum": ["approve", "deny"],
        },
        "reason": {
            "type": "string",
            "title": "Reason",
            "description": "Why not; the model is told. Only with a denial.",
        },
    },
    "required": ["decision"],
}


@dataclass(frozen=True, slots=True)
class ShownApproval:
    """The approval request that a form showed, which its answer decides and no other."""

    call_id: str
    approval_id: str
    digest: str

    def to_state(self) -> str:
        """The state that the client carries between two requests; the SDK seals it."""
        return f"{_STATE} {self.approval_id} {self.digest} {self.call_id}"

    def to_key(self) -> str:
        """The key of the form among the input requests of a task, which its answer comes under."""
        return f"{self.approval_id}:{self.digest}"


def shown_in(state: str | None) -> ShownApproval | None:
    """The request that the client was shown before; None without a state of this server."""
    kind, *rest = (state or "").split(" ", 3)
    if kind != _STATE or len(rest) != 3:
        return None
    approval_id, digest, call_id = rest
    return ShownApproval(call_id, approval_id, digest)


class ElicitedApprovals:
    """Asks the person at the client for decisions, where that is allowed and possible."""

    schema: Final[dict[str, Any]] = _FORM

    def __init__(self, runtime: Runtime, mode: ElicitedApproval) -> None:
        self._runtime = runtime
        self._mode = mode

    def may_ask(self, ctx: ServerRequestContext[Any, Any], client: ClientSession) -> bool:
        """Whether the client is trusted with decisions and can show a form."""
        trusted = self._mode == "always" or (self._mode == "role" and self._may_decide(client.who))
        return trusted and can_show_forms(ctx)

    def _may_decide(self, who: Principal) -> bool:
        """Whether an approver may decide its own calls: those of a client are its principal's."""
        return who.may("approver") and self._may_decide_own(who)

    def _may_decide_own(self, who: Principal) -> bool:
        return authority_of(who, self._runtime.config).may_approve_own

    async def facts(self, client: ClientSession, approval_id: str) -> ApprovalFacts:
        """The request, as the person at the client may see it."""
        body = {"approval_id": approval_id}
        return await self._runtime.ask("approvals.get", body, self._decider(client.who))

    async def form(
        self, client: ClientSession, approval_id: str
    ) -> tuple[ShownApproval, str] | None:
        """The request and the text of its form; None when the text is too long."""
        facts = await self.facts(client, approval_id)
        text = _text(facts)
        shown = ShownApproval(facts.call_id, approval_id, facts.digest)
        return (shown, text) if len(text) <= _MAX_CHARS else None

    async def elicit(
        self, ctx: ServerRequestContext[Any, Any], client: ClientSession, approval_id: str
    ) -> bool:
        """Send the form over the connection; True when the request is decided."""
        form = await self.form(client, approval_id)
        if form is None:
            return False
        shown, text = form
        try:
            answer = await ctx.session.elicit_form(text, _FORM, ctx.request_id)
        except (MCPError, ValueError) as error:
            logger.warning("the client did not answer about %s: %s", approval_id, error)
            return False
        return await self.decide(client, shown, answer)

    async def input_required(
        self, client: ClientSession, approval_id: str
    ) -> InputRequiredResult | None:
        """The form as a result; a stateless client repeats the call with its answer."""
        form = await self.form(client, approval_id)
        if form is None:
            return None
        shown, text = form
        params = ElicitRequestFormParams(message=text, requested_schema=_FORM)
        return InputRequiredResult(
            input_requests={_KEY: ElicitRequest(params=params)}, request_state=shown.to_state()
        )

    async def decide(self, client: ClientSession, shown: ShownApproval, answer: object) -> bool:
        """Record the decision in an answer; False when it has none. An earlier decision of somebody
        else stays.
        """
        decision = _decision(answer)
        if decision is None:
            return False
        params = {"approval_id": shown.approval_id, "digest": shown.digest, **decision}
        try:
            await self._runtime.ask("approvals.decide", params, self._decider(client.who))
        except Refused as refused:
            if refused.kind == "forbidden":
                logger.warning("%s was not decided: %s", shown.approval_id, refused.message)
                return False
            if refused.kind != "conflict":
                raise
        return True

    def _decider(self, who: Principal) -> Principal:
        """The person at the client as a principal. The mode `always` trusts every client with its
        own calls.
        """
        is_trusted = self._mode == "always" or self._may_decide_own(who)
        return replace(who, roles=who.roles | {"approver"}, may_approve_own=is_trusted)


def answer_in(params: CallToolRequestParams) -> object:
    """The answer to the form in a repeated call."""
    return (params.input_responses or {}).get(_KEY)


def _decision(answer: object) -> dict[str, Any] | None:
    """The decision in an answer; None when the answer is unclear. To decline is no decision: some
    clients decline every form by themselves, and nobody has seen it.
    """
    if not isinstance(answer, ElicitResult):
        return None
    match answer.action, (answer.content or {}).get("decision"):
        case "accept", "approve":
            return {"decision": "approve"}
        case "accept" | "decline", "deny":
            reason = (answer.content or {}).get("reason")
            return {"decision": "deny", "reason": str(reason) if reason else None}
        case _:
            return None


def _text(facts: ApprovalFacts) -> str:
    lines = [
        f"May `{showable(facts.tool)}` run with these arguments?",
        shown_json(facts.arguments),
        f"Asked by: {showable(asker_text(facts))}",
        f"Why you are asked: {showable(facts.reason)}",
    ]
    lines += [f"Changed: {showable(change)}" for change in facts.changes]
    if facts.metadata:
        lines.append(f"Details: {shown_json(facts.metadata)}")
    return "\n\n".join(lines)

"""Approval by the person at the client: a form, and the decision that its answer is."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from mcp.shared.exceptions import MCPError
from mcp_types import ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequiredResult

from toolcrib.approval.panel import showable, shown_json
from toolcrib.errors import Refused
from toolcrib.runtime.principal import Principal

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp_types import CallToolRequestParams

    from toolcrib.runtime.messages import ApprovalFacts
    from toolcrib.runtime.runtime import Runtime
    from toolcrib.transports.mcp.client_sessions import ClientSession
    from toolcrib.transports.mcp.options import ElicitedApproval

logger = logging.getLogger(__name__)

_KEY: Final = "approval"
_STATE: Final = "toolcrib-approval"
_LONGEST: Final = 20_000
"""What is longer is not read by anybody before they agree to it."""
_FORM: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "decision": {
            "type": "string",
            "title": "Decision",
            "description": "Whether the call may run, this once.",
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
    """What the person was shown, so that the answer is about that and nothing else."""

    call_id: str
    approval_id: str
    digest: str

    def to_state(self) -> str:
        """For the client to carry; the SDK seals it."""
        return f"{_STATE} {self.approval_id} {self.digest} {self.call_id}"


def asked_in(state: str | None) -> ShownApproval | None:
    """What a client was asked before; None when it carries no question of ours."""
    kind, *rest = (state or "").split(" ", 3)
    if kind != _STATE or len(rest) != 3:
        return None
    approval_id, digest, call_id = rest
    return ShownApproval(call_id, approval_id, digest)


class ElicitedApprovals:
    """Asks the person at the client, where that is allowed and possible."""

    def __init__(self, runtime: Runtime, mode: ElicitedApproval) -> None:
        self._runtime = runtime
        self._mode = mode

    def may_ask(self, ctx: ServerRequestContext[Any, Any], seat: ClientSession) -> bool:
        """Whether an answer would count, and the client can show the form."""
        trusted = self._mode == "always" or (self._mode == "scope" and seat.who.may("approve"))
        found = ctx.session.client_capabilities
        able = found.elicitation if found else None
        # A client that names no mode has forms; that was all there was when modes came.
        return trusted and able is not None and (able.form is not None or able.url is None)

    async def question(
        self, seat: ClientSession, approval_id: str
    ) -> tuple[ShownApproval, str] | None:
        """What to ask and how to put it; None when it is too long for a form."""
        facts = await self._runtime.ask(
            "approvals.get", {"approval_id": approval_id}, _decider(seat.who)
        )
        text = _text(facts)
        asked = ShownApproval(facts.call_id, approval_id, facts.digest)
        return (asked, text) if len(text) <= _LONGEST else None

    async def elicit(
        self, ctx: ServerRequestContext[Any, Any], seat: ClientSession, approval_id: str
    ) -> bool:
        """Ask over a connection that can be asked; True when somebody has decided."""
        found = await self.question(seat, approval_id)
        if found is None:
            return False
        asked, text = found
        try:
            answer = await ctx.session.elicit_form(text, _FORM, ctx.request_id)
        except (MCPError, ValueError) as error:
            logger.warning("the client did not answer about %s: %s", approval_id, error)
            return False
        return await self.decide(seat, asked, answer)

    async def input_required(
        self, seat: ClientSession, approval_id: str
    ) -> InputRequiredResult | None:
        """The question as the answer of a stateless request; the client calls again with both."""
        found = await self.question(seat, approval_id)
        if found is None:
            return None
        asked, text = found
        form = ElicitRequestFormParams(message=text, requested_schema=_FORM)
        return InputRequiredResult(
            input_requests={_KEY: ElicitRequest(params=form)}, request_state=asked.to_state()
        )

    async def decide(self, seat: ClientSession, asked: ShownApproval, answer: object) -> bool:
        """Take an answer for a decision; False when it is none. Somebody may have been faster,
        and then theirs counts.
        """
        told = _decision(answer)
        if told is None:
            return False
        decision = {"approval_id": asked.approval_id, "digest": asked.digest, **told}
        try:
            await self._runtime.ask("approvals.decide", decision, _decider(seat.who))
        except Refused as refused:
            if refused.kind != "conflict":
                raise
        return True


def answer_in(params: CallToolRequestParams) -> object:
    """The answer that a client brings along."""
    return (params.input_responses or {}).get(_KEY)


def _decider(who: Principal) -> Principal:
    """The person at the client. The record shows that they were asked there."""
    return Principal(f"{who.name} (asked by MCP)", frozenset({"read", "approve"}), who.transport)


def _decision(answer: object) -> dict[str, Any] | None:
    """Whatever is not a clear answer decides nothing."""
    if not isinstance(answer, ElicitResult):
        return None
    match answer.action, (answer.content or {}).get("decision"):
        case "accept", "approve":
            return {"decision": "approve"}
        case "accept", "deny":
            reason = (answer.content or {}).get("reason")
            return {"decision": "deny", "reason": str(reason) if reason else None}
        case "decline", _:
            return {"decision": "deny", "reason": None}
        case _:
            return None


def _text(facts: ApprovalFacts) -> str:
    lines = [
        f"May `{showable(facts.tool)}` run with these arguments?",
        shown_json(facts.arguments),
        f"Why you are asked: {showable(facts.reason)}",
    ]
    if facts.metadata:
        lines.append(f"Details: {shown_json(facts.metadata)}")
    return "\n\n".join(lines)

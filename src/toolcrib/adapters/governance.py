"""Which provider-run tools a session does not offer, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from toolcrib.approval.policy import Policy, default_verdict
from toolcrib.approval.rule import Rule, Subject, Verdict
from toolcrib.ledger.events import ToolWithheld
from toolcrib.tools.mcp import McpConfig
from toolcrib.tools.provider_tools import kind_of

if TYPE_CHECKING:
    from toolcrib.approval.approvers import Approver
    from toolcrib.calls.call import Caller
    from toolcrib.calls.execute import Runner
    from toolcrib.calls.hooks import Hooks
    from toolcrib.calls.outcome import Limits
    from toolcrib.session.session import Session
    from toolcrib.tools.identity import Place, ToolRef
    from toolcrib.tools.prepared_tool import PreparedTool


@dataclass(frozen=True, slots=True)
class Governance:
    """What an executor is given besides its tools."""

    policy: Policy | None = None
    approver: Approver | None = None
    hooks: Hooks | None = None
    limits: Limits | None = None
    runners: Mapping[Place, Runner] | None = None
    """Who runs tools in places other than this process."""
    caller: Caller | None = None
    """On whose behalf the model makes its calls."""


@dataclass(frozen=True, slots=True)
class WithheldTool:
    """A tool that is not offered, and what is offered in its place."""

    tool: ToolRef
    reason: str
    replaced_by: ToolRef | None = None


def why_withheld(
    tool: PreparedTool, session: Session, governance: Governance, provider: str
) -> str | None:
    """The reason not to offer a tool that this provider runs; None when it may be offered."""
    is_asked = _asks_each_time(tool)
    if tool.ref.name in session.need_user_approve_tools and not is_asked:
        return "the session asks before this tool runs, and nobody can be asked on the provider"
    subject = Subject(
        tool=tool.ref,
        arguments={},
        is_read_only=tool.tool.is_read_only,
        requires_approval=tool.tool.requires_approval,
        kind=kind_of(tool.tool),
        provider=provider,
    )
    policy = governance.policy
    if policy is not None and not is_asked:
        policy = _wary(policy)
    of_kind = _against_kind(policy, subject) if policy else None
    if of_kind is not None and not (is_asked and of_kind.effect == "ask"):
        return f"{of_kind.reason} It is of the kind {subject.kind}."
    verdict = policy.judge(subject) if policy else default_verdict(subject)
    match verdict.effect:
        case "allow":
            return None
        case "deny":
            return verdict.reason
        case "ask" if is_asked:
            return None
        case "ask":
            return (
                f"{verdict.reason} Nobody can be asked on the provider; an allow rule that names "
                "the tool would offer it."
            )


def _against_kind(policy: Policy, subject: Subject) -> Verdict | None:
    """What forbids the kind of a tool by name, or asks about it: another name does not let it
    through.
    """
    if subject.kind in (None, subject.tool.name):
        return None
    strict = tuple(rule for rule in policy.rules if rule.effect != "allow")
    named = replace(subject.tool, name=subject.kind)
    subject = replace(subject, tool=named, requires_approval=False)
    verdict = replace(policy, rules=strict, unmatched="allow").judge(subject)
    return None if verdict.effect == "allow" else verdict


def _asks_each_time(tool: PreparedTool) -> bool:
    """Whether the provider stops before every call, so that the session can decide about it."""
    config = getattr(tool.tool, "config", None)
    return isinstance(config, McpConfig) and config.require_approval == "always"


def _wary(policy: Policy) -> Policy:
    """The policy for calls whose arguments nobody sees before they run: what it forbids or asks
    about for some arguments, it forbids or asks about for all.
    """
    return replace(policy, rules=tuple(_without_arguments(rule) for rule in policy.rules))


def _without_arguments(rule: Rule) -> Rule:
    return rule if rule.effect == "allow" or not rule.arguments else replace(rule, arguments={})


async def record_withheld(session: Session, turn: int, withheld: Sequence[WithheldTool]) -> None:
    """Write down which provider-run tools were not offered, and why."""
    for each in withheld:
        await session.record(
            ToolWithheld(
                session_id=session.session_id,
                at=session.clock(),
                turn=turn,
                tool=each.tool,
                reason=each.reason,
                replaced_by=each.replaced_by,
            )
        )

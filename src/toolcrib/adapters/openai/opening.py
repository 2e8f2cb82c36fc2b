"""From a rendered prompt to a turn that can begin: what is offered, and what is withheld."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from toolcrib.adapters.hosted_view import as_hosted
from toolcrib.adapters.openai.declared import AnyCodec, Declared, declare
from toolcrib.adapters.openai.hosted_calls import HostedCalls
from toolcrib.approval.policy import default_verdict
from toolcrib.approval.rule import Subject
from toolcrib.calls.executor import Executor
from toolcrib.session.events import ToolWithheld
from toolcrib.tools.context import ToolContext
from toolcrib.tools.prepared import PreparedTool, prepare

if TYPE_CHECKING:
    from toolcrib.approval.approvers import Approver
    from toolcrib.approval.policy import Policy
    from toolcrib.calls.hooks import Hooks
    from toolcrib.calls.limits import Limits
    from toolcrib.prompt.rendering import RenderedPrompt
    from toolcrib.session.session import Session


@dataclass(frozen=True, slots=True)
class Governance:
    """What an executor is given besides its tools."""

    policy: Policy | None = None
    approver: Approver | None = None
    hooks: Hooks | None = None
    limits: Limits | None = None


@dataclass(frozen=True, slots=True)
class Opening:
    """A turn's tools, ready."""

    executor: Executor
    declared: Declared
    hosted: HostedCalls
    withheld: tuple[tuple[PreparedTool, str], ...]


def open_turn(
    prompt: RenderedPrompt[Any],
    session: Session,
    governance: Governance,
    codecs: Mapping[str, AnyCodec],
    *,
    provider: str,
) -> Opening:
    """Prepare the tools of a prompt. Raises before anything is sent."""
    executor = Executor(
        session,
        prompt.tools,
        hooks=governance.hooks,
        policy=governance.policy,
        approver=governance.approver,
        limits=governance.limits,
    )
    offered, withheld = _sift([prepare(tool) for tool in prompt.hosted_tools], session, governance)
    declared = declare(
        executor.declarations(),
        [as_hosted(tool.tool, provider=provider, prompt_name=prompt.name) for tool in offered],
        codecs,
        prompt_name=prompt.name,
        adapter=provider,
    )
    hosted = HostedCalls(
        session,
        declared.hosted,
        codecs,
        provider=provider,
        originals={tool.ref.name: tool.tool for tool in offered},
        refs={tool.ref.name: tool.ref for tool in offered},
        make_context=lambda name, call_id: context_of(session, name, call_id),
    )
    return Opening(executor, declared, hosted, withheld)


def _sift(
    tools: Sequence[PreparedTool], session: Session, governance: Governance
) -> tuple[list[PreparedTool], tuple[tuple[PreparedTool, str], ...]]:
    """Provider-run calls cannot be stopped once they are offered, so this is their gate."""
    offered: list[PreparedTool] = []
    withheld: list[tuple[PreparedTool, str]] = []
    for tool in tools:
        reason = _why_not(tool, session, governance)
        if reason is None:
            offered.append(tool)
        else:
            withheld.append((tool, reason))
    return offered, tuple(withheld)


def _why_not(tool: PreparedTool, session: Session, governance: Governance) -> str | None:
    subject = Subject(
        tool=tool.ref,
        arguments={},
        is_read_only=tool.tool.is_read_only,
        requires_approval=tool.tool.requires_approval,
    )
    policy = governance.policy
    verdict = default_verdict(subject) if policy is None else policy.judge(subject)
    if tool.ref.name in session.need_user_approve_tools:
        return "the session asks before this tool runs, and nobody can be asked on the provider"
    if verdict.effect == "allow":
        return None
    if verdict.effect == "deny":
        return verdict.reason
    return f"{verdict.reason} Nobody can be asked on the provider; an allow rule would offer it."


async def record_withheld(session: Session, opening: Opening) -> None:
    """Write down which provider-run tools were not offered, and why."""
    for tool, reason in opening.withheld:
        await session.record(
            ToolWithheld(
                session_id=session.session_id,
                at=session.clock(),
                turn=session.turn,
                tool=tool.ref,
                reason=reason,
            )
        )


def context_of(session: Session, name: str, call_id: str) -> ToolContext:
    """The context that a hook on provider output gets."""
    return ToolContext(
        session_id=session.session_id,
        cwd=session.cwd,
        environment=dict(session.environment),
        metadata=dict(session.metadata),
        call_id=call_id,
        tool_name=name,
        turn=session.turn,
        deps=session.deps,
        session=session,
        bus=session.bus,
    )


def prompt_digest(prompt: RenderedPrompt[Any]) -> str:
    """What was asked, in one number, so that a turn only goes on with the prompt it began with."""
    hasher = sha256(prompt.text.encode())
    for tool in prompt.declared:
        hasher.update(f"\n{tool.name}\n{tool.description}".encode())
    for attachment in prompt.attachments:
        hasher.update(repr(attachment).encode())
    return hasher.hexdigest()

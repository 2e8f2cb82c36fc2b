"""What the policy would say about a call of a tool: the rule in force, and the part of every rule.

The gate of a session decides the same way. Left out is what only a real call brings: its hooks, the
tool's own question, and the tools that its session lists.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic_core import from_json

from toolcrib.approval.authority import needed
from toolcrib.approval.caller import Caller
from toolcrib.approval.policy import Policy, default_verdict
from toolcrib.approval.rule import Rule, Subject, Verdict
from toolcrib.calls.tool_table import blind_verdict
from toolcrib.calls.validate import encode_arguments
from toolcrib.errors import Refused
from toolcrib.runtime.approval_messages import QuorumFacts
from toolcrib.runtime.catalog_messages import (
    ArgumentFault,
    GrantInForce,
    PolicyExplanation,
    RuleFacts,
    RuleInForce,
)
from toolcrib.store.store import ask_store, every
from toolcrib.tools.provider_tools import kind_of, provider_of

if TYPE_CHECKING:
    from toolcrib.approval.grant import Grant
    from toolcrib.runtime.catalog import ListedTool
    from toolcrib.runtime.catalog_messages import ExplainPolicy
    from toolcrib.runtime.config import RuntimeConfig
    from toolcrib.runtime.principal import Principal
    from toolcrib.store.store import Store
    from toolcrib.tools.prepared_tool import PreparedTool

SOMEBODY: Final = Caller("\0")
"""A principal that is named, and that no rule names: no principal has this name."""

_ABOUT_TOOL: Final = frozenset({"tool", "source", "place", "kind", "provider"})
_ABOUT_CALLER: Final = frozenset({"principal", "group"})


class PolicyView:
    """The policy of a runtime, as one principal may see it. Only auditors and admins see whom rules
    for other people name, and the folder of the file.
    """

    def __init__(self, config: RuntimeConfig, who: Principal) -> None:
        self._config = config
        self._policy = config.policy
        self._sees_all = who.sees_all
        self._rules: Mapping[str, Rule] = (
            {} if config.policy is None else {rule.id: rule for rule in config.policy.rules}
        )

    @property
    def policy(self) -> Policy | None:
        """The policy itself."""
        return self._policy

    def subject(
        self, tool: ListedTool, caller: Caller, arguments: Mapping[str, Any] | None = None
    ) -> Subject:
        """A call of a tool as the policy sees it."""
        prepared = tool.prepared
        if prepared is None:
            return Subject(tool.ref, arguments or {}, caller=caller)
        provider = provider_of(prepared.tool)
        if tool.ref.place == "provider" and self._config.adapter is not None:
            provider = self._config.adapter.name
        return Subject(
            tool=tool.ref,
            arguments=arguments or {},
            names=prepared.params.names,
            is_read_only=prepared.tool.is_read_only,
            requires_approval=prepared.tool.requires_approval,
            kind=kind_of(prepared.tool),
            provider=provider,
            caller=caller,
        )

    def verdict(self, tool: ListedTool, subject: Subject) -> Verdict:
        """What would become of the call."""
        policy, prepared = self._policy, tool.prepared
        verdict = policy.judge(subject) if policy is not None else default_verdict(subject)
        if prepared is None:
            return verdict
        if tool.ref.place == "provider":
            return self._offer(prepared, subject, verdict)
        blind = None if policy is None else blind_verdict(policy, prepared)
        return verdict if blind is None else blind

    def _offer(self, prepared: PreparedTool, subject: Subject, verdict: Verdict) -> Verdict:
        """What becomes of a tool that the provider runs: it is offered to prompts or it is not."""
        # Only what a provider runs needs the adapters.
        from toolcrib.adapters.turn_tools import asks_each_time, why_not_offered

        reason = why_not_offered(
            prepared, self._policy, subject.caller, subject.provider or "unknown"
        )
        if reason is not None:
            return Verdict("deny", verdict.rule, reason)
        if verdict.effect == "ask" and not asks_each_time(prepared):
            return replace(verdict, effect="allow")
        return verdict

    def in_force(self, verdict: Verdict) -> RuleInForce:
        """A verdict with the place of its rule."""
        rule = self._rules.get(verdict.rule)
        return RuleInForce(
            effect=verdict.effect,
            rule=verdict.rule,
            reason=verdict.reason,
            file=None if rule is None else self._file(rule.file),
            line=None if rule is None else rule.line,
            deadline_seconds=verdict.deadline_seconds,
            approvers=[
                QuorumFacts(count=quorum.count, groups=list(quorum.groups))
                for quorum in verdict.approvers
            ],
        )

    def depends_on(self, subject: Subject) -> list[Literal["arguments", "principal"]]:
        """What the rules about a tool look at besides the tool."""
        about = [
            rule for rule in self._rules.values() if rule.first_miss(subject) not in _ABOUT_TOOL
        ]
        looked_at: list[Literal["arguments", "principal"]] = []
        if any(rule.arguments for rule in about):
            looked_at.append("arguments")
        if any(rule.principal or rule.group for rule in about):
            looked_at.append("principal")
        return looked_at

    def rules(self, subject: Subject) -> list[RuleFacts]:
        """The part of every rule in the verdict."""
        if self._policy is None:
            return []
        return [
            RuleFacts(
                rule=finding.rule,
                effect=finding.effect,
                is_match=finding.is_match,
                why_not=self._why_not(finding.rule, subject, finding.why_not),
                file=self._file(finding.file),
                line=finding.line,
            )
            for finding in self._policy.explain(subject).findings
        ]

    def _why_not(self, rule_id: str, subject: Subject, why_not: str | None) -> str | None:
        if why_not is None or self._sees_all:
            return why_not
        is_about_caller = self._rules[rule_id].first_miss(subject) in _ABOUT_CALLER
        return "it is for other principals or groups" if is_about_caller else why_not

    def _file(self, file: str | None) -> str | None:
        return file if file is None or self._sees_all else os.path.basename(file)


async def explain(
    config: RuntimeConfig,
    store: Store,
    tool: ListedTool,
    params: ExplainPolicy,
    who: Principal,
) -> PolicyExplanation:
    """What would become of a call that might be made. Raises `Refused` (forbidden) for the call of
    somebody else, unless `who` may read everything.
    """
    caller = _caller(params, who)
    view = PolicyView(config, who)
    canonical, faults = _canonical(tool, params.arguments)
    subject = view.subject(tool, caller, canonical)
    explanation = PolicyExplanation(
        tool=tool.ref.id,
        principal=caller.principal or "",
        groups=sorted(caller.groups),
        outcome="invalid",
        rules=[],
        faults=faults,
        notes=_notes(config, tool),
        has_policy=config.policy is not None,
    )
    if faults:
        return explanation
    verdict = view.verdict(tool, subject)
    grant = None
    if verdict.effect == "ask":
        grant = await ask_store(store, _grant, store, subject, verdict)
    outcomes = {"allow": "runs", "ask": "runs" if grant else "waits", "deny": "refused"}
    return replace(
        explanation,
        outcome=outcomes[verdict.effect],
        verdict=view.in_force(verdict),
        rules=view.rules(subject),
        grant=None if grant is None else _grant_in_force(grant),
    )


def _caller(params: ExplainPolicy, who: Principal) -> Caller:
    is_other = params.principal not in (None, who.name) or params.groups is not None
    if is_other and not who.sees_all:
        raise Refused(
            "forbidden",
            f"{who.name!r} may ask about calls of its own only; leave principal and groups out. "
            "Auditors and admins may ask about others",
        )
    if not is_other:
        return who.caller()
    return Caller(params.principal or who.name, groups=frozenset(params.groups or ()))


def _canonical(
    tool: ListedTool, arguments: Mapping[str, Any] | None
) -> tuple[Mapping[str, Any] | None, list[ArgumentFault]]:
    """The arguments as a gate would see them: defaults in, aliases resolved."""
    prepared = tool.prepared
    if arguments is None or prepared is None or tool.ref.place == "provider":
        return arguments, []
    try:
        params = prepared.parse(encode_arguments(arguments))
    except Exception as error:
        faults = prepared.params.faults(error)
        return None, [
            ArgumentFault(pointer=fault.pointer, message=fault.message) for fault in faults
        ]
    return from_json(prepared.dump(params)), []


def _notes(config: RuntimeConfig, tool: ListedTool) -> list[str]:
    notes: list[str] = []
    if tool.withheld is not None:
        notes.append(f"No session can call the tool now: {tool.withheld}.")
    prepared = tool.prepared
    if prepared is not None and prepared.tool.approval_metadata is not None:
        notes.append("The tool may ask for approval of a call by itself.")
    if config.hooks is not None and tool.ref.place != "provider":
        notes.append(
            "Hooks of the host run before the policy; they may change the arguments or refuse."
        )
    return notes


def _grant(store: Store, subject: Subject, verdict: Verdict) -> Grant | None:
    """The grant that would answer for a person in a new session. May read from disk."""
    if needed(verdict.approvers) > 1:
        return None
    now = store.clock()
    grants: Sequence[Grant] = list(
        every(lambda cursor: store.grants(tool_id=subject.tool.id, cursor=cursor))
    )
    for grant in grants:
        # A new session has an id that no grant for a session has.
        if grant.meets(verdict.approvers) and grant.covers(subject, session_id="", now=now):
            return grant
    return None


def _grant_in_force(grant: Grant) -> GrantInForce:
    return GrantInForce(
        grant_id=grant.grant_id,
        scope=grant.scope,
        created_by=grant.created_by.name,
        expires_at=grant.expires_at,
        uses_left=grant.uses_left,
    )

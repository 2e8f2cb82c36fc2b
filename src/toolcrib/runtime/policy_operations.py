"""Operations on the policy: the one in force, the check of a draft, and both on past calls."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from toolcrib.approval.globs import has_wildcard
from toolcrib.approval.policy import Policy
from toolcrib.approval.policy_file import parse_policy, parse_rule, policy_faults
from toolcrib.approval.policy_lint import (
    Caution,
    ToolArguments,
    cautions,
    unknown_arguments,
    unknown_tools,
)
from toolcrib.errors import InvalidPolicy, Refused
from toolcrib.runtime.audit_operations import owner_seen, read_time, sees_nothing
from toolcrib.runtime.policy_messages import (
    NewerPolicy,
    PolicyInForce,
    PolicyNote,
    PolicyPreview,
    PolicyReport,
    PolicyRule,
)
from toolcrib.runtime.policy_preview import (
    PreviewJudge,
    PreviewResult,
    preview_calls,
    tools_by_id,
)
from toolcrib.runtime.principal import OWNER
from toolcrib.store.call_query import CallQuery
from toolcrib.tools.argument_names import ArgumentNames

if TYPE_CHECKING:
    from toolcrib.approval.policy import PolicyText
    from toolcrib.file_faults import FileFault
    from toolcrib.runtime.catalog import ToolCatalog
    from toolcrib.runtime.messages import Nothing
    from toolcrib.runtime.policy_messages import CheckPolicy, PreviewPolicy
    from toolcrib.runtime.principal import Principal
    from toolcrib.runtime.service import Service
    from toolcrib.tools.prepared_tool import PreparedTool


async def get_policy(service: Service, params: Nothing, who: Principal) -> PolicyInForce:
    """The policy in force, with its text and what its file says by now."""
    policy = service.catalog.config.policy
    if policy is None:
        return PolicyInForce(has_policy=False)
    source = policy.text
    text = "" if source is None else source.text
    tools = KnownTools.of(service.catalog)
    newer = None if source is None else await asyncio.to_thread(_newer_text, source)
    return PolicyInForce(
        has_policy=True,
        loaded_at=None if source is None else source.read_at,
        file=None if source is None else Path(source.file).name,
        text=None if source is None else text,
        unmatched=policy.unmatched,
        deadline_seconds=policy.deadline_seconds,
        rules=[
            PolicyRule(
                rule=rule.id,
                effect=rule.effect,
                tool=rule.tool,
                line=rule.line,
                reason=rule.reason,
            )
            for rule in policy.rules
        ],
        notes=_notes(policy, text, tools),
        newer=None if newer is None else NewerPolicy(text=newer, notes=_draft_notes(newer, tools)),
    )


def _newer_text(source: PolicyText) -> str | None:
    """What the file of a policy says now; None when it says what is in force, or there is none."""
    try:
        text = Path(source.file).read_text("utf-8-sig")
    except (OSError, ValueError):
        return None
    return None if text == source.text else text


async def check_policy(service: Service, params: CheckPolicy, who: Principal) -> PolicyReport:
    """What is wrong in the text of a policy, or may surprise, with the tools of the runtime."""
    return await asyncio.to_thread(_report, params.text, KnownTools.of(service.catalog))


def _report(text: str, tools: KnownTools) -> PolicyReport:
    notes = _draft_notes(text, tools)
    is_valid = all(note.level != "error" for note in notes)
    count = len(parse_policy(text).rules) if not policy_faults(text) else 0
    return PolicyReport(is_valid=is_valid, rules=count, notes=notes)


async def preview_policy(service: Service, params: PreviewPolicy, who: Principal) -> PolicyPreview:
    """What a draft would have changed in past calls, of those that the principal may read."""
    if (params.draft is None) == (params.rule is None):
        raise Refused("invalid", "a preview takes a draft or a rule: one of them")
    catalog = service.catalog
    before = catalog.config.policy
    after = await asyncio.to_thread(_draft, before, params)
    owner = owner_seen(params.owner, who)
    query = CallQuery(
        since=read_time(params.since, "since"),
        until=read_time(params.until, "until"),
        principal=params.principal,
        owner=owner,
        tool=params.tool,
        source=params.source,
        session_id=params.session_id,
    )
    tools = KnownTools.of(catalog)
    judge = PreviewJudge(before, after, tools_by_id(tools.prepared))
    result = PreviewResult()
    if not sees_nothing(owner):
        result = await preview_calls(
            catalog.store, query, judge, cursor=params.cursor, limit=params.limit
        )
    return PolicyPreview(
        looked_at=result.looked_at,
        changed=len(result.calls),
        unchanged=result.unchanged,
        unknown=result.doubts.total(),
        not_judged=result.not_judged,
        changes=result.change_counts(),
        doubts=result.doubt_counts(),
        calls=result.calls,
        notes=_notes(after, params.draft or params.rule or "", tools, is_rule=params.draft is None),
        cursor=result.cursor,
    )


def _draft(before: Policy | None, params: PreviewPolicy) -> Policy:
    """The policy that a preview is about. Raises `Refused` (invalid) with every fault."""
    if params.draft is not None:
        faults = policy_faults(params.draft)
        if faults:
            notes = [_fault_note(fault, params.draft.splitlines()) for fault in faults]
            raise Refused(
                "invalid",
                f"the draft cannot be used: {faults[0].in_file('draft')}",
                {"notes": [{"line": note.line, "message": note.message} for note in notes]},
            )
        return parse_policy(params.draft, file="draft")
    try:
        rules = parse_rule(params.rule or "")
        base = before or Policy()
        return replace(base, rules=(*base.rules, *rules), text=None)
    except InvalidPolicy as error:
        raise Refused("invalid", f"the rule cannot be used: {error}") from None


def _draft_notes(text: str, tools: KnownTools) -> list[PolicyNote]:
    lines = text.splitlines()
    if faults := policy_faults(text):
        return [_fault_note(fault, lines) for fault in faults]
    return _notes(parse_policy(text), text, tools)


@dataclass(frozen=True, slots=True)
class KnownTools:
    """The tools that a policy is compared with."""

    names: frozenset[str]
    prepared: Sequence[PreparedTool]
    more_may_come: bool
    """Whether servers may bring others, so that a runtime starts with rules for unknown ones."""

    @classmethod
    def of(cls, catalog: ToolCatalog) -> KnownTools:
        """The tools of a runtime, and the names of those that it expects."""
        listed, config = catalog.tools(OWNER), catalog.config
        expected = {name for name in config.expected_tools if not has_wildcard(name)}
        return cls(
            frozenset({tool.ref.name for tool in listed} | expected),
            [tool.prepared for tool in listed if tool.prepared is not None],
            bool(config.mcp_servers),
        )


def _notes(
    policy: Policy, text: str, tools: KnownTools, *, is_rule: bool = False
) -> list[PolicyNote]:
    """Errors and warnings about a policy that can be used; of a rule, those about itself."""
    own = [tool for tool in tools.prepared if tool.ref.place != "provider"]
    unknown = unknown_arguments(policy, map(_arguments_of, own))
    errors = [each.caution for each in unknown if each.is_error]
    warnings = [*cautions(policy), *(each.caution for each in unknown if not each.is_error)]
    missing = unknown_tools(policy, tools.names)
    (warnings if tools.more_may_come else errors).extend(missing)
    lines = text.splitlines()
    shown = {rule.id for rule in policy.rules if not is_rule or rule.file == "rule"}
    levels: tuple[tuple[Literal["error", "warning"], Iterable[Caution]], ...] = (
        ("error", errors),
        ("warning", warnings),
    )
    notes = [
        _note(level, caution.message, caution.line or 1, lines, caution.rule)
        for level, group in levels
        for caution in group
        if caution.rule in shown
    ]
    return sorted(notes, key=lambda note: (note.line, note.level, note.message))


def _arguments_of(tool: PreparedTool) -> ToolArguments:
    ref = tool.ref
    names = tool.params.names or ArgumentNames(tool.params.schema, {})
    return ToolArguments(ref.name, ref.source, ref.place, names)


def _fault_note(fault: FileFault, lines: Sequence[str]) -> PolicyNote:
    return _note("error", fault.message, fault.line, lines)


def _note(
    level: Literal["error", "warning"],
    message: str,
    line: int,
    lines: Sequence[str],
    rule: str | None = None,
) -> PolicyNote:
    text = lines[line - 1] if 0 < line <= len(lines) else ""
    start = len(text) - len(text.lstrip())
    return PolicyNote(
        level=level,
        message=message,
        line=line,
        column=start + 1,
        end_column=max(start + 2, len(text.rstrip()) + 1),
        rule=rule,
    )

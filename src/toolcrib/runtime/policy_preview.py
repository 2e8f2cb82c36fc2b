"""Past calls under two policies: the one in force and a draft.

Arguments come from the ledger, without their secrets. A call whose verdict depends on what the
ledger does not have is counted as unknown and never guessed.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, cast

from pydantic_core import to_json

from toolcrib.approval.caller import Caller
from toolcrib.approval.globs import name_matches
from toolcrib.approval.past_subject import Doubt, PastSubject, PastVerdicts, PolicyComparison
from toolcrib.approval.policy import Policy
from toolcrib.approval.rule import Effect, Rule, Subject, Verdict
from toolcrib.calls.tool_table import blind_verdict
from toolcrib.errors import Refused, SessionNotFound, UsageError
from toolcrib.ledger.events import ApprovalRequested, CallStarted, Event, ToolInvoked
from toolcrib.runtime.policy_messages import ChangeCount, ChangedCall, DoubtCount, VerdictFacts
from toolcrib.store.call_query import OPEN_STATUSES
from toolcrib.store.store import ask_store
from toolcrib.tools.provider_tools import kind_of, provider_of

if TYPE_CHECKING:
    from toolcrib.ledger.record import Record
    from toolcrib.store.call_query import CallQuery, CallRow
    from toolcrib.store.store import Store, StorePage
    from toolcrib.tools.identity import ToolRef
    from toolcrib.tools.prepared_tool import PreparedTool

_PART: Final = 100
"""How many calls are judged before other requests get a turn."""
_NEAR: Final = 64
"""How many records before the end of a call its start is looked for in."""
_LONGEST_ARGUMENTS: Final = 300
_UNJUDGED: Final = frozenset({"invalid_arguments", "not_found", "recursion_limit"})
"""The failures of calls that never came to a policy, unless somebody decided about them."""


@dataclass(slots=True)
class PreviewResult:
    """What was read so far."""

    looked_at: int = 0
    unchanged: int = 0
    not_judged: int = 0
    doubts: Counter[Doubt] = field(default_factory=Counter[Doubt])
    changes: Counter[tuple[str, Effect, Effect]] = field(
        default_factory=Counter[tuple[str, Effect, Effect]]
    )
    calls: list[ChangedCall] = field(default_factory=list[ChangedCall])
    cursor: str | None = None

    def change_counts(self) -> list[ChangeCount]:
        """The changes by tool and effect, the most frequent first."""
        return [
            ChangeCount(tool=tool, before=before, after=after, calls=count)
            for (tool, before, after), count in sorted(
                self.changes.items(), key=lambda item: (-item[1], item[0])
            )
        ]

    def doubt_counts(self) -> list[DoubtCount]:
        """The calls that cannot be judged, by what is not known."""
        return [DoubtCount(doubt=doubt, calls=count) for doubt, count in self.doubts.most_common()]


async def preview_calls(
    store: Store,
    query: CallQuery,
    judge: PreviewJudge,
    *,
    cursor: str | None,
    limit: int,
) -> PreviewResult:
    """Judge the calls of a query, at most `limit`, in parts so that the event loop goes on."""
    result = PreviewResult(cursor=cursor)

    def read(count: int) -> StorePage[CallRow]:
        try:
            page = store.calls(query, cursor=result.cursor, limit=count)
        except UsageError as error:
            raise Refused("invalid", str(error)) from None
        for row in page.items:
            judge.judge(store, row, result)
        return page

    while result.looked_at < limit:
        page = await ask_store(store, read, min(_PART, limit - result.looked_at))
        result.cursor = page.cursor
        if page.cursor is None:
            break
        await asyncio.sleep(0)
    return result


class PreviewJudge:
    """Judges past calls by two policies and the tools of the runtime, by their ids."""

    def __init__(
        self, before: Policy | None, after: Policy, tools: Mapping[str, PreparedTool]
    ) -> None:
        self._before = before
        self._after = after
        self._tools = tools
        self._needs_groups = any(
            rule.group for policy in (before, after) if policy for rule in policy.rules
        )
        self._fitted: dict[tuple[str, bool], PolicyComparison] = {}
        self._lines = [_lines(before), _lines(after)]

    def judge(self, store: Store, row: CallRow, result: PreviewResult) -> None:
        """Judge one call, and count it."""
        result.looked_at += 1
        past = _read_call(store, row, needs_groups=self._needs_groups)
        if past is None:
            result.not_judged += 1
            return
        tool, arguments = past.tool, past.arguments
        if tool is None:
            result.doubts["arguments"] += 1
            return
        prepared = self._tools.get(tool.id)
        comparison = self._comparison(tool, prepared)
        verdicts = comparison.verdicts(_subject(past, tool, prepared))
        if verdicts.doubt is not None:
            result.doubts[verdicts.doubt] += 1
        elif verdicts.is_change:
            call = self._changed(row, tool, arguments, verdicts)
            result.changes[tool.name, call.before.effect, call.after.effect] += 1
            result.calls.append(call)
        else:
            result.unchanged += 1

    def _comparison(self, tool: ToolRef, prepared: PreparedTool | None) -> PolicyComparison:
        """Both policies as they apply to calls of a tool."""
        is_unseen = tool.place == "provider" and not (prepared and _asks_each_time(prepared))
        key = tool.id, is_unseen
        if key not in self._fitted:
            self._fitted[key] = PolicyComparison(
                _fitted(self._before, tool, prepared, is_unseen=is_unseen),
                _fitted(self._after, tool, prepared, is_unseen=is_unseen),
            )
        return self._fitted[key]

    def _changed(
        self, row: CallRow, tool: ToolRef, arguments: object, verdicts: PastVerdicts
    ) -> ChangedCall:
        before, after = cast("Verdict", verdicts.before), cast("Verdict", verdicts.after)
        return ChangedCall(
            session_id=row.session_id,
            seq=row.last_seq,
            call_id=row.call_id,
            at=row.at,
            tool=tool.name,
            source=tool.source,
            principal=row.principal,
            status=row.status,
            decision=row.decision,
            arguments=_short_json(arguments),
            before=_verdict_facts(before, self._lines[0]),
            after=_verdict_facts(after, self._lines[1]),
        )


@dataclass(frozen=True, slots=True)
class _RecordedCall:
    """What the ledger has of a call. Without a tool, its payload is deleted."""

    tool: ToolRef | None = None
    arguments: Mapping[str, Any] | None = None
    principal: str | None = None
    groups: frozenset[str] | None = None


def _read_call(store: Store, row: CallRow, *, needs_groups: bool) -> _RecordedCall | None:
    """The call of a row; None when no policy was asked about it."""
    is_open = row.status in OPEN_STATUSES
    first: Event | None = None
    # A question has what was proposed, where the end has what a person made of it.
    if is_open or row.decision == "edited" or (needs_groups and row.seq != row.last_seq):
        first = _event_at(store, row.session_id, row.seq)
    elif needs_groups:
        first = _start(store, row)
    groups = _groups(first)
    if isinstance(first, ApprovalRequested) and (is_open or row.decision == "edited"):
        request = first.request
        principal = request.caller.principal
        return _RecordedCall(request.tool, request.arguments, principal, request.caller.groups)
    if is_open:
        return _RecordedCall(first.tool if isinstance(first, CallStarted) else None)
    end = _event_at(store, row.session_id, row.last_seq)
    if not isinstance(end, ToolInvoked):
        return _RecordedCall()
    failure = end.failure.kind if end.failure is not None else None
    if end.tool is None or (failure in _UNJUDGED and end.decided_by is None):
        return None
    params = cast("object", end.params)
    arguments = cast("dict[str, Any]", params) if isinstance(params, dict) else None
    if end.principal is None:
        groups = frozenset[str]()
    return _RecordedCall(end.tool, arguments, end.principal, groups)


def _start(store: Store, row: CallRow) -> Event | None:
    """The record of a call's start, which the index does not have, if it is near its end."""
    after = max(0, row.last_seq - _NEAR)
    with suppress(SessionNotFound):
        records = store.records(row.session_id, after=after, limit=_NEAR, kinds=(CallStarted.kind,))
        for record in records:
            if record.call_id == row.call_id and record.payload is not None:
                return record.event
    return None


def _groups(event: Event | None) -> frozenset[str] | None:
    match event:
        case ApprovalRequested(request=request):
            return request.caller.groups
        case CallStarted(groups=groups):
            return frozenset(groups)
        case _:
            return None


def _event_at(store: Store, session_id: str, seq: int) -> Event | None:
    """The event of a record; None when its payload or its session is deleted."""
    if seq < 1:
        return None
    record: Record | None = None
    with suppress(SessionNotFound):
        record = next(iter(store.records(session_id, after=seq - 1, limit=1)), None)
    if record is None or record.seq != seq or record.payload is None:
        return None
    return record.event


def _subject(past: _RecordedCall, ref: ToolRef, prepared: PreparedTool | None) -> PastSubject:
    caller = Caller(past.principal, groups=past.groups or frozenset())
    subject = Subject(tool=ref, arguments=past.arguments or {}, caller=caller)
    if prepared is not None:
        tool = prepared.tool
        subject = replace(
            subject,
            is_read_only=tool.is_read_only,
            requires_approval=tool.requires_approval,
            kind=kind_of(tool),
            provider=provider_of(tool),
            names=prepared.params.names,
        )
    return PastSubject(
        subject,
        has_arguments=past.arguments is not None,
        has_groups=past.groups is not None,
        has_tool=prepared is not None,
    )


def _asks_each_time(prepared: PreparedTool) -> bool:
    from toolcrib.adapters.turn_tools import asks_each_time

    return asks_each_time(prepared)


def _fitted(
    policy: Policy | None, tool: ToolRef, prepared: PreparedTool | None, *, is_unseen: bool
) -> Policy | None:
    """A policy as the gate obeys it for calls of one tool."""
    if policy is None:
        return None
    if is_unseen:
        kind = None if prepared is None else kind_of(prepared.tool)
        # Only what a provider runs needs the adapters.
        from toolcrib.adapters.turn_tools import unseen_policy

        return _with_rules_of_kind(unseen_policy(policy), tool.name, kind)
    blind = None if prepared is None else blind_verdict(policy, prepared)
    if blind is None:
        return policy
    return Policy((Rule("deny", id=blind.rule, reason=blind.reason),))


def _with_rules_of_kind(policy: Policy, name: str, kind: str | None) -> Policy:
    """The policy in which what forbids a hosted kind, or asks about it, does so for a tool of that
    kind under another name.
    """
    if kind in (None, name):
        return policy
    more = tuple(
        replace(rule, tool=name, id=f"{rule.id} (kind {kind})")
        for rule in policy.rules
        if rule.effect != "allow" and name_matches(rule.tool, kind)
    )
    return replace(policy, rules=(*policy.rules, *more))


def _lines(policy: Policy | None) -> dict[str, int | None]:
    return {} if policy is None else {rule.id: rule.line for rule in policy.rules}


def _verdict_facts(verdict: Verdict, lines: Mapping[str, int | None]) -> VerdictFacts:
    return VerdictFacts(
        effect=verdict.effect,
        rule=verdict.rule,
        line=lines.get(verdict.rule),
        reason=verdict.reason,
    )


def _short_json(arguments: object) -> str:
    text = to_json(arguments, inf_nan_mode="strings").decode()
    return text if len(text) <= _LONGEST_ARGUMENTS else text[: _LONGEST_ARGUMENTS - 1] + "…"


def tools_by_id(tools: Sequence[PreparedTool]) -> dict[str, PreparedTool]:
    """Tools by `source/name`."""
    return {tool.ref.id: tool for tool in tools}

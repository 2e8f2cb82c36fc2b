"""The parameters and results of operations about the policy: the one in force, drafts of it, and
what a draft would have changed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Final, Literal, TypeAlias

from annotated_types import Ge, Le
from pydantic import Field

from toolcrib.approval.past_subject import Doubt
from toolcrib.approval.policy import Unmatched
from toolcrib.approval.rule import Effect
from toolcrib.runtime.audit_messages import Filter
from toolcrib.runtime.messages import OperationParams, Time
from toolcrib.store.call_query import RowDecision, RowStatus

MAX_DRAFT: Final = 1_000_000
"""How many characters a draft may have."""
MAX_PREVIEWED: Final = 5_000
"""How many past calls one preview reads at most."""

DraftText: TypeAlias = Annotated[str, Field(max_length=MAX_DRAFT)]


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyNote:
    """What is wrong in a policy, or may surprise. Lines and columns count from 1; `end_column` is
    the one behind the last character.
    """

    level: Literal["error", "warning"]
    message: str
    line: int
    column: int
    end_column: int
    rule: str | None = None
    """The id of the rule that it is about, if it is about one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRule:
    """A rule of the policy in force."""

    rule: str
    """Its id."""
    effect: Effect
    tool: str
    line: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewerPolicy:
    """What the policy's file says now, where that is not in force: it has faults, or was not
    reloaded yet.
    """

    text: str
    notes: list[PolicyNote]


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyInForce:
    """The policy that calls are judged by. Without one, only tools that require approval
    themselves are asked about.
    """

    has_policy: bool
    loaded_at: float | None = None
    """When it was read; None when the host made it without a file."""
    file: str | None = None
    """The name of its file, without the folder; None when the host made it without a file."""
    text: str | None = None
    unmatched: Unmatched | None = None
    deadline_seconds: float | None = None
    rules: list[PolicyRule] = field(default_factory=list[PolicyRule])
    notes: list[PolicyNote] = field(default_factory=list[PolicyNote])
    """Warnings about the rules in force, against the tools of this runtime."""
    newer: NewerPolicy | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckPolicy(OperationParams):
    """The text of a policy to check."""

    text: DraftText


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyReport:
    """What a check of a policy came to."""

    is_valid: bool
    """Whether a runtime with these tools would take it: no note is an error."""
    rules: int
    notes: list[PolicyNote]


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewPolicy(OperationParams):
    """A draft to compare with the policy in force on past calls: a whole policy, or one rule that
    is added to those in force. The filters are those of `calls.list`.
    """

    draft: DraftText | None = None
    rule: DraftText | None = None
    since: Time | None = None
    until: Time | None = None
    principal: Filter | None = None
    owner: Filter | None = None
    tool: Filter | None = None
    source: Filter | None = None
    session_id: Filter | None = None
    cursor: Annotated[str, Field(max_length=255)] | None = None
    limit: Annotated[int, Ge(1), Le(MAX_PREVIEWED)] = 1_000
    """How many past calls to read, the newest first; the cursor goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictFacts:
    """The verdict of a policy on one call."""

    effect: Effect
    rule: str
    """The id of the rule that decides, or a reserved one such as `unmatched`."""
    line: int | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedCall:
    """A past call that the draft judges otherwise than the policy in force."""

    session_id: str
    seq: int
    call_id: str | None
    at: float
    tool: str
    source: str | None
    principal: str | None
    status: RowStatus
    """How the call ended then."""
    decision: RowDecision | None
    """What was decided then, when anything had to be."""
    arguments: str
    """The redacted arguments as JSON, cut when they are long."""
    before: VerdictFacts
    """By the policy in force."""
    after: VerdictFacts
    """By the draft."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeCount:
    """How many calls of a tool the draft judges otherwise, in one way. `ask` twice: other people
    have to approve, or the time to do so is another.
    """

    tool: str
    before: Effect
    after: Effect
    calls: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DoubtCount:
    """How many calls cannot be judged, because their verdict depends on what the record does not
    have: a `redacted` argument, any `arguments` at all, the `group` of the caller, or the
    properties of a `tool` that is gone.
    """

    doubt: Doubt
    calls: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyPreview:
    """What a draft would have changed in the calls that were read; `cursor` reads on, None is the
    end. Each call is in exactly one of the counts.
    """

    looked_at: int
    changed: int
    unchanged: int
    unknown: int
    not_judged: int
    """Calls that ended before a policy was asked, such as those with invalid arguments."""
    changes: list[ChangeCount]
    doubts: list[DoubtCount]
    calls: list[ChangedCall]
    """Every changed call, newest first."""
    notes: list[PolicyNote]
    """Errors and warnings about the draft against the tools of this runtime."""
    cursor: str | None = None

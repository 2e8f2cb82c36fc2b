"""The parameters and results of the operations on approval requests, grants and questions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Final, Literal

from annotated_types import Ge, Gt, Le, Lt
from pydantic import ConfigDict, Field, JsonValue, StrictBool

from toolcrib.approval.decision import GrantScope
from toolcrib.runtime.messages import Key, OperationParams
from toolcrib.tools.identity import Place

__all__ = [
    "AnswerAction",
    "AnswerQuestion",
    "AnsweredQuestion",
    "ApprovalContext",
    "ApprovalFacts",
    "ApprovedCall",
    "ArgumentChange",
    "AskingRule",
    "CallerFacts",
    "CoveredCall",
    "Decide",
    "GrantFacts",
    "GrantTerms",
    "Grants",
    "Inbox",
    "InboxState",
    "ListApprovals",
    "ListQuestions",
    "OneApproval",
    "OneGrant",
    "OpenQuestions",
    "Preview",
    "PreviewGrant",
    "QuestionFacts",
    "QuorumFacts",
    "Revoked",
    "VoteFacts",
]

MAX_APPROVALS: Final = 1_000
"""How many requests one result may hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListApprovals(OperationParams):
    """A page of the pending requests; with `is_all`, of the decided ones too. Of one session, about
    one tool, or asked for by one principal; oldest first, or what expires first.
    """

    session_id: str | None = None
    is_all: bool = False
    tool: str | None = None
    principal: str | None = None
    order: Literal["created", "deadline"] = "created"
    cursor: Annotated[str, Field(max_length=255)] | None = None
    limit: Annotated[int, Ge(1), Le(MAX_APPROVALS)] = MAX_APPROVALS


@dataclass(frozen=True, slots=True, kw_only=True)
class OneApproval(OperationParams):
    """One approval request."""

    approval_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalFacts:
    """An approval request and its state."""

    approval_id: str
    session_id: str
    call_id: str
    tool: str
    tool_source: str
    """Where the tool is from."""
    tool_version: str
    place: Place
    """Where the call would run."""
    arguments: dict[str, Any]
    digest: str
    state: str
    rule: str
    reason: str
    created_at: float
    deadline: float | None = None
    approvable_at: float | None = None
    """When it may be approved: until then another process, which is not known to be dead, may still
    run the call. None: at once."""
    parameters: dict[str, Any] = field(default_factory=dict[str, Any])
    metadata: dict[str, Any] | None = None
    changes: list[str] = field(default_factory=list[str])
    """What changed in the tool since an earlier decision on the call, or a grant for it."""
    supersedes: str | None = None
    """The earlier request about the same call, which no decision can use any more."""
    caller: CallerFacts
    approvers: list[QuorumFacts] = field(default_factory=lambda: list[QuorumFacts]())
    """Who has to approve; empty means one approver, whoever it is."""
    votes: list[VoteFacts] = field(default_factory=lambda: list[VoteFacts]())
    """Who has approved so far, where several have to."""
    edited_arguments: dict[str, Any] | None = None
    """The arguments that the votes are for, when they are not those of the call."""
    decision: Literal["approve", "deny", "answer", "expire"] | None = None
    decided_by: str | None = None
    decided_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallerFacts:
    """Who asks for a call: the principal, null for the program itself, and whether a model calls
    in its name.
    """

    principal: str | None
    groups: list[str]
    transport: str | None
    is_model: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumFacts:
    """How many different people have to approve, from which groups; no groups means every one."""

    count: int
    groups: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteFacts:
    """One approval of several that a request needs."""

    by: str
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Inbox:
    """Approval requests in the order that was asked for. `total` is how many there are on all
    pages; `cursor` asks for the next page, None is the end.
    """

    approvals: list[ApprovalFacts]
    total: int = 0
    cursor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxState:
    """How much waits for a person: requests that the principal may see, and open questions. In a
    stream, each state also names what is new, was voted for, and is gone since the one before: at
    most 100 ids each.
    """

    waiting: int
    questions: int
    added: list[str] = field(default_factory=list[str])
    changed: list[str] = field(default_factory=list[str])
    removed: list[str] = field(default_factory=list[str])


ToolRisk = Literal["read_only", "idempotent", "changes"]
"""What a tool says about its effects: it reads, it may be called twice, or it changes something."""
Unanswered = Literal["expires", "waits", "denied"]
DecisionWay = Literal["approve", "edit", "deny", "answer", "grant", "grant_everyone"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AskingRule:
    """The rule that asked. `line` is where it stands in the policy file; None for rules that are in
    no file.
    """

    id: str
    reason: str
    file: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovedCall:
    """The last approved call of the same tool, of those that the principal may see. Edited
    arguments are not kept: with `was_edited`, `arguments` are those that were asked for.
    """

    approval_id: str
    session_id: str
    by: str
    at: float
    principal: str | None
    arguments: dict[str, Any]
    was_edited: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentChange:
    """An argument that is not as in the last approved call."""

    pointer: str
    change: Literal["added", "removed", "changed"]
    before: Any = None
    after: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalContext:
    """What a person should know before they decide a request."""

    approval_id: str
    session_id: str
    session_title: str | None = None
    """What the session is about, as in `session.list`."""
    session_owner: str | None = None
    may_read_session: bool = False
    prompt: str | None = None
    """The prompt of the turn in which the call was asked for; its beginning when it is long."""
    last_words: str | None = None
    """The last text of the model before the call; its end when it is long."""
    description: str | None = None
    """The tool's description, while its session is open here."""
    risk: ToolRisk | None = None
    """None when the session is not open here, so that nobody can say."""
    rule: AskingRule
    unanswered: Unanswered
    """What becomes of the call when nobody answers: it expires at the deadline, it waits, or it is
    denied with the call that it is part of."""
    last_approved: ApprovedCall | None = None
    argument_changes: list[ArgumentChange] = field(default_factory=lambda: list[ArgumentChange]())
    tool_changes: list[str] = field(default_factory=list[str])
    """What changed in the tool since that call, and since any earlier decision on this one."""
    superseded_by: str | None = None
    """The request that took the place of this one because the tool changed."""
    ways: list[DecisionWay] = field(default_factory=list[DecisionWay])
    """What the principal may do about it; empty when it is closed or not theirs to decide."""
    why_not: str | None = None
    """Why they may not approve it."""


_NULL: Final[dict[str, JsonValue]] = {"type": "null"}
_DECISION_RULES: Final[dict[str, JsonValue]] = {
    "allOf": [
        {
            "if": {"properties": {"decision": {"const": decision}}},
            "then": {"properties": dict.fromkeys(unused, _NULL)},
        }
        for decision, unused in (
            ("approve", ("reason", "value")),
            ("deny", ("arguments", "grant", "value")),
            ("answer", ("arguments", "grant", "reason")),
        )
    ]
}
"""Which fields go with which decision, for the JSON Schema."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantTerms(OperationParams):
    """A grant that goes with an approval: whose calls it covers, and within which limits. One for
    everyone is an admin's to give, and has a limit or says `unlimited`.
    """

    scope: GrantScope
    arguments: dict[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    """Patterns by JSON pointer, as in a policy: `{"/path": {"glob": "src/**"}}`."""
    expires_in_seconds: Annotated[float, Gt(0), Lt(1e12)] | None = None
    uses: Annotated[int, Ge(1), Le(1_000_000_000)] | None = None
    unlimited: StrictBool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Decide(OperationParams):
    """A decision. It is final, and bound to the digest that the decider has seen. Where several
    people have to approve, the request stays pending until they have.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(
        extra="forbid", json_schema_extra=_DECISION_RULES
    )
    approval_id: str
    decision: Literal["approve", "deny", "answer"]
    digest: str | None = None
    arguments: dict[str, JsonValue] | None = None
    """With an approval: other arguments for the call."""
    reason: str | None = None
    """With a denial: for the model to read."""
    value: JsonValue = None
    """With an answer: it replaces the result of the call, which does not run."""
    grant: GrantTerms | None = None
    idempotency_key: Key | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantFacts:
    """A standing grant."""

    grant_id: str
    tool: str
    scope: GrantScope
    created_by: str
    created_at: float
    is_live: bool
    """Whether it is neither revoked, expired nor used up."""
    session_id: str | None = None
    principal: str | None = None
    """Whose calls it covers, in a grant of scope `principal`."""
    arguments: dict[str, Any] = field(default_factory=dict[str, Any])
    """Patterns by JSON pointer."""
    expires_at: float | None = None
    uses_left: int | None = None
    is_expired: bool = False
    is_revoked: bool = False
    revoked_by: str | None = None
    revoked_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewGrant(OperationParams):
    """A grant to compare with past calls: with the request that it would go with, or with a tool
    by its name.
    """

    approval_id: str | None = None
    tool: str | None = None
    grant: GrantTerms
    limit: Annotated[int, Ge(1), Le(100)] = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class CoveredCall:
    """A past call that a grant would have covered."""

    session_id: str
    call_id: str
    at: float
    principal: str | None
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """The calls that a grant would have covered, newest first, of those that the principal may
    read.
    """

    covered: list[CoveredCall]
    covered_count: int
    looked_at: int
    unknown_arguments: list[str]
    """Pointers of patterns that lead to no argument of the tool."""
    covers_request: bool | None = None
    """Whether it covers the call of the request itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grants:
    """Standing grants."""

    grants: list[GrantFacts]


@dataclass(frozen=True, slots=True, kw_only=True)
class OneGrant(OperationParams):
    """One grant."""

    grant_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Revoked:
    """Whether the grant was standing until now."""

    was_standing: bool


AnswerAction = Literal["answer", "decline", "cancel"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListQuestions(OperationParams):
    """The open questions of one session, or of all."""

    session_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionFacts:
    """An open question of a running call."""

    question_id: str
    session_id: str
    call_id: str
    tool: str
    text: str
    schema: dict[str, Any]
    """The JSON Schema of the answer."""
    created_at: float
    deadline: float | None = None
    is_secret: bool = False
    """Whether the answer must not be shown; it is not recorded."""
    parent_call_id: str | None = None
    turn: int = 0
    caller: CallerFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenQuestions:
    """Open questions, oldest first in each session."""

    questions: list[QuestionFacts]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerQuestion(OperationParams):
    """The answer to a question, or that there will be none. The first one counts; one that does not
    fit leaves the question open.
    """

    question_id: str
    action: AnswerAction = "answer"
    value: JsonValue = None
    """With `answer`: JSON that fits the question's schema."""
    reason: str | None = None
    """With `decline` and `cancel`: for the handler and the record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredQuestion:
    """A question that is closed now."""

    question_id: str
    session_id: str
    call_id: str
    action: AnswerAction

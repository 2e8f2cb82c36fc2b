"""Approval requests and decisions: what an approver sees, and what it may answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from toolcrib.approval.caller import NOBODY, Caller
from toolcrib.approval.quorum import Quorum
from toolcrib.tools.identity import ToolRef


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """What an approver sees. `arguments` are redacted; `digest` binds the real ones."""

    approval_id: str
    session_id: str
    call_id: str
    tool: ToolRef
    arguments: dict[str, Any]
    digest: str
    rule: str
    reason: str
    created_at: float
    deadline: float | None = None
    approvable_at: float | None = None
    """When the call may be approved: before, another process that is not known to be dead may still
    run it. None: at once."""
    parameters: dict[str, Any] = field(default_factory=dict[str, Any])
    """The tool's JSON Schema, against which edited arguments are checked."""
    argument_names: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """The keys in that schema by each other name that an argument goes by."""
    metadata: dict[str, Any] | None = None
    changes: tuple[str, ...] = ()
    """What changed in the tool since an earlier decision on the same call or a grant for it, in
    words; empty when there was none."""
    supersedes: str | None = None
    """The earlier request about the same call, which no decision can use any more."""
    tool_parts: dict[str, str] = field(default_factory=dict[str, str])
    """The parts of the tool's identity, to say later what changed."""
    parent_call_id: str | None = None
    turn: int = 0
    caller: Caller = NOBODY
    """Who asks for the call."""
    approvers: tuple[Quorum, ...] = ()
    """Who has to approve; each one has to be met. Empty: one approver, whoever it is."""


ActorKind = Literal["person", "rule", "grant", "timeout"]
GrantScope = Literal["once", "session", "principal", "everyone"]
"""Whose calls a grant covers: this one call, the calls of this session, those of the principal who
asked for this call, or everybody's.
"""


@dataclass(frozen=True, slots=True)
class Actor:
    """Who decided: a kind, and a name within that kind (a user, a rule, a grant id)."""

    kind: ActorKind
    name: str


@dataclass(frozen=True, slots=True)
class Authority:
    """What somebody may decide: their groups, and what goes beyond one call of somebody else."""

    is_admin: bool = False
    groups: tuple[str, ...] = ()
    may_approve_own: bool = False
    """Whether they may approve calls that they asked for themselves."""


HOST = Authority(is_admin=True)
"""The program that runs the tools. It decides for others; nobody approves their own call through
it unless it says so.
"""


@dataclass(frozen=True, slots=True)
class Approve:
    """Run the call; with `arguments`, run it with those instead, after validation."""

    arguments: dict[str, Any] | None = None
    kind: Literal["approve"] = "approve"


@dataclass(frozen=True, slots=True)
class Deny:
    """Do not run the call; the model reads the reason."""

    reason: str = "The call was denied."
    kind: Literal["deny"] = "deny"


@dataclass(frozen=True, slots=True)
class Answer:
    """Do not run the call; `value` replaces its result."""

    value: Any
    kind: Literal["answer"] = "answer"


@dataclass(frozen=True, slots=True)
class Expire:
    """Nobody decided in time. Only the clock decides this; it is not a denial."""

    kind: Literal["expire"] = "expire"


Decision = Approve | Deny | Answer | Expire


@dataclass(frozen=True, slots=True)
class Vote:
    """One approval of several that a request needs, with what its actor may decide."""

    actor: Actor
    at: float
    authority: Authority = HOST


@dataclass(frozen=True, slots=True)
class Ballot:
    """The votes for one and the same approval: an edit of the arguments begins another ballot."""

    approval: Approve
    votes: tuple[Vote, ...]


@dataclass(frozen=True, slots=True)
class Decided:
    """A recorded decision, bound to one approval request and to the digest of the frozen call."""

    approval_id: str
    digest: str
    decision: Decision
    actor: Actor
    at: float
    votes: tuple[Vote, ...] = ()
    """Who approved and when, where a request needs several; the last vote is the actor's own. On a
    denial, the votes that there were.
    """


def expired(request: ApprovalRequest, at: float) -> Decided:
    """The clock's decision about a request whose deadline has passed."""
    actor = Actor("timeout", "deadline")
    return Decided(request.approval_id, request.digest, Expire(), actor, at)

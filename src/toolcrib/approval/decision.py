"""Approval requests and decisions: what an approver sees, and what it may answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from toolcrib.approval.caller import NOBODY, Caller
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


ActorKind = Literal["person", "rule", "grant", "timeout"]
GrantScope = Literal["once", "session", "always"]


@dataclass(frozen=True, slots=True)
class Actor:
    """Who decided: a kind, and a name within that kind (a user, a rule, a grant id)."""

    kind: ActorKind
    name: str


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
class Decided:
    """A recorded decision, bound to one approval request and to the digest of the frozen call."""

    approval_id: str
    digest: str
    decision: Decision
    actor: Actor
    at: float

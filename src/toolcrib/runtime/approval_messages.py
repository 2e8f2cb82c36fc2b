"""What is asked about approvals and grants, and what is answered."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal

from pydantic import ConfigDict, JsonValue

from toolcrib.approval.decision import GrantScope
from toolcrib.runtime.params import Key, Params


@dataclass(frozen=True, slots=True, kw_only=True)
class ListApprovals(Params):
    """What waits, in one session or in all; with `is_all`, what is decided too."""

    session_id: str | None = None
    is_all: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OneApproval(Params):
    """One request for approval."""

    approval_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalFacts:
    """A request for approval, and what became of it."""

    approval_id: str
    session_id: str
    call_id: str
    tool: str
    arguments: dict[str, Any]
    digest: str
    state: str
    rule: str
    reason: str
    created_at: float
    deadline: float | None = None
    parameters: dict[str, Any] = field(default_factory=dict[str, Any])
    metadata: dict[str, Any] | None = None
    decided_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Inbox:
    """Requests for approval, oldest first."""

    approvals: list[ApprovalFacts]


_NULL: Final[dict[str, JsonValue]] = {"type": "null"}
_FITTING: Final[dict[str, JsonValue]] = {
    "if": {"properties": {"decision": {"const": "approve"}}},
    "then": {"properties": {"reason": _NULL}},
    "else": {"properties": {"arguments": _NULL, "grant": _NULL}},
}
"""What goes with which decision, for whoever reads the schema."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decide(Params):
    """A decision. It is final, and bound to the digest that whoever decides has seen."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(
        extra="forbid", json_schema_extra=_FITTING
    )
    approval_id: str
    decision: Literal["approve", "deny"]
    digest: str | None = None
    arguments: dict[str, JsonValue] | None = None
    reason: str | None = None
    grant: GrantScope | None = None
    idempotency_key: Key | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantFacts:
    """A standing yes."""

    grant_id: str
    tool: str
    scope: GrantScope
    created_by: str
    created_at: float
    session_id: str | None = None
    expires_at: float | None = None
    uses_left: int | None = None
    is_revoked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Grants:
    """Standing grants."""

    grants: list[GrantFacts]


@dataclass(frozen=True, slots=True, kw_only=True)
class OneGrant(Params):
    """One grant."""

    grant_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Revoked:
    """Whether the grant was standing."""

    was_standing: bool

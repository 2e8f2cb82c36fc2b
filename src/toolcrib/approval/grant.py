"""Grants: a standing yes of a person, bound to one tool at one digest, and revocable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from toolcrib.approval.decision import Actor, GrantScope
from toolcrib.approval.pattern import Pattern, checked_patterns, first_mismatch
from toolcrib.approval.rule import Subject
from toolcrib.errors import InvalidDecision
from toolcrib.tools.identity import ToolRef


@dataclass(frozen=True, slots=True)
class Grant:
    """Calls of one tool that need no further approval. It replaces an approval; it never overrides
    a deny rule.
    """

    grant_id: str
    tool_id: str
    tool_digest: str
    scope: GrantScope
    created_by: Actor
    created_at: float
    session_id: str | None = None
    call_id: str | None = None
    arguments: Mapping[str, Pattern] = field(default_factory=dict[str, Any])
    expires_at: float | None = None
    uses_left: int | None = None
    revoked_at: float | None = None
    tool_parts: Mapping[str, str] = field(default_factory=dict[str, str])
    """The parts of the tool's identity, to say what changed when the grant covers it no more."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "arguments", checked_patterns(self.arguments))
        if (self.session_id is None) != (self.scope == "always"):
            raise InvalidDecision(f"a grant of scope {self.scope} with session {self.session_id}")
        if (self.call_id is None) != (self.scope != "once"):
            raise InvalidDecision(f"a grant of scope {self.scope} with call {self.call_id}")

    def covers(
        self, subject: Subject, *, session_id: str, now: float, call_id: str | None = None
    ) -> bool:
        """Whether this grant covers `subject`. A grant for one call needs its `call_id`."""
        return (
            self.is_live(now)
            and self.tool_id == subject.tool.id
            and self.tool_digest == subject.tool.digest
            and self.session_id in (None, session_id)
            and self.call_id in (None, call_id)
            and first_mismatch(self.arguments, subject.arguments, "narrow", subject.names) is None
        )

    def is_live(self, now: float) -> bool:
        """Whether the grant is neither revoked, expired nor used up."""
        is_expired = self.expires_at is not None and now >= self.expires_at
        is_spent = self.uses_left is not None and self.uses_left <= 0
        return self.revoked_at is None and not is_expired and not is_spent

    def spend(self) -> Grant:
        """Return the grant after one more use."""
        if self.uses_left is None:
            return self
        return replace(self, uses_left=max(0, self.uses_left - 1))

    def revoke(self, at: float) -> Grant:
        """Return the revoked grant. A second revocation keeps the first time."""
        return self if self.revoked_at is not None else replace(self, revoked_at=at)


@dataclass(frozen=True, slots=True)
class NewGrant:
    """The grant that an approver adds to an approval."""

    scope: GrantScope
    arguments: Mapping[str, Pattern] = field(default_factory=dict[str, Any])
    expires_in_seconds: float | None = None
    uses: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "arguments", checked_patterns(self.arguments))
        if self.scope not in ("once", "session", "always"):
            raise InvalidDecision(f"{self.scope!r} is no scope; write once, session or always")
        if self.expires_in_seconds is not None and not self.expires_in_seconds > 0:
            raise InvalidDecision(
                f"a grant for {self.expires_in_seconds} seconds; write more than 0"
            )
        if self.uses is not None and self.uses < 1:
            raise InvalidDecision(f"a grant for {self.uses} uses; write 1 or more")

    def issue(
        self,
        *,
        grant_id: str,
        tool: ToolRef,
        session_id: str,
        call_id: str,
        actor: Actor,
        now: float,
    ) -> Grant:
        """Return the grant, bound to the tool and, by its scope, to the session or the call."""
        lifetime = self.expires_in_seconds
        return Grant(
            grant_id=grant_id,
            tool_id=tool.id,
            tool_digest=tool.digest,
            scope=self.scope,
            created_by=actor,
            created_at=now,
            session_id=None if self.scope == "always" else session_id,
            call_id=call_id if self.scope == "once" else None,
            arguments=self.arguments,
            expires_at=None if lifetime is None else now + lifetime,
            uses_left=self.uses,
        )

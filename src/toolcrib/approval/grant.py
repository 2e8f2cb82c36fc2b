"""Grants: a standing yes of a person, bound to one tool at one digest, and revocable; and the
preview of one: which past calls it would have covered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast, get_args

from toolcrib.approval.authority import bounded, counts_for
from toolcrib.approval.caller import Caller
from toolcrib.approval.decision import HOST, Actor, ApprovalRequest, Authority, GrantScope
from toolcrib.approval.pattern import MISSING, Pattern, checked_patterns, first_mismatch, resolve
from toolcrib.approval.quorum import Quorum
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
    principal: str | None = None
    """Whose calls it covers, in a grant of scope `principal`."""
    arguments: Mapping[str, Pattern] = field(default_factory=dict[str, Any])
    expires_at: float | None = None
    uses_left: int | None = None
    revoked_at: float | None = None
    revoked_by: Actor | None = None
    expired_at: float | None = None
    """When it was first seen expired; it stays so when the clock is set back."""
    authority: Authority = HOST
    """What its giver might decide: a grant says yes to no more than that."""
    tool_parts: Mapping[str, str] = field(default_factory=dict[str, str])
    """The parts of the tool's identity, to say what changed when the grant covers it no more."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "arguments", checked_patterns(self.arguments))
        is_in_session = self.scope in ("once", "session")
        bindings = {
            "session": (self.session_id, is_in_session),
            "call": (self.call_id, self.scope == "once"),
            "principal": (self.principal, self.scope == "principal"),
        }
        for name, (value, is_bound) in bindings.items():
            if (value is not None) != is_bound:
                raise InvalidDecision(f"a grant of scope {self.scope} with {name} {value}")

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
            and self.principal in (None, subject.caller.principal)
            and not self._is_own(subject)
            and first_mismatch(self.arguments, subject.arguments, "narrow", subject.names) is None
        )

    def meets(self, approvers: Sequence[Quorum]) -> bool:
        """Whether the yes of its giver is enough: never where several people have to approve, nor
        for a group that the giver was not in.
        """
        return all(quorum.count == 1 and counts_for(quorum, self.authority) for quorum in approvers)

    def is_live(self, now: float) -> bool:
        """Whether the grant is neither revoked, expired nor used up."""
        is_spent = self.uses_left is not None and self.uses_left <= 0
        has_ended = self.revoked_at is not None or self.expired_at is not None
        return not (has_ended or is_spent or self.is_overdue(now))

    def is_overdue(self, now: float) -> bool:
        """Whether its time is over at `now` and nobody has noticed yet."""
        return self.expires_at is not None and now >= self.expires_at and self.expired_at is None

    def spend(self) -> Grant:
        """Return the grant after one more use."""
        if self.uses_left is None:
            return self
        return replace(self, uses_left=max(0, self.uses_left - 1))

    def revoke(self, at: float, by: Actor) -> Grant:
        """Return the revoked grant. A second revocation keeps the first."""
        if self.revoked_at is not None:
            return self
        return replace(self, revoked_at=at, revoked_by=by)

    def expire(self, at: float) -> Grant:
        """Return the grant that was seen expired."""
        return self if self.expired_at is not None else replace(self, expired_at=at)

    def _is_own(self, subject: Subject) -> bool:
        """Whether its giver asks for the call, without the right to approve own calls."""
        giver = self.created_by
        is_asker = giver.kind == "person" and giver.name == subject.caller.principal
        return is_asker and not self.authority.may_approve_own


@dataclass(frozen=True, slots=True)
class NewGrant:
    """The grant that an approver adds to an approval.

    A grant for everyone has to be limited by arguments, time or uses, or say `unlimited`: then an
    admin meant it. A grant for a principal ends after 30 days unless it says otherwise.
    """

    scope: GrantScope
    arguments: Mapping[str, Pattern] = field(default_factory=dict[str, Any])
    expires_in_seconds: float | None = None
    uses: int | None = None
    unlimited: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "arguments", checked_patterns(self.arguments))
        scopes = get_args(GrantScope)
        if self.scope not in scopes:
            raise InvalidDecision(f"{self.scope!r} is no scope; write one of {', '.join(scopes)}")
        if self.expires_in_seconds is not None and not (0 < self.expires_in_seconds < float("inf")):
            raise InvalidDecision(
                f"a grant for {self.expires_in_seconds} seconds; write a finite number above 0"
            )
        if self.uses is not None and self.uses < 1:
            raise InvalidDecision(f"a grant for {self.uses} uses; write 1 or more")
        self._check_limits()

    def _check_limits(self) -> None:
        is_timed = self.expires_in_seconds is not None or self.uses is not None
        if self.unlimited and is_timed:
            raise InvalidDecision("a grant is unlimited, or has a time or uses; leave one out")
        if self.scope == "everyone" and not (is_timed or self.arguments or self.unlimited):
            raise InvalidDecision(
                "a grant for everyone needs a limit: arguments, a time or a number of uses; "
                "an admin who means every call of everybody, for ever, says unlimited"
            )

    def issue(
        self,
        request: ApprovalRequest,
        *,
        grant_id: str,
        actor: Actor,
        now: float,
        authority: Authority = HOST,
    ) -> Grant:
        """Return the grant for calls like the one of `request`, bound to its tool and, by its
        scope, to its call, session or asker. Raises `DecisionForbidden` when it goes beyond the
        authority of the actor.
        """
        new = bounded(self, authority)
        if new.scope == "principal" and request.caller.principal is None:
            raise InvalidDecision(
                "nobody is named as the asker of this call; grant it for the session instead"
            )
        lifetime = new.expires_in_seconds
        return Grant(
            grant_id=grant_id,
            tool_id=request.tool.id,
            tool_digest=request.tool.digest,
            scope=new.scope,
            created_by=actor,
            created_at=now,
            session_id=request.session_id if new.scope in ("once", "session") else None,
            call_id=request.call_id if new.scope == "once" else None,
            principal=request.caller.principal if new.scope == "principal" else None,
            arguments=new.arguments,
            expires_at=None if lifetime is None else now + lifetime,
            uses_left=new.uses,
            authority=authority,
            tool_parts=request.tool_parts,
        )


@dataclass(frozen=True, slots=True)
class PastCall:
    """A call that ended, with its redacted arguments."""

    session_id: str
    call_id: str
    at: float
    tool: ToolRef
    arguments: Mapping[str, Any]
    principal: str | None = None


@dataclass(frozen=True, slots=True)
class GrantPreview:
    """What a grant would have covered. A hidden argument never matches, here as later."""

    covered: tuple[PastCall, ...]
    """Newest first, at most as many as were asked for."""
    covered_count: int
    looked_at: int
    """How many past calls of the tool were compared."""
    unknown_arguments: tuple[str, ...]
    """Pointers of patterns that lead to no argument of the tool: such a grant covers nothing."""


def preview_grant(
    grant: Grant,
    calls: Iterable[PastCall],
    *,
    parameters: Mapping[str, Any] | None = None,
    limit: int = 20,
) -> GrantPreview:
    """Compare a grant with past calls of its tool, newest first. `parameters` is the tool's JSON
    Schema; without it, an argument that no past call has is unknown.
    """
    # Whether it still holds is no question here, nor is which version of the tool was called.
    timeless = replace(grant, expires_at=None, expired_at=None, revoked_at=None, uses_left=None)
    covered: list[PastCall] = []
    covered_count = looked_at = 0
    unseen = set(grant.arguments)
    for call in calls:
        if call.tool.id != grant.tool_id:
            continue
        looked_at += 1
        unseen -= {pointer for pointer in unseen if _leads_somewhere(pointer, call.arguments)}
        if timeless.covers(
            _subject(call, grant), session_id=call.session_id, now=call.at, call_id=call.call_id
        ):
            covered_count += 1
            if len(covered) < limit:
                covered.append(call)
    if parameters is not None:
        unknown = unknown_arguments(grant.arguments, parameters)
    else:
        unknown = tuple(sorted(unseen)) if looked_at else ()
    return GrantPreview(tuple(covered), covered_count, looked_at, unknown)


def unknown_arguments(pointers: Iterable[str], parameters: Mapping[str, Any]) -> tuple[str, ...]:
    """The pointers that lead to no argument by the tool's JSON Schema. Where the schema says
    nothing about a member, it is taken to be there.
    """
    return tuple(
        pointer for pointer in pointers if not _is_declared(_segments(pointer), parameters)
    )


def _subject(call: PastCall, grant: Grant) -> Subject:
    tool = replace(call.tool, digest=grant.tool_digest)
    return Subject(tool, call.arguments, caller=Caller(call.principal))


def _leads_somewhere(pointer: str, arguments: Mapping[str, Any]) -> bool:
    return any(value is not MISSING for value in resolve(pointer, arguments))


def _segments(pointer: str) -> Iterator[str]:
    for segment in pointer.split("/")[1:]:
        yield segment.replace("~1", "/").replace("~0", "~")


def _is_declared(segments: Iterator[str], schema: Mapping[str, Any]) -> bool:
    for segment in segments:
        properties = schema.get("properties")
        if not isinstance(properties, Mapping):
            return True
        members = cast("Mapping[str, Any]", properties)
        if segment not in members:
            return segment == "*" or isinstance(schema.get("additionalProperties"), Mapping)
        member = members[segment]
        if not isinstance(member, Mapping):
            return True
        schema = cast("Mapping[str, Any]", member)
    return True

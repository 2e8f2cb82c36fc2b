"""Questions about the inbox: which approval requests, in whose eyes, in which order."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal

from toolcrib.errors import UsageError
from toolcrib.store.store import ApprovalState, FiledApproval

InboxOrder = Literal["created", "deadline"]
"""Oldest first, or what expires first; what has no deadline comes last."""

Place = tuple[float, int]
"""Where a request stands in the order: its deadline or 0, then its number."""


@dataclass(frozen=True, slots=True)
class Viewer:
    """Somebody who may see a part of the inbox: the requests of their own calls and sessions and,
    for an approver, those that are routed to nobody in particular or to one of their groups.
    """

    name: str
    is_approver: bool = False
    groups: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalQuery:
    """Which requests, in which order. A filter that is None lets everything pass."""

    viewer: Viewer | None = None
    """Who looks; None sees every request."""
    session_id: str | None = None
    state: ApprovalState | None = None
    tool: str | None = None
    principal: str | None = None
    """Who asked for the call."""
    is_approved: bool = False
    """Only those that were approved."""
    order: InboxOrder = "created"
    newest_first: bool = False
    """The other way round."""

    def matches(self, filed: FiledApproval, owner: str | None) -> bool:
        """Whether a request of a session of this owner passes every filter."""
        request, decided = filed.request, filed.decided
        wanted = (
            (self.session_id, request.session_id),
            (self.state, filed.state),
            (self.tool, request.tool.name),
            (self.principal, request.caller.principal),
        )
        is_approved = decided is not None and decided.decision.kind == "approve"
        return (
            all(value in (None, actual) for value, actual in wanted)
            and (is_approved or not self.is_approved)
            and (self.viewer is None or _is_visible(filed, owner, self.viewer))
        )

    def place(self, filed: FiledApproval, number: int) -> Place:
        """Where a request stands in this order."""
        if self.order == "created":
            return 0.0, number
        deadline = filed.request.deadline
        return math.inf if deadline is None else deadline, number


def _is_visible(filed: FiledApproval, owner: str | None, viewer: Viewer) -> bool:
    request = filed.request
    if viewer.name in (request.caller.principal, owner):
        return True
    return viewer.is_approver and (
        not request.approvers
        or any(
            not quorum.groups or not viewer.groups.isdisjoint(quorum.groups)
            for quorum in request.approvers
        )
    )


@dataclass(frozen=True, slots=True)
class InboxPage:
    """A part of the inbox. `cursor` asks for the part after it, None is the end; `total` is how
    many requests there are in all parts.
    """

    items: tuple[FiledApproval, ...]
    cursor: str | None = None
    total: int = field(default=0, kw_only=True)


def page_of(
    filed: Iterable[tuple[int, FiledApproval]],
    query: ApprovalQuery,
    owner_of: Callable[[str], str | None],
    cursor: str | None,
    limit: int,
) -> InboxPage:
    """The page after a cursor, of numbered requests in any order."""
    wanted = [
        (query.place(each, number), each)
        for number, each in filed
        if query.matches(each, owner_of(each.request.session_id))
    ]
    wanted.sort(key=lambda placed: placed[0], reverse=query.newest_first)
    last = None if cursor is None else place_of(cursor)
    rest = [
        placed
        for placed in wanted
        if last is None or (placed[0] < last if query.newest_first else placed[0] > last)
    ]
    page = rest[:limit]
    end = cursor_at(page[-1][0]) if len(rest) > limit else None
    return InboxPage(tuple(each for _, each in page), end, total=len(wanted))


def place_of(cursor: str) -> Place:
    """Read a cursor. Raises `UsageError`."""
    value, _, number = cursor.partition(" ")
    try:
        return float(value), int(number)
    except ValueError:
        raise UsageError("unknown cursor; list again without one") from None


def cursor_at(place: Place) -> str:
    """The cursor that asks for what follows a place."""
    return f"{place[0]!r} {place[1]}"

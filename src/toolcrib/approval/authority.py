"""Who may decide what: four eyes, groups, several approvers, and the bounds of grants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from toolcrib.approval.decision import (
    Actor,
    Answer,
    ApprovalRequest,
    Approve,
    Authority,
    Ballot,
    Decided,
    Decision,
    Vote,
)
from toolcrib.approval.quorum import Quorum, quorum_text
from toolcrib.errors import DecisionForbidden, InvalidDecision

if TYPE_CHECKING:
    from toolcrib.approval.grant import NewGrant

DEFAULT_GRANT_SECONDS: Final = 30 * 86_400.0
"""How long a grant for one principal holds when neither its time nor its uses are limited."""


def check_decider(
    request: ApprovalRequest, decision: Decision, actor: Actor, authority: Authority
) -> None:
    """Raise `DecisionForbidden` when the actor may not make this decision about this request.

    Everybody may deny their own call. To approve it, as it is or edited, and to answer in the
    tool's place takes somebody else.
    """
    if not is_routed_to(request.approvers, authority):
        raise DecisionForbidden(
            f"request {request.approval_id} is for the approvers of "
            f"{' and '.join(map(quorum_text, request.approvers))}"
        )
    if isinstance(decision, Approve | Answer) and is_own(request, actor, authority):
        raise DecisionForbidden(
            f"{actor.name!r} asked for this call, so somebody else has to approve it; "
            "the owner of the runtime can allow it with approve_own_calls"
        )
    if isinstance(decision, Answer) and not is_enough(request.approvers, actor, authority):
        needs = " and ".join(map(quorum_text, request.approvers))
        raise DecisionForbidden(
            f"request {request.approval_id} needs {needs}, and one of them cannot answer in the "
            "tool's place; approve or deny it"
        )


def is_own(request: ApprovalRequest, actor: Actor, authority: Authority) -> bool:
    """Whether a person decides about their own call without the right to approve it."""
    is_asker = actor.kind == "person" and request.caller.principal == actor.name
    return is_asker and not authority.may_approve_own


def is_routed_to(approvers: Sequence[Quorum], authority: Authority) -> bool:
    """Whether somebody with this authority takes part in the decision."""
    return not approvers or any(counts_for(quorum, authority) for quorum in approvers)


def counts_for(quorum: Quorum, authority: Authority) -> bool:
    """Whether an approval with this authority counts towards the quorum."""
    is_member = not quorum.groups or not set(quorum.groups).isdisjoint(authority.groups)
    return authority.is_admin or is_member


def is_enough(approvers: Sequence[Quorum], actor: Actor, authority: Authority) -> bool:
    """Whether this one person may decide for everybody who has to approve."""
    return not approvers or is_met(approvers, (Vote(actor, 0.0, authority),))


def needed(approvers: Sequence[Quorum]) -> int:
    """How many people a request needs at least."""
    return max((quorum.count for quorum in approvers), default=1)


def is_met(approvers: Sequence[Quorum], votes: Sequence[Vote]) -> bool:
    """Whether these votes, of different people, are enough."""
    names = {(vote.actor.kind, vote.actor.name) for vote in votes}
    if len(names) < len(votes):
        return False
    return bool(votes) and all(_votes_for(quorum, votes) >= quorum.count for quorum in approvers)


def _votes_for(quorum: Quorum, votes: Sequence[Vote]) -> int:
    # Two pairs of eyes are two people: a function of the host's may stand for one of one only.
    return sum(
        counts_for(quorum, vote.authority) and (quorum.count == 1 or vote.actor.kind == "person")
        for vote in votes
    )


def cast_vote(ballot: Ballot | None, approval: Approve, vote: Vote) -> Ballot:
    """The ballot after one more vote. An approval of other arguments than those of the ballot
    begins anew. Raises `InvalidDecision` when the person has voted already.
    """
    if ballot is None or ballot.approval != approval:
        return Ballot(approval, (vote,))
    if any(earlier.actor == vote.actor for earlier in ballot.votes):
        raise InvalidDecision(
            f"{vote.actor.name!r} has approved this request already; it needs somebody else too"
        )
    return replace(ballot, votes=(*ballot.votes, vote))


def completes(ballot: Ballot | None, decided: Decided) -> bool:
    """Whether a decision follows from the ballot in the store: nobody has voted meanwhile."""
    if not isinstance(decided.decision, Approve) or len(decided.votes) < 2:
        return True
    return (
        ballot is not None
        and ballot.approval == decided.decision
        and ballot.votes == decided.votes[:-1]
    )


def check_votes(request: ApprovalRequest, decided: Decided) -> None:
    """Raise `InvalidDecision` when an approval has fewer votes than its request needs."""
    if not isinstance(decided.decision, Approve) or not _is_counted(request, decided):
        return
    if not is_met(request.approvers, decided.votes):
        needs = " and ".join(map(quorum_text, request.approvers))
        raise InvalidDecision(f"request {request.approval_id} needs {needs}")


def _is_counted(request: ApprovalRequest, decided: Decided) -> bool:
    # A grant is judged where it is taken, and it never meets a quorum of several people.
    return bool(request.approvers) and decided.actor.kind != "grant"


def bounded(grant: NewGrant, authority: Authority) -> NewGrant:
    """The grant with the bounds that it needs. Raises `DecisionForbidden` for one that goes beyond
    the authority of who gives it.
    """
    if not authority.is_admin and (grant.scope == "everyone" or grant.unlimited):
        raise DecisionForbidden(
            "only an admin gives a grant for everyone, or one without limits; grant it for the "
            "session or for the principal, with a time or a number of uses"
        )
    is_limited = grant.uses is not None or grant.expires_in_seconds is not None
    if grant.scope == "principal" and not is_limited and not grant.unlimited:
        return replace(grant, expires_in_seconds=DEFAULT_GRANT_SECONDS)
    return grant

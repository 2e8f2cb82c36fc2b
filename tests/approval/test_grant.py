"""A grant covers one tool at one digest, within its scope, time, uses and arguments."""

from dataclasses import replace
from typing import Any

import pytest
from pydantic import TypeAdapter

from tests.approval.samples import request, subject, tool_ref
from toolcrib.approval.caller import Caller
from toolcrib.approval.decision import Actor, Authority
from toolcrib.approval.grant import Grant, NewGrant
from toolcrib.approval.pattern import Equals, Glob, Not, OneOf
from toolcrib.approval.quorum import Quorum
from toolcrib.approval.rule import Subject
from toolcrib.errors import DecisionForbidden, InvalidDecision, InvalidPolicy

JO = Actor("person", "jo")
ANN = Caller("ann")
ANYBODY = NewGrant("everyone", unlimited=True)


def issue(new: NewGrant) -> Grant:
    return new.issue(request(caller=ANN), grant_id="grant-1", actor=JO, now=1000.0)


def covers(
    grant: Grant,
    judged: Subject | None = None,
    *,
    session_id: str = "session-1",
    now: float = 1000.0,
    call_id: str | None = None,
) -> bool:
    judged = judged or subject()
    judged = judged if judged.caller.principal else replace(judged, caller=ANN)
    return grant.covers(judged, session_id=session_id, now=now, call_id=call_id)


@pytest.mark.parametrize(
    ("new", "same_call", "same_session", "other_session"),
    [
        (NewGrant("once"), True, False, False),
        (NewGrant("session"), True, True, False),
        (NewGrant("principal"), True, True, True),
        (ANYBODY, True, True, True),
    ],
    ids=lambda value: value.scope if isinstance(value, NewGrant) else None,
)
def test_a_grant_keeps_to_its_scope(
    new: NewGrant, same_call: bool, same_session: bool, other_session: bool
) -> None:
    """R42: once is one call, session is one session; principal and everyone span sessions."""
    grant = issue(new)

    assert covers(grant, call_id="call-1") is same_call
    assert covers(grant, call_id="call-2") is same_session
    assert covers(grant) is same_session
    assert covers(grant, session_id="session-2", call_id="call-2") is other_session


@pytest.mark.parametrize(
    "tool",
    [tool_ref("other"), tool_ref(source="host"), tool_ref(digest="digest-2")],
    ids=["other name", "same name elsewhere", "changed tool"],
)
def test_a_grant_is_bound_to_one_tool_as_it_was(tool: Any) -> None:
    """R42, R50: neither a namesake from another source nor a changed tool is covered."""
    grant = issue(ANYBODY)

    assert covers(grant)
    assert not covers(grant, subject(tool=tool))


def test_a_grant_ends() -> None:
    """An expired, used up or revoked grant covers nothing."""
    timed = issue(NewGrant("everyone", expires_in_seconds=60))
    counted = issue(NewGrant("everyone", uses=2))

    assert covers(timed, now=1059.9)
    assert not covers(timed, now=1060.0)
    assert covers(counted.spend())
    assert not covers(counted.spend().spend())
    assert not covers(issue(ANYBODY).revoke(1000.0, JO))


def test_a_grant_without_a_count_is_not_used_up() -> None:
    """Spending a grant that has no count changes nothing."""
    grant = issue(ANYBODY)

    assert grant.spend() == grant


def test_spending_never_goes_below_zero() -> None:
    """A count that is used up stays used up."""
    assert issue(NewGrant("everyone", uses=1)).spend().spend().uses_left == 0


def test_revoking_twice_keeps_the_first_time() -> None:
    """The record says when the grant really ended."""
    assert issue(ANYBODY).revoke(5.0, JO).revoke(9.0, JO).revoked_at == 5.0


@pytest.mark.parametrize(
    ("arguments", "is_covered"),
    [
        ({"path": "src/a.py", "mode": "w"}, True),
        ({"path": "src/a.py", "mode": "x"}, False),
        ({"path": "src/a.py"}, False),
        ({"path": "src/../etc/passwd", "mode": "w"}, False),
        ({"path": ["src/a.py"], "mode": "w"}, False),
    ],
)
def test_a_grant_covers_calls_whose_arguments_all_match(
    arguments: dict[str, Any], is_covered: bool
) -> None:
    """Arguments are judged as for an allow rule: doubt means that somebody is asked."""
    grant = issue(NewGrant("everyone", {"/path": Glob("src/**"), "/mode": OneOf(("w", "a"))}))

    assert covers(grant, subject(arguments)) is is_covered


def test_a_grant_for_exactly_these_arguments_covers_no_others() -> None:
    """One more argument makes another call."""
    grant = issue(NewGrant("everyone", {"": Equals({"path": "a"})}))

    assert covers(grant, subject({"path": "a"}))
    assert not covers(grant, subject({"path": "a", "force": True}))


def test_a_grant_survives_json() -> None:
    """Grants live in the store as JSON and come back equal."""
    adapter = TypeAdapter(Grant)
    patterns = {"/path": Not(Glob("*")), "/n": Equals(True), "": Equals({"a": [1]})}
    for scope in ("once", "session", "principal", "everyone"):
        grant = issue(NewGrant(scope, patterns, 60.0, 3)).revoke(5.0, JO)

        assert adapter.validate_json(adapter.dump_json(grant)) == grant


def bad_grants() -> list[Any]:
    everyone = issue(ANYBODY)
    return [
        lambda: NewGrant("forever"),  # pyright: ignore[reportArgumentType]
        lambda: NewGrant("everyone", uses=0),
        lambda: NewGrant("everyone", expires_in_seconds=0),
        lambda: replace(everyone, scope="session"),
        lambda: replace(everyone, session_id="session-1"),
        lambda: replace(everyone, call_id="call-1"),
        lambda: replace(everyone, scope="once", session_id="session-1"),
        lambda: replace(everyone, principal="ann"),
        lambda: replace(issue(NewGrant("principal")), principal=None),
    ]


@pytest.mark.parametrize("make", bad_grants())
def test_a_grant_that_does_not_fit_its_scope_is_refused(make: Any) -> None:
    """A session grant without a session would hold everywhere, so it cannot be made."""
    with pytest.raises(InvalidDecision):
        make()


def test_a_grant_with_a_bad_pattern_is_refused() -> None:
    """Patterns are checked when the grant is made."""
    with pytest.raises(InvalidPolicy):
        NewGrant("everyone", {"path": Equals(1)})
    with pytest.raises(InvalidPolicy):
        replace(issue(ANYBODY), arguments={"path": Equals(1)})


APPROVER = Authority(groups=("desk",))
ADMIN = Authority(is_admin=True)


def given(new: NewGrant, authority: Authority, **changes: Any) -> Grant:
    asked = request(caller=ANN, **changes)
    return new.issue(asked, grant_id="g", actor=JO, now=1000.0, authority=authority)


def test_a_grant_for_a_principal_covers_its_calls_alone() -> None:
    """The yes to one asker is no yes to another, nor to a call that nobody is named for."""
    grant = issue(NewGrant("principal", uses=5))

    assert covers(grant, replace(subject(), caller=ANN), session_id="session-9")
    assert not covers(grant, replace(subject(), caller=Caller("bob")))
    assert not grant.covers(subject(), session_id="session-1", now=1000.0)


def test_a_grant_for_everyone_is_an_admins() -> None:
    """An approver who is no admin grants for a session or a principal at most."""
    limited = NewGrant("everyone", uses=5)

    assert given(limited, ADMIN).uses_left == 5
    for new in (limited, ANYBODY, NewGrant("session", unlimited=True)):
        with pytest.raises(DecisionForbidden, match="only an admin"):
            given(new, APPROVER)


def test_a_grant_for_everyone_without_limits_is_said_in_so_many_words() -> None:
    """Security 9: not even an admin lets everybody make every call by leaving something out."""
    with pytest.raises(InvalidDecision, match="unlimited"):
        NewGrant("everyone")

    assert given(ANYBODY, ADMIN).expires_at is None


@pytest.mark.parametrize(
    "limits", [{"arguments": {"/path": Equals("a")}}, {"expires_in_seconds": 60.0}, {"uses": 1}]
)
def test_a_limit_bounds_a_grant_for_everyone(limits: Any) -> None:
    """Arguments, time and uses each make it a bounded one; two contradicting words are refused."""
    assert NewGrant("everyone", **limits)
    if "arguments" not in limits:
        with pytest.raises(InvalidDecision, match="unlimited"):
            NewGrant("everyone", unlimited=True, **limits)


def test_a_grant_for_a_principal_ends_by_default() -> None:
    """It outlives the session, so it has an end: 30 days, unless it has uses or a time."""
    month = 30 * 86_400.0

    assert given(NewGrant("principal"), APPROVER).expires_at == 1000.0 + month
    assert given(NewGrant("principal", {"/path": Equals("a")}), ADMIN).expires_at == 1000.0 + month
    assert given(NewGrant("principal", uses=2), APPROVER).expires_at is None
    assert given(NewGrant("principal", expires_in_seconds=5), APPROVER).expires_at == 1005.0
    assert given(NewGrant("principal", unlimited=True), ADMIN).expires_at is None


def test_a_grant_for_a_principal_needs_one() -> None:
    """A call that nobody asked for has no principal whose calls could be covered."""
    with pytest.raises(InvalidDecision, match="nobody is named"):
        NewGrant("principal").issue(request(), grant_id="g", actor=JO, now=1.0)


def test_nobody_gives_themselves_a_grant() -> None:
    """Four eyes: a grant never covers the calls of its giver, unless they may approve their own."""
    own = replace(subject(), caller=Caller("jo"))
    owner = Authority(is_admin=True, may_approve_own=True)

    assert not covers(given(NewGrant("everyone", uses=9), ADMIN), own)
    assert covers(given(NewGrant("everyone", uses=9), owner), own)


def test_a_grant_says_yes_to_no_more_than_its_giver_may() -> None:
    """It meets the quorum of a group that its giver is in, and never one of several people."""
    grant = given(NewGrant("session"), APPROVER)

    assert grant.meets(())
    assert grant.meets((Quorum(groups=("desk", "board")),))
    assert not grant.meets((Quorum(groups=("board",)),))
    assert not grant.meets((Quorum(2),))
    assert not given(NewGrant("session"), ADMIN).meets((Quorum(2, ("desk",)),))


def test_an_expired_grant_stays_expired() -> None:
    """Security 20: what was once seen expired is not revived by an earlier time."""
    grant = issue(NewGrant("everyone", expires_in_seconds=60)).expire(1060.0)

    assert not covers(grant, now=1000.0)
    assert grant.expire(2000.0).expired_at == 1060.0

"""A grant covers one tool at one digest, within its scope, time, uses and arguments."""

from dataclasses import replace
from typing import Any

import pytest
from pydantic import TypeAdapter

from tests.approval.samples import subject, tool_ref
from toolcrib.approval.decision import Actor
from toolcrib.approval.grant import Grant, NewGrant
from toolcrib.approval.pattern import Equals, Glob, Not, OneOf
from toolcrib.approval.rule import Subject
from toolcrib.errors import InvalidDecision, InvalidPolicy

JO = Actor("person", "jo")


def issue(new: NewGrant) -> Grant:
    return new.issue(
        grant_id="grant-1",
        tool=tool_ref(),
        session_id="session-1",
        call_id="call-1",
        actor=JO,
        now=1000.0,
    )


def covers(
    grant: Grant,
    judged: Subject | None = None,
    *,
    session_id: str = "session-1",
    now: float = 1000.0,
    call_id: str | None = None,
) -> bool:
    return grant.covers(judged or subject(), session_id=session_id, now=now, call_id=call_id)


@pytest.mark.parametrize(
    ("scope", "same_call", "same_session", "other_session"),
    [("once", True, False, False), ("session", True, True, False), ("always", True, True, True)],
)
def test_a_grant_keeps_to_its_scope(
    scope: Any, same_call: bool, same_session: bool, other_session: bool
) -> None:
    """R42: once is one call, session is one session, always spans sessions."""
    grant = issue(NewGrant(scope))

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
    grant = issue(NewGrant("always"))

    assert covers(grant)
    assert not covers(grant, subject(tool=tool))


def test_a_grant_ends() -> None:
    """An expired, used up or revoked grant covers nothing."""
    timed = issue(NewGrant("always", expires_in_seconds=60))
    counted = issue(NewGrant("always", uses=2))

    assert covers(timed, now=1059.9)
    assert not covers(timed, now=1060.0)
    assert covers(counted.spend())
    assert not covers(counted.spend().spend())
    assert not covers(issue(NewGrant("always")).revoke(at=1000.0))


def test_a_grant_without_a_count_is_not_used_up() -> None:
    """Spending a grant that has no count changes nothing."""
    grant = issue(NewGrant("always"))

    assert grant.spend() == grant


def test_spending_never_goes_below_zero() -> None:
    """A count that is used up stays used up."""
    assert issue(NewGrant("always", uses=1)).spend().spend().uses_left == 0


def test_revoking_twice_keeps_the_first_time() -> None:
    """The record says when the grant really ended."""
    assert issue(NewGrant("always")).revoke(at=5.0).revoke(at=9.0).revoked_at == 5.0


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
    grant = issue(NewGrant("always", {"/path": Glob("src/**"), "/mode": OneOf(("w", "a"))}))

    assert covers(grant, subject(arguments)) is is_covered


def test_a_grant_for_exactly_these_arguments_covers_no_others() -> None:
    """One more argument makes another call."""
    grant = issue(NewGrant("always", {"": Equals({"path": "a"})}))

    assert covers(grant, subject({"path": "a"}))
    assert not covers(grant, subject({"path": "a", "force": True}))


def test_a_grant_survives_json() -> None:
    """Grants live in the store as JSON and come back equal."""
    adapter = TypeAdapter(Grant)
    patterns = {"/path": Not(Glob("*")), "/n": Equals(True), "": Equals({"a": [1]})}
    for scope in ("once", "session", "always"):
        grant = issue(NewGrant(scope, patterns, 60.0, 3)).revoke(5.0)

        assert adapter.validate_json(adapter.dump_json(grant)) == grant


def bad_grants() -> list[Any]:
    always = issue(NewGrant("always"))
    return [
        lambda: NewGrant("forever"),  # pyright: ignore[reportArgumentType]
        lambda: NewGrant("always", uses=0),
        lambda: NewGrant("always", expires_in_seconds=0),
        lambda: replace(always, scope="session"),
        lambda: replace(always, session_id="session-1"),
        lambda: replace(always, call_id="call-1"),
        lambda: replace(always, scope="once", session_id="session-1"),
    ]


@pytest.mark.parametrize("make", bad_grants())
def test_a_grant_that_does_not_fit_its_scope_is_refused(make: Any) -> None:
    """A session grant without a session would hold everywhere, so it cannot be made."""
    with pytest.raises(InvalidDecision):
        make()


def test_a_grant_with_a_bad_pattern_is_refused() -> None:
    """Patterns are checked when the grant is made."""
    with pytest.raises(InvalidPolicy):
        NewGrant("always", {"path": Equals(1)})
    with pytest.raises(InvalidPolicy):
        replace(issue(NewGrant("always")), arguments={"path": Equals(1)})

"""Approvals and grants over all sessions, and who may decide."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.host_runtime import (
    BOSS,
    CALLER,
    Json,
    call,
    events,
    host_tool,
    new_session,
    refusal,
    serving,
)
from toolcrib import SqliteStore
from toolcrib.runtime.runtime import Runtime
from toolcrib.store.store import Store

RISKY = host_tool("add", requires_approval=True)


async def decide(runtime: Runtime, approval_id: str, decision: str = "approve", **rest: Any) -> Any:
    asked = {"approval_id": approval_id, "decision": decision, **rest}
    return await runtime.ask("approvals.decide", asked, BOSS)


async def again(runtime: Runtime, session_id: str, waiting: Any) -> Any:
    """Take a waiting call up again."""
    asked = {"session_id": session_id, "name": waiting.tool, "call_id": waiting.call_id}
    return await runtime.ask("tools.call", asked)


async def test_a_call_waits_and_runs_once_approved(store: Store) -> None:
    """R42: not run before the yes; the request has tool, arguments and call id; then it runs."""
    async with serving(RISKY, store=store) as runtime:
        session_id = await new_session(runtime)
        waiting = await call(runtime, session_id, "add", a=1, b=2)
        still = await again(runtime, session_id, waiting)
        shown = await runtime.ask("approvals.get", {"approval_id": waiting.approval_id}, BOSS)
        decided = await decide(runtime, waiting.approval_id, digest=shown.digest)
        result = await again(runtime, session_id, waiting)
        (recorded,) = await events(runtime, session_id, "tool.invoked")

    assert waiting.status == still.status == "waiting"
    assert (shown.tool, shown.arguments, shown.call_id) == ("add", {"a": 1, "b": 2}, still.call_id)
    assert (shown.state, decided.state, decided.decided_by) == ("pending", "decided", "ann")
    assert result.value == 3
    assert recorded["data"]["decided_by"]["name"] == "ann"


async def test_a_denied_call_does_not_run() -> None:
    """R42: `denied`, with the reason for the model."""
    async with serving(RISKY) as runtime:
        session_id = await new_session(runtime)
        waiting = await call(runtime, session_id, "add", a=1, b=2)
        await decide(runtime, waiting.approval_id, "deny", reason="not on a Friday")
        result = await again(runtime, session_id, waiting)

    assert result.failure.kind == "denied"
    assert "Friday" in result.text


async def test_arguments_may_be_edited() -> None:
    """An approval with other arguments runs with those, and says that it was edited."""
    async with serving(RISKY) as runtime:
        session_id = await new_session(runtime)
        waiting = await call(runtime, session_id, "add", a=1, b=2)
        await decide(runtime, waiting.approval_id, arguments={"a": 10, "b": 2})
        result = await again(runtime, session_id, waiting)
        (recorded,) = await events(runtime, session_id, "tool.invoked")

    assert result.value == 12
    assert recorded["data"]["was_edited"] is True


async def test_the_inbox_is_of_all_sessions(store: Store) -> None:
    """What waits anywhere is in one list, oldest first, and can be listed by session."""
    async with serving(RISKY, store=store) as runtime:
        sessions = [await new_session(runtime) for _ in range(2)]
        waiting = [await call(runtime, each, "add", a=1, b=2) for each in sessions]
        inbox = await runtime.ask("approvals.list", None, BOSS)
        one = await runtime.ask("approvals.list", {"session_id": sessions[1]}, BOSS)
        await decide(runtime, waiting[0].approval_id)
        left = await runtime.ask("approvals.list", None, BOSS)
        every = await runtime.ask("approvals.list", {"is_all": True}, BOSS)
        facts = await runtime.ask("session.get", {"session_id": sessions[1]})

    ids = [each.approval_id for each in waiting]
    assert [each.approval_id for each in inbox.approvals] == ids
    assert [each.approval_id for each in one.approvals] == ids[1:]
    assert [each.approval_id for each in left.approvals] == ids[1:]
    assert [each.state for each in every.approvals] == ["decided", "pending"]
    assert facts.pending_approvals == 1


@pytest.mark.parametrize(
    ("decision", "kind"),
    [
        ({"decision": "approve", "digest": "other"}, "conflict"),
        ({"decision": "approve", "reason": "because"}, "invalid"),
        ({"decision": "deny", "grant": {"scope": "session"}}, "invalid"),
        ({"decision": "deny", "arguments": {}}, "invalid"),
        ({"decision": "maybe"}, "invalid"),
        ({"decision": "approve", "arguments": {"a": 1}}, "conflict"),
        ({"decision": "approve", "approval_id": "nothing"}, "not_found"),
    ],
)
@pytest.mark.parametrize("is_open", [True, False])
async def test_an_unclear_decision_decides_nothing(
    decision: Json, kind: str, is_open: bool
) -> None:
    """R42: what does not fit is refused, here or for a session elsewhere, and it still waits."""
    async with serving(RISKY) as runtime:
        session_id = await new_session(runtime)
        waiting = await call(runtime, session_id, "add", a=1, b=2)
        if not is_open:
            await runtime.ask("session.close", {"session_id": session_id})
        asked = {"approval_id": waiting.approval_id, **decision}
        refused = await refusal(runtime, "approvals.decide", asked, BOSS)
        inbox = await runtime.ask("approvals.list")

    assert refused.kind == kind
    assert len(inbox.approvals) == 1


async def test_a_decision_is_final() -> None:
    """A second decision is a conflict."""
    async with serving(RISKY) as runtime:
        waiting = await call(runtime, await new_session(runtime), "add", a=1, b=2)
        await decide(runtime, waiting.approval_id, "deny")
        asked = {"approval_id": waiting.approval_id, "decision": "approve"}
        refused = await refusal(runtime, "approvals.decide", asked)

    assert refused.kind == "conflict"


async def test_a_session_elsewhere_finds_its_decision(sqlite_path: Path) -> None:
    """A decision on a session that is not open here waits for whoever opens it."""
    store = SqliteStore(sqlite_path)
    async with serving(RISKY, store=store) as runtime:
        session_id = await new_session(runtime)
        waiting = await call(runtime, session_id, "add", a=1, b=2)
    async with serving(RISKY, store=store) as runtime:
        decided = await decide(runtime, waiting.approval_id)
        await runtime.ask("session.resume", {"session_id": session_id})
        result = await again(runtime, session_id, waiting)
    store.close()

    assert decided.decided_by == "ann"
    assert result.value == 3


@pytest.mark.parametrize("scope", ["session", "principal"])
async def test_a_grant_is_given_where_the_session_is_closed(store: Store, scope: str) -> None:
    """R42: whoever decides on a session that nobody has open may give a grant: it is written into
    that session's ledger, and holds when it is open again.
    """
    async with serving(RISKY, store=store) as runtime:
        session_id = await new_session(runtime, metadata={"team": "shop"})
        waiting = await call(runtime, session_id, "add", a=1, b=2)
        await runtime.ask("session.close", {"session_id": session_id})
        decided = await decide(runtime, waiting.approval_id, grant={"scope": scope})
        facts = await runtime.ask("session.get", {"session_id": session_id})
        await runtime.ask("session.resume", {"session_id": session_id})
        first = await again(runtime, session_id, waiting)
        second = await call(runtime, session_id, "add", a=3, b=4)
        (change, *_) = await events(runtime, session_id, "grant.changed")

    assert (decided.state, decided.decided_by) == ("decided", "ann")
    assert (facts.state, facts.metadata) == ("closed", {"team": "shop"})
    assert (first.value, second.value) == (3, 7)
    assert (change["data"]["change"], change["data"]["actor"]["name"]) == ("made", "ann")


async def test_a_grant_is_not_given_past_the_process_that_writes(sqlite_path: Path) -> None:
    """R42: while another process has the session open, a grant is refused with what to do, and the
    request waits on; without one it can be approved. Revoking always works.
    """
    with SqliteStore(sqlite_path) as here, SqliteStore(sqlite_path) as there:
        async with serving(RISKY, store=here) as first, serving(RISKY, store=there) as second:
            session_id = await new_session(first)
            waiting = [await call(first, session_id, "add", a=1, b=n) for n in (1, 2)]
            asked = {"approval_id": waiting[0].approval_id, "decision": "approve"}
            refused = await refusal(
                second, "approvals.decide", {**asked, "grant": {"scope": "session"}}, BOSS
            )
            left = await second.ask("approvals.list")
            decided = await second.ask("approvals.decide", asked, BOSS)
            await decide(first, waiting[1].approval_id, grant={"scope": "session"})
            (grant,) = (await second.ask("grants.list")).grants
            revoked = await second.ask("grants.revoke", {"grant_id": grant.grant_id}, BOSS)

    assert refused.kind == "conflict"
    assert "another process has the session open" in refused.message
    assert "without a grant" in refused.message
    assert (len(left.approvals), decided.state) == (2, "decided")
    assert revoked.was_standing


@pytest.mark.parametrize(
    ("scope", "elsewhere"), [("session", "waiting"), ("principal", "completed")]
)
async def test_grants_reach_as_far_as_they_say(store: Store, scope: str, elsewhere: str) -> None:
    """R42: for the session it holds there alone; for the principal in each of its sessions."""
    async with serving(RISKY, store=store) as runtime:
        here, there = await new_session(runtime), await new_session(runtime)
        waiting = await call(runtime, here, "add", a=1, b=2)
        await decide(runtime, waiting.approval_id, grant={"scope": scope})
        same = await call(runtime, here, "add", a=3, b=4)
        other = await call(runtime, there, "add", a=3, b=4)

    assert same.value == 7
    assert other.status == elsewhere


async def test_a_grant_is_listed_and_revoked(store: Store) -> None:
    """A revoked grant holds no more; revoking is in the ledger of its session."""
    async with serving(RISKY, store=store) as runtime:
        await new_session(runtime)
        session_id = await new_session(runtime)
        waiting = await call(runtime, session_id, "add", a=1, b=2)
        await decide(runtime, waiting.approval_id, grant={"scope": "session"})
        (grant,) = (await runtime.ask("grants.list", None, BOSS)).grants
        one = {"grant_id": grant.grant_id}
        first = await runtime.ask("grants.revoke", one, BOSS)
        second = await runtime.ask("grants.revoke", one, BOSS)
        result = await call(runtime, session_id, "add", a=3, b=4)
        changes = await events(runtime, session_id, "grant.changed")
        unknown = await refusal(runtime, "grants.revoke", {"grant_id": "nothing"}, BOSS)

    assert (grant.scope, grant.created_by, grant.session_id) == ("session", "ann", session_id)
    assert (first.was_standing, second.was_standing) == (True, False)
    assert result.status == "waiting"
    assert [each["data"]["change"] for each in changes] == ["made", "revoked"]
    assert unknown.kind == "not_found"


async def test_a_grant_is_revoked_where_no_session_is_open(store: Store) -> None:
    """Grants are the store's: no session need be open to take one back."""
    async with serving(RISKY, store=store) as runtime:
        session_id = await new_session(runtime)
        waiting = await call(runtime, session_id, "add", a=1, b=2)
        await decide(runtime, waiting.approval_id, grant={"scope": "principal", "uses": 5})
        await runtime.ask("session.close", {"session_id": session_id})
        (grant,) = (await runtime.ask("grants.list")).grants
        done = await runtime.ask("grants.revoke", {"grant_id": grant.grant_id}, BOSS)
        (after,) = (await runtime.ask("grants.list")).grants

    assert done.was_standing
    assert after.is_revoked


@pytest.mark.parametrize("is_open", [True, False], ids=["open", "closed"])
async def test_a_revocation_is_told_to_nobody_else(store: Store, is_open: bool) -> None:
    """The grant of one principal is taken back in a ledger of that principal, not of another."""
    other = replace(CALLER, name="other")
    async with serving(RISKY, store=store) as runtime:
        theirs = await new_session(runtime, other)
        session_id = await new_session(runtime, CALLER)
        asked = {"session_id": session_id, "name": "add", "arguments": {"a": 1, "b": 2}}
        waiting = await runtime.ask("tools.call", asked, CALLER)
        await decide(runtime, waiting.approval_id, grant={"scope": "principal", "uses": 5})
        if not is_open:
            await runtime.ask("session.close", {"session_id": session_id})
        (grant,) = (await runtime.ask("grants.list")).grants
        await runtime.ask("grants.revoke", {"grant_id": grant.grant_id}, BOSS)
        seen = await events(runtime, theirs, "grant.changed")
        own = await events(runtime, session_id, "grant.changed")

    assert seen == []
    assert [each["data"]["change"] for each in own] == ["made", "revoked"]


async def test_the_caller_cannot_approve() -> None:
    """Who may call need not be allowed to approve: the call stays as it was."""
    async with serving(RISKY) as runtime:
        session_id = await new_session(runtime, CALLER)
        asked = {"session_id": session_id, "name": "add", "arguments": {"a": 1, "b": 2}}
        waiting = await runtime.ask("tools.call", asked, CALLER)
        decision = {"approval_id": waiting.approval_id, "decision": "approve"}
        refused = await refusal(runtime, "approvals.decide", decision, CALLER)
        inbox = await runtime.ask("approvals.list", None, CALLER)

    assert refused.kind == "forbidden"
    assert "'approver'" in refused.message
    assert len(inbox.approvals) == 1

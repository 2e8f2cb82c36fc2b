"""Spans of waiting for a decision, kept apart from the time that tools take."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.trace import SpanKind

from tests.calls.payments import JO, Desk, Says
from tests.telemetry import payment_process
from tests.telemetry.memory_collector import Collected, attributes, is_failed, labels, seconds
from toolcrib import (
    Answer,
    Approve,
    Deny,
    Executor,
    NewGrant,
    Policy,
    Reply,
    Rule,
    Session,
    SqliteStore,
)
from toolcrib.approval.decision import ApprovalRequest, Decision
from toolcrib.telemetry import approval_spans
from toolcrib.testing import FakeClock

ROOT = Path(__file__).parents[2]
WAIT = "toolcrib.approval.wait"


@pytest.fixture
def collected() -> Collected:
    return Collected()


class Slow:
    """Somebody who takes ten seconds."""

    def __init__(self, clock: FakeClock, decision: Decision) -> None:
        self._clock = clock
        self._decision = decision

    async def ask(self, request: ApprovalRequest) -> Reply:
        self._clock.advance(10.0)
        return Reply(self._decision, JO)


def slow_desk(decision: Decision) -> Desk:
    desk = Desk(requires_approval=True)
    desk.executor = Executor(desk.session, [desk.pay], approver=Slow(desk.clock, decision))
    return desk


async def test_waiting_is_a_span_of_its_own(collected: Collected) -> None:
    """R43: the wait is beside the run and says what was decided, by what kind of actor, and which
    rule asked; the run is as long as the handler took.
    """
    desk = slow_desk(Approve())
    collected.watch(desk.session)
    began = desk.clock()

    with collected.tracer.start_as_current_span("request"):
        outcome = await desk.call(call_id="c1")

    assert outcome.status == "completed"
    wait, run = collected.span(WAIT), collected.span("execute_tool pay")
    assert (wait.kind, is_failed(wait), wait.links) == (SpanKind.INTERNAL, False, ())
    assert seconds(wait) == (began, 10.0)
    assert seconds(run) == (began + 10.0, 0.0)
    told = dict(attributes(wait))
    assert told.pop("toolcrib.approval.id").startswith("apr_")
    assert told == {
        "gen_ai.tool.name": "pay",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": "c1",
        "gen_ai.conversation.id": desk.session.session_id,
        "toolcrib.approval.rule": "requires_approval",
        "toolcrib.approval.decision": "approve",
        "toolcrib.approval.actor.kind": "person",
    }
    assert collected.tree()["request"] == [WAIT, "execute_tool pay"]
    assert collected.durations() == {labels(tool="pay"): [1, 0.0]}


@pytest.mark.parametrize(
    ("decision", "kind"), [(Deny("not today"), "deny"), (Answer("paid"), "answer")]
)
async def test_what_is_not_run_leaves_only_its_wait(
    collected: Collected, decision: Decision, kind: str
) -> None:
    """R43: a call that is denied or answered ran nothing, so it has no span of a run."""
    desk = slow_desk(decision)
    collected.watch(desk.session)

    await desk.call()

    assert collected.names == [WAIT]
    assert attributes(collected.span(WAIT))["toolcrib.approval.decision"] == kind
    assert seconds(collected.span(WAIT))[1] == 10.0
    assert collected.durations() == {}


async def test_an_edit_is_told_without_its_content(collected: Collected) -> None:
    """R43: that somebody changed the arguments is seen; what they are is not."""
    desk = slow_desk(Approve({"amount": 432_109_876_543}))
    collected.watch(desk.session)

    await desk.call()

    assert attributes(collected.span(WAIT))["toolcrib.approval.edited"] is True
    assert "432109876543" not in collected.everything()


async def test_a_question_that_expired(collected: Collected) -> None:
    """R43: the clock decides, as an actor of its own kind; nothing ran."""
    policy = Policy((Rule("ask", "pay", id="careful", deadline_seconds=60),))
    desk = Desk(policy)
    collected.watch(desk.session)
    began = desk.clock()
    await desk.call()
    desk.clock.advance(100)

    (outcome,) = await desk.executor.resume()

    assert outcome.failure is not None
    assert outcome.failure.kind == "expired"
    assert collected.names == [WAIT]
    told = attributes(collected.span(WAIT))
    assert told["toolcrib.approval.rule"] == "careful"
    assert told["toolcrib.approval.decision"] == "expire"
    assert told["toolcrib.approval.actor.kind"] == "timeout"
    assert seconds(collected.span(WAIT)) == (began, 100.0)


async def test_a_call_that_waits_has_no_span_yet(collected: Collected) -> None:
    """R43: while nobody has decided there is nothing to tell but that somebody was asked."""
    desk = Desk(requires_approval=True)
    collected.watch(desk.session)

    await desk.call()

    assert collected.spans == []
    assert collected.counts("toolcrib.approval.requests") == {labels(tool="pay"): 1}


async def test_a_call_that_is_withdrawn_was_not_decided(collected: Collected) -> None:
    """R43: nobody decided, so there is no wait to tell of; the call is counted as cancelled."""
    desk = Desk(requires_approval=True)
    collected.watch(desk.session)
    await desk.call(call_id="c1")

    await desk.executor.withdraw("c1")

    assert collected.spans == []
    assert collected.counts("toolcrib.approval.decisions") == {}
    assert collected.counts("toolcrib.call.errors") == {labels(tool="pay", error="cancelled"): 1}


async def test_a_decision_that_comes_later_is_linked_to_where_it_was_asked(
    collected: Collected,
) -> None:
    """R43: the call goes on in the trace of whoever resumes it; a link leads back."""
    desk = Desk(requires_approval=True)
    collected.watch(desk.session)
    began = desk.clock()
    with collected.tracer.start_as_current_span("asked") as asked:
        await desk.call(call_id="c1")
    desk.clock.advance(3600)
    await desk.session.approvals.decide("c1", Approve(), by="jo")
    desk.clock.advance(3600)

    with collected.tracer.start_as_current_span("resumed"):
        await desk.executor.resume()

    wait = collected.span(WAIT)
    assert collected.tree()["resumed"] == [WAIT, "execute_tool pay"]
    assert [link.context for link in wait.links] == [asked.get_span_context()]
    assert seconds(wait) == (began, 3600.0)
    assert seconds(collected.span("execute_tool pay")) == (began + 7200, 0.0)


@pytest.mark.parametrize("captures", [False, True])
async def test_reasons_and_names_of_people(collected: Collected, captures: bool) -> None:
    """R43: the reason is content, told only when content is asked for; a name is never told."""
    desk = Desk(requires_approval=True)
    collected.watch(desk.session, capture_content=captures)
    await desk.call(call_id="c1")
    await desk.session.approvals.decide("c1", Deny("too dear"), by="jo-the-clerk")

    await desk.executor.resume()

    told = attributes(collected.span(WAIT))
    assert told.get("toolcrib.approval.reason") == ("too dear" if captures else None)
    assert ("too dear" in collected.everything()) is captures
    assert "jo-the-clerk" not in collected.everything()


async def test_a_grant_leaves_nobody_waiting(collected: Collected) -> None:
    """R43: with a standing yes nobody is asked: there is the run, and no wait."""
    desk = Desk(approver=Says(Approve(), NewGrant(scope="session")), requires_approval=True)
    await desk.call()
    collected.watch(desk.session)

    await desk.call()

    assert collected.names == ["execute_tool pay"]
    assert attributes(collected.span("execute_tool pay"))["toolcrib.call.decided_by"] == "grant"


async def test_what_is_remembered_is_bounded(
    collected: Collected, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R43: questions that are never decided here do not pile up; an old one is looked up."""
    monkeypatch.setattr(approval_spans, "MAX_REQUESTS", 2)
    desk = Desk(requires_approval=True)
    collected.watch(desk.session)
    with collected.tracer.start_as_current_span("asked"):
        for number in range(4):
            await desk.call(call_id=f"c{number}")
    for number in range(4):
        await desk.session.approvals.decide(f"c{number}", Approve(), by="jo")

    await desk.executor.resume()

    told = {attributes(span)["gen_ai.tool.call.id"]: span for span in collected.all(WAIT)}
    assert {call_id: len(span.links) for call_id, span in told.items()} == {
        "c0": 0,
        "c1": 0,
        "c2": 1,
        "c3": 1,
    }


def there(path: Path, name: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Let another process call a tool of the session in `path`."""
    return subprocess.run(
        [sys.executable, "-m", "tests.telemetry.payment_process", str(path), name],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )


@pytest.mark.wire
async def test_a_call_that_was_asked_about_in_another_process(
    collected: Collected, sqlite_path: Path
) -> None:
    """R43: the process that asked has no span of the call; the one that goes on has the wait, from
    when it was asked there, and the run.
    """
    asked = there(sqlite_path, "pay")
    assert asked.stdout.split() == ["there"], asked.stderr
    with SqliteStore(sqlite_path) as store:
        async with await Session.open(store, "s1") as session:
            collected.watch(session)
            (request,) = session.approvals.pending()
            await session.approvals.decide("c1", Approve(), by="jo")

            (outcome,) = await Executor(
                session, [payment_process.pay, payment_process.sync]
            ).resume()

    assert outcome.text == "paid 5"
    wait, run = collected.spans
    assert (wait.name, run.name) == (WAIT, "execute_tool pay")
    assert seconds(wait)[0] == pytest.approx(request.created_at, abs=1e-5)
    assert attributes(wait)["toolcrib.approval.rule"] == "requires_approval"
    assert attributes(run)["gen_ai.tool.call.id"] == "c1"
    decided = labels(tool="pay", decision="approve", actor="person")
    assert collected.counts("toolcrib.approval.decisions") == {decided: 1}
    assert collected.counts("toolcrib.approval.requests") == {}


@pytest.mark.wire
async def test_a_call_whose_process_died_runs_again_in_a_new_span(
    collected: Collected, sqlite_path: Path
) -> None:
    """R43: the span of the dead process is lost with it; the next attempt has its own number."""
    died = there(sqlite_path, "sync", DIES="1")
    assert died.returncode == 3, died.stderr
    with SqliteStore(sqlite_path) as store:
        async with await Session.open(store, "s1") as session:
            collected.watch(session)

            (outcome,) = await Executor(
                session, [payment_process.pay, payment_process.sync]
            ).resume()

    assert outcome.text == "synced"
    told: Any = attributes(collected.span("execute_tool sync"))
    assert told["toolcrib.call.attempt"] == 2
    assert collected.counts("toolcrib.call.active") == {labels(tool="sync"): 0}

"""A process is killed while its call waits for a person: the call is in doubt like any other."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.crash import asking_process
from tests.crash.asking_process import ask, outer, risky
from tests.helpers.patience import PATIENCE
from toolcrib import Executor, Session, SqliteStore
from toolcrib.ledger.events import CallInDoubt
from toolcrib.ledger.question_events import QuestionAsked, QuestionClosed

pytestmark = pytest.mark.crash


def kill_while_it_waits(store: Path, scene: str) -> None:
    """Kill a real process at the moment in which its call waits."""
    command = [sys.executable, asking_process.__file__, str(store), scene]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waits\n"
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE)


async def test_a_call_that_asks_is_in_doubt_and_its_question_withdrawn(tmp_path: Path) -> None:
    """Issue 14: cut off while it asks, the call is in doubt; the question is closed on recovery,
    and nothing runs again by itself.
    """
    kill_while_it_waits(tmp_path / "s.sqlite3", "question")
    with closing(SqliteStore(tmp_path / "s.sqlite3")) as store:
        async with await Session.open(store, "s") as session:
            asked = [event for event in session.events() if isinstance(event, QuestionAsked)]
            closed = [event for event in session.events() if isinstance(event, QuestionClosed)]
            doubts = [event for event in session.events() if isinstance(event, CallInDoubt)]
            (outcome,) = await Executor(session, [ask]).resume()
            session.verify()
        async with await Session.open(store, "s") as again:
            closed_again = [event for event in again.events() if isinstance(event, QuestionClosed)]

    (question,), (end,) = asked, closed
    assert end.question_id == question.question.question_id
    assert end.why == "withdrawn"
    assert [doubt.call_id for doubt in doubts] == ["c1"]
    assert outcome.status == "waiting"
    assert len(closed_again) == 1


async def test_a_call_whose_nested_call_waits_is_in_doubt(tmp_path: Path) -> None:
    """F11: the caller is in doubt, and nobody can approve for a handler that is gone."""
    kill_while_it_waits(tmp_path / "s.sqlite3", "approval")
    with closing(SqliteStore(tmp_path / "s.sqlite3")) as store:
        async with await Session.open(store, "s") as session:
            before = {call.tool.name: call.state for call in session.open_calls()}
            outcomes = await Executor(session, [risky, outer]).resume()
            pending = [request.tool.name for request in session.approvals.pending()]
            session.verify()

    ends = {outcome.tool: outcome for outcome in outcomes}
    assert before == {"outer": "in_doubt", "risky": "waiting"}
    assert ends["outer"].status == "waiting"
    assert ends["risky"].failure is not None
    assert ends["risky"].failure.kind == "cancelled"
    assert pending == ["outer"]

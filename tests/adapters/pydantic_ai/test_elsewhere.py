"""Turns on real models that go on in another process: nothing is asked or run twice."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.pydantic_ai.evaluation_process import SESSION, Elsewhere, Life, elsewhere, ran
from tests.adapters.pydantic_ai.faulty_server import Server
from tests.adapters.pydantic_ai.provider_dialects import ANTHROPIC, SPEECHES
from tests.adapters.pydantic_ai.test_events import searched
from tests.adapters.pydantic_ai.test_paused import FINE, INTRO, THOUGHT, said, told
from toolcrib import Approve, Deny, Session, SqliteStore, ToolInvoked
from toolcrib.ledger.record import events

CALLED, RESULT = searched(1)
# The first process imports the SDK of every provider, which takes long on a busy machine.
both = pytest.mark.parametrize("stream", [False, True], ids=["blocking", "streamed"])


@pytest.fixture(scope="module")
def processes() -> Iterator[Elsewhere]:
    with elsewhere() as running:
        yield running


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(ANTHROPIC.encode) as server:
        yield server


@pytest.fixture
def life(server: Server, tmp_path: Path) -> Life:
    return Life(url=server.url, folder=str(tmp_path), searches=True)


def in_session(life: Life, work: Callable[[Session], Awaitable[Any]]) -> Any:
    """Do something in the session that the other processes left."""

    async def doing() -> Any:
        store = SqliteStore(life.store)
        async with await Session.open(store, SESSION) as session:
            found = await work(session)
        store.close()
        return found

    return asyncio.run(doing())


def decide(life: Life, call_id: str, decision: Approve | Deny) -> None:
    in_session(life, lambda session: session.approvals.decide(call_id, decision, by="jo"))


def invoked(life: Life) -> list[str]:
    """The ids of all calls that have ended, in order; the ledger must hold."""

    async def reading(session: Session) -> list[str]:
        session.verify()
        found = events(session.records())
        return [event.call_id for event in found if isinstance(event, ToolInvoked)]

    return in_session(life, reading)


@both
def test_a_waiting_turn_goes_on_in_another_process(
    processes: Elsewhere, server: Server, life: Life, tmp_path: Path, stream: bool
) -> None:
    """T, C8, E2: suspended for approval in one process, decided in a second, resumed in a third:
    no request, call or record is made again, and what the provider signed is sent back as it came.
    """
    life = replace(life, stream=stream)
    calls = [ANTHROPIC.call("look", {}, "call_a"), ANTHROPIC.call("pay", {"amount": 5}, "call_b")]
    blocks = [THOUGHT, INTRO, CALLED, RESULT, *calls]
    server.add(ANTHROPIC.answer(*blocks, stop="tool_use"), ANTHROPIC.answer(FINE))

    waiting = processes.run(life)
    decide(life, "call_b", Approve())
    found = processes.run(replace(life, resumes=True))

    assert (waiting["status"], waiting["pending"]) == ("waiting", ["call_b"])
    assert (found["status"], found["text"], found["requests"]) == ("completed", "It is fine.", 2)
    assert (found["invocations"], found["outputs"]) == ([["srvtoolu_1", True]], ["web_search"])
    assert ran(tmp_path) == ["looked", "paid 5"]
    assert invoked(life) == ["srvtoolu_1", "call_a", "call_b"]
    assert said(server.bodies[1]) == [[*map(told, blocks)]]
    assert ANTHROPIC.outputs(server.bodies[1]) == ["looked", "paid 5"]
    assert len(server.requests) == 2


@pytest.mark.parametrize("provider", [each for each in SPEECHES if each != "anthropic"])
def test_turns_go_on_elsewhere_on_every_provider(
    processes: Elsewhere, tmp_path: Path, provider: str
) -> None:
    """T, C8: the second request of a turn that waited is the one that it would have been."""
    speech = SPEECHES[provider]
    with Server(speech.encode) as server:
        calls = [speech.call("look", {}, "call_a"), speech.call("pay", {"amount": 5}, "call_b")]
        server.add(speech.calls(*calls), speech.says("Fine."))
        life = Life(url=server.url, folder=str(tmp_path), provider=provider)
        waiting = processes.run(life)
        decide(life, waiting["pending"][0], Approve())
        found = processes.run(replace(life, resumes=True))

    assert (found["text"], found["requests"]) == ("Fine.", 2)
    assert speech.outputs(server.bodies[1]) == ["looked", "paid 5"]
    assert ran(tmp_path) == ["looked", "paid 5"]


def test_what_nobody_decided_still_waits(
    processes: Elsewhere, server: Server, life: Life, tmp_path: Path
) -> None:
    """Resuming too early asks nothing of the provider and runs nothing; a no is told."""
    server.add(ANTHROPIC.calls(ANTHROPIC.call("pay", {"amount": 5})), ANTHROPIC.answer(FINE))

    processes.run(life)
    again = processes.run(replace(life, resumes=True))
    requests = len(server.requests)
    decide(life, "call_1", Deny("Too much."))
    found = processes.run(replace(life, resumes=True))

    assert (again["status"], again["pending"], requests) == ("waiting", ["call_1"], 1)
    assert found["text"] == "It is fine."
    assert "Too much." in ANTHROPIC.outputs(server.bodies[1])[0]
    assert ran(tmp_path) == []


def test_a_process_that_dies_with_the_answer_in_hand_is_not_asked_again(
    processes: Elsewhere, server: Server, life: Life
) -> None:
    """N24, E3: the answer is in the ledger; the provider's calls are recorded once."""
    server.add(ANTHROPIC.answer(CALLED, RESULT, FINE))

    first = processes.run(replace(life, dies_at="model.responded"))
    before = invoked(life)
    found = processes.run(replace(life, resumes=True))

    assert (first["status"], before) == ("killed", [])
    assert (found["text"], found["invocations"]) == ("It is fine.", [["srvtoolu_1", True]])
    assert len(server.requests) == 1
    assert invoked(life) == ["srvtoolu_1"]


@both
def test_a_process_that_dies_between_two_segments_leaves_the_rest_to_the_next(
    processes: Elsewhere, server: Server, life: Life, stream: bool
) -> None:
    """C8, N24: the provider paused, the process died, the next goes on with the same answer; the
    call that began before and ended after is one call.
    """
    life = replace(life, stream=stream)
    server.add(
        ANTHROPIC.answer(THOUGHT, INTRO, stop="pause_turn"),
        ANTHROPIC.answer(CALLED, stop="pause_turn"),
        ANTHROPIC.answer(RESULT, FINE),
    )

    first = processes.run(replace(life, dies_at="model.responded", at_number=2))
    found = processes.run(replace(life, resumes=True))

    assert first["status"] == "killed"
    assert (found["text"], found["requests"]) == ("Let me see. It is fine.", 3)
    assert found["invocations"] == [["srvtoolu_1", True]]
    assert invoked(life) == ["srvtoolu_1"]
    assert said(server.bodies[2]) == [[THOUGHT, INTRO, told(CALLED)]]
    assert len(server.requests) == 3


def test_calls_that_never_started_start_later(
    processes: Elsewhere, server: Server, life: Life, tmp_path: Path
) -> None:
    """The model's calls are in the ledger before they run; the next process runs them, once."""
    server.add(ANTHROPIC.calls(ANTHROPIC.call("look", {})), ANTHROPIC.answer(FINE))

    processes.run(replace(life, dies_at="model.responded"))
    found = processes.run(replace(life, resumes=True))

    assert (found["text"], len(server.requests)) == ("It is fine.", 2)
    assert ran(tmp_path) == ["looked"]


def test_a_call_whose_secrets_are_lost_is_asked_for_again(
    processes: Elsewhere, server: Server, life: Life, tmp_path: Path
) -> None:
    """The ledger holds no secrets, so a call that had not started cannot be made from it; the
    model is told to call again, and nothing runs with a placeholder.
    """
    asked = ANTHROPIC.calls(ANTHROPIC.call("login", {"password": "hunter2"}))
    server.add(asked, ANTHROPIC.answer(FINE))

    processes.run(replace(life, dies_at="model.responded"))
    found = processes.run(replace(life, resumes=True))

    assert found["text"] == "It is fine."
    assert "call again" in ANTHROPIC.outputs(server.bodies[1])[0]
    assert ran(tmp_path) == []
    assert b"hunter2" not in life.store.read_bytes()

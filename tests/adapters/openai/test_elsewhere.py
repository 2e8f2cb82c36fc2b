"""Turns that go on in another process: nothing is asked twice and nothing runs twice."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.openai.evaluation_process import SESSION, Elsewhere, Life, elsewhere, ran
from tests.adapters.openai.scripted_provider import Json, Provider, call, message, response
from toolcrib import Approve, Deny, Session, SqliteStore
from toolcrib.ledger.events import ToolInvoked
from toolcrib.ledger.prompt_events import PromptStarted
from toolcrib.ledger.record import events

ANSWER = response(message("Fine."))
SEARCHED: Json = {
    "type": "web_search_call",
    "id": "ws_1",
    "status": "completed",
    "action": {"type": "search", "query": "x"},
}
RUN: Json = {
    "type": "code_interpreter_call",
    "id": "ci_1",
    "status": "completed",
    "code": "print(42)",
    "container_id": "cntr_1",
    "outputs": [{"type": "logs", "logs": "42\n"}],
}
ASKING = response(SEARCHED, call("look", call_id="call_a"), call("pay", {"amount": 5}, "call_b"))


@pytest.fixture(scope="module")
def processes() -> Iterator[Elsewhere]:
    with elsewhere() as running:
        yield running


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider() as provider:
        yield provider


@pytest.fixture
def life(provider: Provider, tmp_path: Path) -> Life:
    return Life(url=provider.url, folder=str(tmp_path))


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


@pytest.mark.parametrize("stream", [False, True], ids=["blocking", "streamed"])
@pytest.mark.parametrize("history", ["server", "client"])
def test_a_waiting_turn_goes_on_in_another_process(
    processes: Elsewhere, provider: Provider, life: Life, tmp_path: Path, history: str, stream: bool
) -> None:
    """T, C8: suspended for approval in one process, decided in a second, resumed in a third: the
    conversation is the same, and no request, call or record is made again.
    """
    life = replace(life, history=history, stream=stream)
    provider.add(ASKING, ANSWER)

    waiting = processes.run(life)
    decide(life, "call_b", Approve())
    found = processes.run(replace(life, resumes=True))

    assert (waiting["status"], waiting["pending"]) == ("waiting", ["call_b"])
    assert (found["status"], found["text"], found["requests"]) == ("completed", "Fine.", 2)
    assert found["request_ids"] == ["req_1", "req_2"]
    assert (found["invocations"], found["outputs"]) == (["ws_1"], ["web_search"])
    assert ran(tmp_path) == ["looked", "paid 5"]
    assert invoked(life) == ["ws_1", "call_a", "call_b"]
    outputs = [
        {"type": "function_call_output", "call_id": "call_a", "output": "looked"},
        {"type": "function_call_output", "call_id": "call_b", "output": "paid 5"},
    ]
    one, two = provider.bodies
    if history == "server":
        assert (two["previous_response_id"], two["input"]) == (ASKING["id"], outputs)
    else:
        assert two["input"] == [*one["input"], *ASKING["output"], *outputs]


def test_what_nobody_decided_still_waits(
    processes: Elsewhere, provider: Provider, life: Life, tmp_path: Path
) -> None:
    """Resuming too early asks nothing of the provider and runs nothing."""
    provider.add(ASKING, ANSWER)

    processes.run(life)
    again = processes.run(replace(life, resumes=True))

    assert (again["status"], again["pending"]) == ("waiting", ["call_b"])
    assert len(provider.requests) == 1
    assert ran(tmp_path) == ["looked"]


def test_a_no_is_told_to_the_model(
    processes: Elsewhere, provider: Provider, life: Life, tmp_path: Path
) -> None:
    """A denied call is answered with the denial, and the prompt goes on."""
    provider.add(ASKING, ANSWER)

    processes.run(life)
    decide(life, "call_b", Deny("Too much."))
    found = processes.run(replace(life, resumes=True))

    assert found["text"] == "Fine."
    assert "Too much." in provider.bodies[1]["input"][1]["output"]
    assert ran(tmp_path) == ["looked"]


def test_a_turn_may_wait_more_than_once(
    processes: Elsewhere, provider: Provider, life: Life, tmp_path: Path
) -> None:
    """Each wait is taken up where it was, over as many processes as it takes."""
    second = response(call("pay", {"amount": 7}, "call_c"))
    provider.add(ASKING, second, ANSWER)

    processes.run(life)
    decide(life, "call_b", Approve())
    waiting = processes.run(replace(life, resumes=True))
    decide(life, "call_c", Approve())
    found = processes.run(replace(life, resumes=True))

    assert waiting["pending"] == ["call_c"]
    assert (found["text"], found["requests"]) == ("Fine.", 3)
    assert ran(tmp_path) == ["looked", "paid 5", "paid 7"]
    assert provider.bodies[2]["previous_response_id"] == second["id"]


def test_a_process_that_dies_with_the_answer_in_hand_is_not_asked_again(
    processes: Elsewhere, provider: Provider, life: Life, tmp_path: Path
) -> None:
    """N24, E3: the answer is in the ledger; the provider's calls are recorded and hooked once."""
    provider.add(response(SEARCHED, RUN, message("Fine.")))

    first = processes.run(replace(life, dies_at="model.responded"))
    before = invoked(life)
    found = processes.run(replace(life, resumes=True))

    assert (first["status"], before) == ("killed", [])
    assert (found["text"], found["invocations"]) == ("Fine.", ["ws_1", "ci_1"])
    assert len(provider.requests) == 1
    assert invoked(life) == ["ws_1", "ci_1"]
    assert ran(tmp_path) == ["hooked ci_1"]


def test_what_was_recorded_before_the_end_is_not_recorded_again(
    processes: Elsewhere, provider: Provider, life: Life, tmp_path: Path
) -> None:
    """N24: a process that dies between two of the provider's calls leaves the other to be told."""
    provider.add(response(RUN, SEARCHED, message("Fine.")))

    processes.run(replace(life, dies_at="tool.invoked"))
    before = invoked(life)
    found = processes.run(replace(life, resumes=True))

    assert before == ["ci_1"]
    assert found["invocations"] == ["ci_1", "ws_1"]
    assert invoked(life) == ["ci_1", "ws_1"]
    assert ran(tmp_path) == ["hooked ci_1"]


def test_calls_that_never_started_start_later(
    processes: Elsewhere, provider: Provider, life: Life, tmp_path: Path
) -> None:
    """The model's calls are in the ledger before they run; the next process runs them, once."""
    provider.add(response(call("look", call_id="call_a")), ANSWER)

    processes.run(replace(life, dies_at="model.responded"))
    found = processes.run(replace(life, resumes=True))

    assert found["text"] == "Fine."
    assert len(provider.requests) == 2
    assert ran(tmp_path) == ["looked"]


def test_a_prompt_within_a_call_that_died_is_evaluated_anew(
    processes: Elsewhere, provider: Provider, life: Life, tmp_path: Path
) -> None:
    """C8: who goes on from outside goes on with the outer prompt. The call runs again, because it
    may; its prompt is a turn of its own, under a number that none had before.
    """
    consulting = response(call("consult"))
    looking = response(call("look", call_id="call_a"))
    provider.add(consulting, looking, response(message("Within.")), ANSWER)

    first = processes.run(replace(life, dies_at="tool.invoked"))
    found = processes.run(replace(life, resumes=True))

    assert (first["status"], found["text"], found["requests"]) == ("killed", "Fine.", 2)
    assert provider.bodies[3]["input"][0]["output"] == "Within."
    assert ran(tmp_path) == ["looked"]
    with SqliteStore(life.store) as store:
        happened = list(events(store.records(SESSION)))
    begun = [each for each in happened if isinstance(each, PromptStarted)]
    assert [(each.turn, each.parent_call_id, each.parent_turn) for each in begun] == [
        (1, None, None),
        (2, "call_1", 1),
        (3, "call_1", 1),
    ]


def test_a_call_whose_secrets_are_lost_is_asked_for_again(
    processes: Elsewhere, provider: Provider, life: Life, tmp_path: Path
) -> None:
    """The ledger holds no secrets, so a call that had not started cannot be made from it; the
    model is told to call again, and nothing runs with a placeholder.
    """
    provider.add(response(call("login", {"password": "hunter2"})), ANSWER)

    processes.run(replace(life, dies_at="model.responded"))
    found = processes.run(replace(life, resumes=True))

    assert found["text"] == "Fine."
    assert "call again" in provider.bodies[1]["input"][0]["output"]
    assert ran(tmp_path) == []
    assert b"hunter2" not in life.store.read_bytes()


def test_a_call_that_died_in_the_middle_is_asked_about(
    processes: Elsewhere, provider: Provider, life: Life, tmp_path: Path
) -> None:
    """Nobody knows whether it took effect, so it is not run again without a person's yes."""
    provider.add(response(call("die")), ANSWER)

    first = processes.run(life)
    second = processes.run(replace(life, resumes=True))
    decide(life, "call_1", Deny("Leave it."))
    found = processes.run(replace(life, resumes=True))

    assert (first["status"], second["status"]) == ("killed", "waiting")
    assert second["pending"] == ["call_1"]
    assert found["text"] == "Fine."
    assert ran(tmp_path) == ["dying"]
    assert len(provider.requests) == 2


def test_a_prompt_that_was_never_answered_is_asked_again(
    processes: Elsewhere, provider: Provider, life: Life, tmp_path: Path
) -> None:
    """A process that dies before the first answer has spent nothing that could be taken up."""
    provider.add(ANSWER)

    processes.run(replace(life, dies_at="prompt.started"))
    found = processes.run(replace(life, resumes=True))

    assert (found["text"], found["requests"]) == ("Fine.", 1)

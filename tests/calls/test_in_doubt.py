"""After a kill: what may have run is asked about and never silently repeated."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.calls.interrupted_process import (
    RUNNING,
    copy_of,
    executor_for,
    kill_in_the_middle,
    live,
    live_again,
)
from tests.calls.payments import Says, kind_of
from tests.calls.places import Trace, history
from toolcrib.approval.decision import Actor, Answer, Approve, Decision, Deny
from toolcrib.approval.policy import Policy, Rule
from toolcrib.calls.executor import Executor
from toolcrib.errors import UsageError
from toolcrib.ledger.events import (
    ApprovalDecided,
    ApprovalRequested,
    CallInDoubt,
    CallStarted,
    Event,
    ToolInvoked,
)
from toolcrib.session.session import Session
from toolcrib.store import SqliteStore


@pytest.fixture(scope="module")
def dead(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a process left that was killed while its handlers ran."""
    folder = tmp_path_factory.mktemp("dead")
    kill_in_the_middle(folder, live)
    return folder


@dataclass
class Heir:
    """The process that goes on."""

    folder: Path
    session: Session
    trace: Trace
    before: int

    @property
    def executor(self) -> Executor:
        return executor_for(self.session, self.trace)

    @property
    def ran(self) -> list[Any]:
        """What ran since the kill."""
        return self.trace.runs()[self.before :]

    def events(self, call_id: str, *kinds: type[Event]) -> list[Any]:
        return [
            event
            for event in history(self.session)
            if getattr(event, "call_id", None) == call_id and isinstance(event, kinds)
        ]

    async def resume(self, call_id: str, **options: Any) -> list[str]:
        executor = executor_for(self.session, self.trace, **options)
        return [kind_of(each) for each in await executor.resume([call_id])]

    async def decide(self, call_id: str, decision: Decision) -> list[str]:
        await self.resume(call_id)
        await self.session.approvals.decide(call_id, decision, by="ada")
        return await self.resume(call_id)


async def open_heir(folder: Path, **options: Any) -> Heir:
    trace = Trace(folder / "runs")
    session = await Session.open(SqliteStore(folder / "crib.sqlite3"), "s", **options)
    return Heir(folder, session, trace, len(trace.runs()))


@pytest.fixture
async def heir(dead: Path, tmp_path: Path) -> AsyncGenerator[Heir]:
    found = await open_heir(copy_of(dead, tmp_path / "heir"))
    yield found
    await found.session.close()
    found.session.store.close()


async def test_what_was_running_is_reported_once(dead: Path, tmp_path: Path) -> None:
    """Every call that had started is in doubt, nothing else is, and each is reported by the
    first process that comes after, only.
    """
    folder = copy_of(dead, tmp_path / "heir")
    for _ in range(2):
        heir = await open_heir(folder)
        doubts = [each for each in history(heir.session) if isinstance(each, CallInDoubt)]
        names = [each.call_id for each in doubts if each.call_id in RUNNING]

        assert sorted(names) == sorted(RUNNING)
        assert len(doubts) == len(RUNNING) + 1
        assert {each.call_id for each in heir.session.in_doubt()} == {
            each.call_id for each in doubts
        }
        await heir.session.close()
        heir.session.store.close()
        assert heir.ran == []


@pytest.mark.parametrize("call_id", ["plain", "approved", "edited", "granted"])
async def test_nothing_runs_again_by_itself(heir: Heir, call_id: str) -> None:
    """A person is asked, however the call was allowed the first time; a grant that would cover it
    does not count.
    """
    for _ in range(2):
        (outcome,) = await heir.executor.resume([call_id])

        assert outcome.status == "waiting"
        assert outcome.failure is not None
        assert outcome.failure.kind == "in_doubt"
    requests = [each.request for each in heir.events(call_id, ApprovalRequested)]
    assert requests[-1].rule == "in_doubt"
    assert sum(each.rule == "in_doubt" for each in requests) == 1
    assert heir.session.approvals.grants() != []
    assert heir.ran == []


async def test_the_question_shows_what_ran(heir: Heir) -> None:
    """After an edit it is the edited call that may have run."""
    await heir.resume("edited")

    request = heir.session.approvals.pending()[-1]
    assert (request.call_id, request.arguments) == ("edited", {"amount": 6})


async def test_an_idempotent_call_runs_again_with_its_key(heir: Heir) -> None:
    """The tool says that this does no harm, and gets the same key to recognise the call by."""
    assert await heir.resume("idempotent") == ["completed"]

    (first,) = [each for each in heir.trace.runs()[: heir.before] if each["call"] == "idempotent"]
    assert heir.ran == [first]
    assert [each.attempt for each in heir.events("idempotent", CallStarted)] == [1, 2]
    assert await heir.resume("idempotent") == []
    with pytest.raises(UsageError, match="is of another call"):
        await heir.executor.call("put", {"text": "y"}, call_id="idempotent")


@pytest.mark.parametrize("call_id", ["plain", "approved", "granted"])
async def test_a_yes_runs_it_again_once(heir: Heir, call_id: str) -> None:
    """A person who knows better than we do can have it run again: once."""
    assert await heir.decide(call_id, Approve()) == ["completed"]
    assert await heir.resume(call_id) == []

    assert [each["call"] for each in heir.ran] == [call_id]
    (finished,) = heir.events(call_id, ToolInvoked)
    assert finished.decided_by == Actor("person", "ada")
    assert heir.events(call_id, ApprovalDecided)[-1].decided.actor == Actor("person", "ada")


@pytest.mark.parametrize(
    ("decision", "end", "text"),
    [
        (Deny("look at the bank first"), "in_doubt", "look at the bank first"),
        (Answer("it went through"), "completed", "it went through"),
    ],
)
async def test_a_person_can_settle_it_without_running(
    heir: Heir, decision: Decision, end: str, text: str
) -> None:
    """No leaves it in doubt for the model as well; an answer stands in the result's place."""
    assert await heir.decide("plain", decision) == [end]

    (finished,) = heir.events("plain", ToolInvoked)
    assert finished.message == text
    assert heir.ran == []
    assert "plain" not in {each.call_id for each in heir.session.open_calls()}


async def test_an_approver_is_asked_like_about_anything(heir: Heir) -> None:
    """Whoever is there can answer at once."""
    approver = Says(Approve())

    assert await heir.resume("plain", approver=approver) == ["completed"]
    assert [each.rule for each in approver.asked] == ["in_doubt"]
    assert len(heir.ran) == 1


async def test_a_new_grant_does_not_cover_it_either(heir: Heir) -> None:
    """A standing yes is for calls, not for repeating them."""
    executor = executor_for(heir.session, heir.trace, asks=True)
    await executor.call("pay", {"amount": 1}, call_id="new")
    assert await heir.resume("plain") == ["waiting"]

    assert await heir.resume("plain", asks=True) == ["waiting"]
    assert [each["call"] for each in heir.ran] == ["new"]


async def test_where_nobody_answers_it_stays_unrun(dead: Path, tmp_path: Path) -> None:
    """With unanswered="deny" the doubt is reported as such, and nothing runs."""
    heir = await open_heir(copy_of(dead, tmp_path / "heir"), unanswered="deny")

    assert await heir.resume("plain") == ["in_doubt"]
    assert heir.ran == []
    await heir.session.close()
    heir.session.store.close()


@pytest.mark.parametrize("call_id", ["plain", "idempotent"])
async def test_a_deny_rule_of_now_keeps_it_from_running(heir: Heir, call_id: str) -> None:
    """What the policy forbids by now is not repeated, not even where it would do no harm."""
    strict = Policy((Rule("deny", "*"),))

    assert await heir.resume(call_id, policy=strict) == ["in_doubt"]
    assert heir.ran == []


async def test_it_can_be_withdrawn_and_stays_in_doubt(heir: Heir) -> None:
    """Nobody asks any more, and nobody claims that it did not run."""
    outcome = await heir.executor.withdraw("plain")

    assert kind_of(outcome) == "in_doubt"
    assert await heir.resume("plain") == heir.ran == []


async def test_a_nested_call_ends_with_its_caller(heir: Heir) -> None:
    """R48: the caller is asked about; what it had called cannot go on without it."""
    (nested,) = [each for each in heir.session.open_calls() if each.depth == 1]

    assert await heir.resume(nested.call_id) == ["in_doubt"]
    assert await heir.resume("nesting") == ["waiting"]
    assert heir.ran == []


async def test_a_decision_that_was_not_acted_on_is_acted_on_once(heir: Heir) -> None:
    """T49: allowed, written down, and killed before the start: it never ran, so it runs now."""
    assert heir.events("decided", CallStarted) == []

    assert await heir.resume("decided") == ["completed"]
    assert await heir.resume("decided") == []

    assert [each["call"] for each in heir.ran] == ["decided"]
    assert len(heir.events("decided", ApprovalDecided)) == 1


async def test_a_question_that_was_being_asked_is_still_open(heir: Heir) -> None:
    """T49: the approver died with the process; the request did not."""
    assert await heir.resume("asked") == ["waiting"]

    assert await heir.decide("asked", Approve()) == ["completed"]
    assert [each["call"] for each in heir.ran] == ["asked"]


@pytest.mark.wire
async def test_a_second_kill_is_a_new_doubt(dead: Path, tmp_path: Path) -> None:
    """The yes was for one more run. Killed again, the call is asked about again."""
    folder = copy_of(dead, tmp_path / "heir")
    kill_in_the_middle(folder, live_again)
    heir = await open_heir(folder)

    assert await heir.resume("plain") == ["waiting"]
    assert len(heir.events("plain", CallInDoubt)) == 2
    assert heir.ran == []
    assert await heir.decide("plain", Approve()) == ["completed"]

    assert [each["call"] for each in heir.ran] == ["plain"]
    assert [each.attempt for each in heir.events("plain", CallStarted)] == [1, 2, 3]
    await heir.session.close()
    heir.session.store.close()


async def test_a_tool_that_is_gone_ends_the_doubt(heir: Heir) -> None:
    """R50: nothing else runs in its name, and the call does not hang for ever."""
    (outcome,) = await Executor(heir.session).resume(["plain"])

    assert kind_of(outcome) == "unavailable"
    assert heir.ran == []


async def test_calling_by_its_id_takes_the_call_up(heir: Heir) -> None:
    """A model or a client that repeats the request does not repeat the effect."""
    outcome = await heir.executor.call("pay", {"amount": 1}, call_id="plain")

    assert outcome.status == "waiting"
    assert heir.ran == []

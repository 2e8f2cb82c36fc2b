"""The transcript: the ledger as a person reads it."""

import pytest

from tests.session.samples import executor
from toolcrib import Approve, Deny, Session
from toolcrib.ledger.events import CallInDoubt, ToolInvoked
from toolcrib.session.transcript import Entry
from toolcrib.testing import FakeClock
from toolcrib.tools.identity import ToolRef


async def test_every_end_of_a_call_has_an_entry() -> None:
    """N35, R46: what was called, with what, how it ended and what it gave."""
    clock = FakeClock(5.0)
    session = Session(clock=clock)
    calls = executor(session)

    await calls.call("add", {"a": 1, "b": 2}, call_id="c1")
    await calls.call("fail", call_id="c2")
    await calls.call("gone", call_id="c3")

    assert session.transcript() == (
        Entry(5.0, "c1", "add", "completed", "3", arguments={"a": 1, "b": 2}, value=3),
        Entry(5.0, "c2", "fail", "tool_error", "LookupError: no such book", arguments={}),
        Entry(
            5.0,
            "c3",
            "gone",
            "not_found",
            "There is no tool named 'gone'. The tools are: add, fail, erase.",
        ),
    )


@pytest.mark.parametrize(
    ("decision", "told", "end"),
    [
        (Approve(), "approve by person ann", "completed"),
        (Deny("No."), "deny by person ann", "denied"),
    ],
)
async def test_a_decision_is_part_of_the_story(
    decision: Approve | Deny, told: str, end: str
) -> None:
    """R42, R46: that a call waited, who decided, and what came of it, in this order."""
    session = Session(clock=FakeClock(5.0))
    calls = executor(session)
    await calls.call("erase", {"path": "/a"}, call_id="c1")
    await session.approvals.decide("c1", decision, by="ann")
    await calls.resume()

    waiting, decided, ended = session.transcript()

    assert {(entry.at, entry.call_id) for entry in session.transcript()} == {(5.0, "c1")}
    assert {entry.tool for entry in session.transcript()} == {"erase"}
    assert (waiting.what, waiting.arguments) == ("waiting", {"path": "/a"})
    assert waiting.text
    assert (decided.what, decided.text) == ("decided", told)
    assert ended.what == end


def test_a_call_in_doubt_is_told() -> None:
    """A reader sees that nobody knows whether a call took effect."""
    session = Session(clock=FakeClock(5.0))
    ref = ToolRef("erase", "python", "1.0.0", "d", "local")

    session.note(
        CallInDoubt(session_id=session.session_id, at=session.clock(), call_id="c1", tool=ref)
    )

    (entry,) = session.transcript()
    assert entry == Entry(5.0, "c1", "erase", "in_doubt", "Not known to have run")


def test_a_providers_call_reads_like_any_other() -> None:
    """N23, N35: an entry for a call that the provider ran, with its origin."""
    session = Session()
    session.note(
        ToolInvoked(
            session_id=session.session_id,
            at=session.clock(),
            call_id="ws_1",
            name="web_search",
            params={"query": "oslo"},
            message="Oslo is a city.",
            success=True,
            value={"text": "Oslo is a city."},
            origin="provider",
            provider="openai",
        )
    )

    (entry,) = session.transcript()
    assert (entry.tool, entry.what, entry.origin) == ("web_search", "completed", "provider")
    assert entry.value == {"text": "Oslo is a city."}


async def test_what_was_deleted_is_said_to_be_deleted() -> None:
    """Deleted payloads leave the chain, and one entry in the place of all of them."""
    session = Session()
    await executor(session).call("add", {"a": 1, "b": 2})
    await session.delete_payloads("ann")
    await executor(session).call("fail")

    gap, failed = session.transcript()
    assert (gap.what, gap.text) == ("deleted", "What records 1 to 3 said was deleted")
    assert failed.tool == "fail"

"""Conversations made shorter: by the provider, by a summary, and what follows from it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from tests.adapters.openai.loopback_adapter import ask, bench, happened
from tests.adapters.openai.scripted_provider import message, response
from tests.adapters.pydantic_ai.scripted_adapter import bench as script_bench
from tests.embedded.scripted_provider import Puppet
from toolcrib import Session, SqliteStore
from toolcrib.embedded import (
    BackendMessage,
    BackendOutput,
    BackendRequest,
    BackendText,
    BackendUsage,
    EmbeddedProvider,
)
from toolcrib.errors import UsageError
from toolcrib.ledger.prompt_events import HistoryCompacted, PromptStarted
from toolcrib.prompt import TextAttachment

NOTE: Final = TextAttachment("The note says: blue.")
ONE, TWO = response(message("One."), id="resp_1"), response(message("Two."), id="resp_2")
SUMMARY = response(message("They said one."), id="resp_9")


def chatty(request: BackendRequest) -> Sequence[BackendOutput]:
    """An answer of some length, which costs as many tokens as were said."""
    said = [turn for turn in request.history if isinstance(turn, BackendMessage)]
    return [BackendText(f"Answer {len(said)}."), BackendUsage(100 * len(said), 5)]


@pytest.mark.parametrize("history", ["server", "client"])
async def test_the_provider_shortens_and_a_later_process_starts_from_that(
    tmp_path: Path, history: Any
) -> None:
    """The provider's own items take the place of the turns before, whoever keeps the history; the
    turns after are said again as ever.
    """
    puppet = Puppet(chatty)
    async with EmbeddedProvider(puppet) as provider, provider.adapter(history=history) as adapter:
        with SqliteStore(tmp_path / "store.db") as store:
            async with await Session.open(store, "s") as session:
                first = ask(text="One?").bind(attachments=[NOTE])
                await adapter.evaluate_async(first, session=session)
                await adapter.evaluate_async(ask(text="Two?"), session=session, follows=True)
                compacted = await adapter.compact_async(session)
        with SqliteStore(tmp_path / "store.db") as store:
            async with await Session.open(store, "s") as session:
                await adapter.evaluate_async(ask(text="Three?"), session=session, follows=True)
                await adapter.evaluate_async(ask(text="Four?"), session=session, follows=True)
                (recorded,) = happened(session, HistoryCompacted)

    assert recorded == compacted
    assert (compacted.method, compacted.turn, compacted.adapter) == ("provider", 2, "openai")
    three, four = (request.history for request in puppet.requests[-2:])
    assert [turn.role for turn in three if isinstance(turn, BackendMessage)] == [
        "user",
        "user",
        "developer",
        "user",
    ]
    assert "The note says: blue." in str(three[0])
    assert "assistant: Answer 1." in str(three[2])
    assert [*four[: len(three)]] == [*three]
    assert len(four) == len(three) + 2


@pytest.mark.parametrize("history", ["server", "client"])
def test_a_server_without_that_endpoint_is_asked_for_a_summary(history: Any) -> None:
    """A summary is a prompt of the session like any other, and recorded as what it is."""
    session = Session()
    with bench(ONE, SUMMARY, TWO, history=history) as (adapter, provider):
        adapter.evaluate(ask(text="One?"), session=session)
        compacted = adapter.compact(session, instructions="Keep the $ amounts.")
        adapter.evaluate(ask(text="Two?"), session=session, follows=True)

    assert (compacted.method, compacted.text, compacted.turn) == ("summary", "They said one.", 2)
    asked = [body for body in provider.bodies if "Keep the $ amounts." in str(body)]
    assert len(asked) >= 1
    last = provider.bodies[-1]
    assert "previous_response_id" not in last
    texts = [item["content"][0]["text"] for item in last["input"]]
    assert texts[0] == "A summary of the conversation so far:\n\nThey said one."
    assert texts[1].endswith("Two?")
    assert [event.prompt_name for event in happened(session, PromptStarted)] == [
        "test:ask",
        "toolcrib:summary",
        "test:ask",
    ]


def test_a_model_of_pydantic_ai_writes_a_summary() -> None:
    """Where pydantic-ai has no compaction for the model, the model writes one."""
    session = Session()
    with script_bench("One.", "They said one.", "Two.") as (adapter, script):
        adapter.evaluate(ask(text="One?"), session=session)
        compacted = adapter.compact(session)
        adapter.evaluate(ask(text="Two?"), session=session, follows=True)

    assert (compacted.method, compacted.text) == ("summary", "They said one.")
    assert len(script.asked[1]) == 3
    assert len(script.asked[2]) == 1
    assert "They said one." in str(script.asked[2])


def test_another_provider_does_not_start_from_items_that_it_cannot_read() -> None:
    """The items of a provider's compaction are its own: any other gets the turns before."""
    session = Session()
    items = [{"type": "compaction", "id": "cmp_1", "encrypted_content": "x"}]
    with script_bench("One.", "Two.") as (adapter, script):
        adapter.evaluate(ask(text="One?"), session=session)
        session.note(
            HistoryCompacted(
                session_id=session.session_id,
                at=0,
                turn=1,
                adapter="openai",
                model="m",
                method="provider",
                items=items,
                usage={},
            )
        )
        adapter.evaluate(ask(text="Two?"), session=session, follows=True)

    assert len(script.asked[1]) == 3


async def test_a_long_conversation_is_shortened_by_itself() -> None:
    """With `compact_above`, a prompt that follows a longer request than that shortens first, and
    once.
    """
    session = Session()
    async with EmbeddedProvider(Puppet(chatty)).adapter() as adapter:
        for _ in range(3):
            await adapter.evaluate_async(
                ask(text="More?"), session=session, follows=True, compact_above=250
            )
        with pytest.raises(UsageError, match="compact_above must be more than 0"):
            await adapter.evaluate_async(ask(), session=session, follows=True, compact_above=0)

    assert [event.turn for event in happened(session, HistoryCompacted)] == [2]


def test_nothing_cannot_be_shortened() -> None:
    """A session without a conversation is a mistake that is told."""
    with bench() as (adapter, provider), pytest.raises(UsageError, match="no conversation"):
        adapter.compact(Session())

    assert provider.requests == []

"""Streams that carry their own errors, or pieces of secrets."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from tests.adapters.openai.scripted_provider import events_of
from tests.adapters.pydantic_ai.faulty_server import Text
from tests.adapters.pydantic_ai.provider_dialects import ANTHROPIC, Responses
from tests.adapters.pydantic_ai.scripted_adapter import ask, bench, happened, wire_bench
from tests.adapters.pydantic_ai.wire.traffic import Json
from toolcrib import PromptEvaluationError, Session
from toolcrib.ledger.prompt_events import ModelResponded, TextDelta
from toolcrib.testing import Recorder
from toolcrib.tools.mcp import McpConfig, mcp_tool

RESPONSES = Responses()


def stream(events: Sequence[Json]) -> Text:
    """Events as they travel."""
    told = [f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in events]
    return Text("".join(told), "text/event-stream")


def begun(count: int) -> list[Json]:
    """The beginning of an answer of Anthropic's, as far as so many events."""
    return ANTHROPIC.wire.events_of(ANTHROPIC.says("It is fine."))[:count]


@pytest.mark.parametrize("count", [0, 1, 4], ids=["first", "early", "late"])
def test_an_error_in_the_middle_of_a_stream_is_tried_again(count: int) -> None:
    """A provider that is overloaded may say so after it has begun; what it had said counts not."""
    overloaded = {"type": "overloaded_error", "message": "Overloaded"}
    broken = stream([*begun(count), {"type": "error", "error": overloaded}])
    session = Session()
    with wire_bench(ANTHROPIC, broken, ANTHROPIC.says("It is fine.")) as (adapter, server):
        found = adapter.evaluate(ask(), session=session, stream=True)

    assert (found.text, len(server.requests)) == ("It is fine.", 2)
    assert len(happened(session, ModelResponded)) == 1


def test_an_error_that_stays_is_told_at_once() -> None:
    """An event says whether the same request could be answered."""
    wrong = {"type": "invalid_request_error", "message": "Not this."}
    broken = stream([*begun(1), {"type": "error", "error": wrong}])
    with (
        wire_bench(ANTHROPIC, broken, ANTHROPIC.says("Fine.")) as (adapter, server),
        pytest.raises(PromptEvaluationError, match=r"Not this\.") as caught,
    ):
        adapter.evaluate(ask(), stream=True)

    assert (caught.value.phase, len(server.requests)) == ("request", 1)


@pytest.mark.parametrize(("code", "requests"), [("server_error", 2), ("invalid_prompt", 1)])
def test_openais_error_events_are_read_alike(code: str, requests: int) -> None:
    """A fault of the server's passes, a prompt that it will not take does not."""
    event = {"type": "error", "code": code, "message": "Sorry.", "param": None}
    broken = stream([*events_of(RESPONSES.says("It is fine."))[:3], event])
    with wire_bench(RESPONSES, broken, RESPONSES.says("It is fine.")) as (adapter, server):
        if requests == 2:
            assert adapter.evaluate(ask(), stream=True).text == "It is fine."
        else:
            with pytest.raises(PromptEvaluationError, match="Sorry"):
                adapter.evaluate(ask(), stream=True)

    assert len(server.requests) == requests


def test_a_secret_in_pieces_is_heard_by_nobody() -> None:
    """A credential that comes a few letters at a time is hidden on the bus and in the ledger; the
    application gets what came.
    """
    token = "tok-0123456789"
    config: Any = {"authorization": token, "require_approval": "never"}
    docs = mcp_tool(McpConfig(server_label="docs", server_url="https://d.example.org", **config))
    session = Session()
    recorder = Recorder(session.bus)
    # The script says a text in two halves, and the token lies across the middle.
    with bench(f"I used {token} there.", provider="anthropic") as (adapter, _):
        found = adapter.evaluate(ask(hosted=[docs]), session=session, stream=True)

    heard = "".join(piece.text for piece in recorder.of(TextDelta))
    written = b"".join(record.payload or b"" for record in session.records())
    assert heard == "I used [secret] there."
    assert token.encode() not in written
    assert found.text == f"I used {token} there."

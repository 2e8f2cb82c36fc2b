"""Responses that no server should send: the worst they do is to end a prompt with an error."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.adapters.openai.altered_responses import altered
from tests.adapters.openai.loopback_adapter import add, ask, happened
from tests.adapters.openai.response_samples import JSON_VALUES, fixture, fixture_names, mangled
from tests.adapters.openai.scripted_provider import Json, call, events_of, message, response
from toolcrib import PromptEvaluationError, PromptResponse, Session, ToolInvoked
from toolcrib.adapters.openai import Budget, OpenAIAdapter, Retry
from toolcrib.adapters.openai.items import CONTEXT_TYPES
from toolcrib.ledger.prompt_events import ModelResponded
from toolcrib.ledger.record import events
from toolcrib.tools.code_interpreter import code_interpreter_tool
from toolcrib.tools.shell import container_shell_tool
from toolcrib.tools.web_search import web_search_tool

SAMPLES = [
    *(response(*fixture(name)) for name in fixture_names()),
    response(call("add", {"a": 1, "b": 2}), message("Fine.")),
]
PHASES = (None, "response", "request", "parse", "tool", "budget")
ANSWER = response(message("Fine."))
PROMPT = ask(add, hosted=[code_interpreter_tool(), container_shell_tool(), web_search_tool()])


class Canned:
    """The part of an SDK client that is used, with replies in a row; the last one stays."""

    def __init__(self, *replies: Any) -> None:
        self.sent: list[Any] = []
        self._replies = list(replies)

    async def post(self, path: str, *, content: bytes, stream: bool = False, **_: Any) -> Any:
        self.sent.append(json.loads(content))
        reply = self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]
        if stream:
            is_whole = isinstance(reply, dict)
            return CannedStream(events_of(cast("Json", reply)) if is_whole else reply)
        raw = SimpleNamespace(headers={})
        return SimpleNamespace(response=raw, content=json.dumps(reply).encode())


class CannedStream:
    """The part of an SDK stream that is used."""

    def __init__(self, told: Sequence[Any]) -> None:
        self.response = SimpleNamespace(headers={})
        self._told = told

    async def __aenter__(self) -> CannedStream:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    async def __aiter__(self) -> AsyncIterator[Any]:
        for event in self._told:
            yield event


class Evaluated:
    """What became of a prompt: an answer or the phase of the error, and the session."""

    def __init__(self, client: Canned, history: Any = "server", *, stream: bool = False) -> None:
        retry = Retry(attempts=1)
        adapter = OpenAIAdapter(model="m", client=client, history=history, retry=retry)
        self.session = Session()
        self.phase: str | None = None
        self.found: PromptResponse[Any] | None = None
        work = adapter.evaluate_async(
            PROMPT, session=self.session, budget=Budget(max_steps=3), stream=stream
        )
        try:
            self.found = asyncio.run(work)
        except PromptEvaluationError as error:
            self.phase = error.phase


def evaluated(client: Canned, history: Any) -> tuple[str | None, Session]:
    """The phase of the error, if there is one, and the session."""
    what = Evaluated(client, history)
    return what.phase, what.session


@pytest.mark.parametrize("history", ["server", "client"])
@given(body=st.sampled_from(SAMPLES).flatmap(mangled))
@settings(max_examples=100)
def test_nothing_but_the_documented_error_comes_of_it(body: Any, history: str) -> None:
    """E4, H44: fields may be missing, of the wrong type or new; the ledger stays whole."""
    phase, session = evaluated(Canned(body, ANSWER), history)

    assert phase in PHASES
    assert session.verify() is not None
    assert list(events(session.records()))


@given(st.sampled_from(SAMPLES).map(events_of).flatmap(mangled))
@settings(max_examples=60)
def test_nothing_but_the_documented_error_comes_of_a_stream(told: list[Any]) -> None:
    """E4, H44: events may be of any shape, too."""
    what = Evaluated(Canned(told, ANSWER), stream=True)

    assert what.phase in PHASES
    assert what.session.verify() is not None


def _altered_items(body: Json) -> st.SearchStrategy[list[Json]]:
    return st.tuples(*map(altered, body["output"])).map(list)


def _unaccounted(items: Sequence[Json], what: Evaluated, client: Canned) -> list[Json]:
    """The items that may be calls and are neither recorded nor answered."""
    raw = [
        {key: value for key, value in event.raw.items() if key != "answer"}
        for event in happened(what.session, ToolInvoked)
        if event.raw is not None
    ]
    said = [answer for body in client.sent[1:2] for answer in body["input"]]
    answered = {answer.get("call_id") or answer.get("approval_request_id") for answer in said}
    counted = set(what.found.skipped if what.found else ())
    no_calls = {"message", "reasoning", *CONTEXT_TYPES} | {
        kind for kind in counted if not kind.endswith("_call")
    }
    return [
        item
        for item in items
        if item["type"] not in no_calls
        and item not in raw
        and not {item.get("id"), item.get("call_id")} & answered
    ]


@pytest.mark.parametrize("stream", [False, True], ids=["blocking", "streamed"])
@given(items=st.sampled_from(SAMPLES).flatmap(_altered_items))
@settings(max_examples=150)
def test_what_a_later_version_sends_is_not_lost(items: list[Json], stream: bool) -> None:
    """E2, E4: fields and types that nobody knows, and fields that are not there: every item is in
    the ledger as it came, and every call is recorded or answered.
    """
    client = Canned(response(*items), ANSWER)
    what = Evaluated(client, stream=stream)

    assert what.phase in (None, "response")
    assert happened(what.session, ModelResponded)[0].items == items
    if what.found is not None:
        assert _unaccounted(items, what, client) == []


@given(items=st.sampled_from(SAMPLES).flatmap(_altered_items))
def test_a_stream_comes_to_the_same_as_a_response(items: list[Json]) -> None:
    """E4: also where neither is what this version knows."""
    one, two = (
        Evaluated(Canned(response(*items), ANSWER), stream=stream) for stream in (False, True)
    )

    assert one.phase == two.phase
    assert _shown(one) == _shown(two)


def _shown(what: Evaluated) -> object:
    found = what.found
    told = [(each.call_id, each.raw) for each in happened(what.session, ToolInvoked)]
    return told, found and (found.text, found.invocations, found.citations, dict(found.skipped))


@given(body=JSON_VALUES)
def test_what_is_no_response_at_all_is_told(body: Any) -> None:
    """Any other JSON is an error, not an answer."""
    phase, _ = evaluated(Canned(body), "server")

    assert phase in ("request", "response")


def _calls(call_ids: Sequence[str]) -> Any:
    return response(*(call("add", {"a": 1, "b": 2}, call_id) for call_id in call_ids))


@given(st.lists(st.text(max_size=300), min_size=1, max_size=3))
def test_any_call_id_is_answered_or_told(call_ids: list[str]) -> None:
    """An id that no store could keep ends the prompt; any other is repeated as it came."""
    client = Canned(_calls(call_ids), ANSWER)
    phase, session = evaluated(client, "server")

    if phase is None:
        assert [item["call_id"] for item in client.sent[1]["input"]] == call_ids
    else:
        assert phase == "response"
        assert session.transcript() == ()

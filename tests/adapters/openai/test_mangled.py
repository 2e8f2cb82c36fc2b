"""Responses that no server should send: the worst they do is to end a prompt with an error."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.adapters.openai.bench import add, ask
from tests.adapters.openai.provider import call, message, response
from tests.adapters.openai.samples import JSON_VALUES, fixture, fixture_names, mangled
from toolcrib import PromptEvaluationError, Session
from toolcrib.adapters.openai import Budget, OpenAIAdapter, Retry
from toolcrib.session.record import events
from toolcrib.tools.code_interpreter import code_interpreter_tool
from toolcrib.tools.shell import shell_tool
from toolcrib.tools.web_search import web_search_tool

SAMPLES = [
    *(response(*fixture(name)) for name in fixture_names()),
    response(call("add", {"a": 1, "b": 2}), message("Fine.")),
]
ANSWER = response(message("Fine."))
PROMPT = ask(add, hosted=[code_interpreter_tool(), shell_tool(), web_search_tool()])


class Canned:
    """The part of an SDK client that is used, with replies in a row; the last one stays."""

    def __init__(self, *replies: Any) -> None:
        self.sent: list[Any] = []
        self._replies = list(replies)

    async def post(self, path: str, *, content: bytes, **_: Any) -> Any:
        self.sent.append(json.loads(content))
        reply = self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]
        raw = SimpleNamespace(headers={})
        return SimpleNamespace(response=raw, content=json.dumps(reply).encode())


def evaluated(client: Canned, history: Any) -> tuple[str | None, Session]:
    """The phase of the error, if there is one, and the session."""
    retry = Retry(attempts=1)
    adapter = OpenAIAdapter(model="m", client=client, history=history, retry=retry)
    session = Session()
    work = adapter.evaluate_async(PROMPT, session=session, budget=Budget(max_steps=3))
    try:
        asyncio.run(work)
    except PromptEvaluationError as error:
        return error.phase, session
    return None, session


@pytest.mark.parametrize("history", ["server", "client"])
@given(body=st.sampled_from(SAMPLES).flatmap(mangled))
@settings(max_examples=100)
def test_nothing_but_the_documented_error_comes_of_it(body: Any, history: str) -> None:
    """E4, H44: fields may be missing, of the wrong type or new; the ledger stays whole."""
    phase, session = evaluated(Canned(body, ANSWER), history)

    assert phase in (None, "response", "request", "parse", "tool", "budget")
    assert session.verify() is not None
    assert list(events(session.records()))


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

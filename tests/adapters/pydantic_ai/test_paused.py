"""Turns that a provider breaks up: pauses, results that come later, and what must be sent back."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import pytest
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.providers.anthropic import AnthropicProvider

from tests.adapters.pydantic_ai.faulty_server import Body, Server
from tests.adapters.pydantic_ai.provider_dialects import (
    ANTHROPIC,
    GOOGLE,
    KEY,
    SPEECHES,
    certificates,
)
from tests.adapters.pydantic_ai.scripted_adapter import add, ask, happened, wire_bench
from tests.adapters.pydantic_ai.test_events import searched
from tests.adapters.pydantic_ai.wire.traffic import Json
from tests.helpers.patience import PATIENCE
from toolcrib import Approve, PromptEvaluationError, Session, ToolInvoked
from toolcrib.adapters.options import Budget
from toolcrib.adapters.pydantic_ai import PydanticAIAdapter
from toolcrib.ledger.prompt_events import ModelResponded, PromptAnswered
from toolcrib.tools.code_interpreter import code_interpreter_tool
from toolcrib.tools.web_search import WebSearchResult, web_search_tool

CALLED, RESULT = searched(1)
THOUGHT: Json = {"type": "thinking", "thinking": "Hm.", "signature": "sig=="}
INTRO: Json = {"type": "text", "text": "Let me see. "}
FINE: Json = {"type": "text", "text": "It is fine."}
WAITING = ANTHROPIC.call("add", {"a": 1, "b": 2})
both = pytest.mark.parametrize("stream", [False, True], ids=["blocking", "streamed"])


def paused(*blocks: Json, **fields: Any) -> Json:
    return ANTHROPIC.answer(*blocks, stop="pause_turn", **fields)


def prompt() -> Any:
    return ask(add, hosted=[web_search_tool()])


def told(block: Any) -> Any:
    """A block without what the SDK adds to it and the provider need not hear again."""
    kept = {key: value for key, value in dict(block).items() if value is not None}
    kept.pop("caller", None)
    return kept


def said(body: Json, role: str = "assistant") -> list[list[Json]]:
    """The messages of one side in a request, as they were sent."""
    return [[*map(told, each["content"])] for each in body["messages"] if each["role"] == role]


@both
def test_a_paused_turn_goes_on_and_is_one_answer(stream: bool) -> None:
    """N24, H33: a call whose result comes after the pause is one call with its result; the text is
    the text that would have come without the pause; tokens of all requests count.
    """
    session = Session()
    segments = [paused(THOUGHT, INTRO, CALLED), ANTHROPIC.answer(RESULT, FINE)]
    with wire_bench(ANTHROPIC, *segments) as (adapter, server):
        found = adapter.evaluate(prompt(), session=session, stream=stream)

    with wire_bench(ANTHROPIC, ANTHROPIC.answer(THOUGHT, INTRO, CALLED, RESULT, FINE)) as (one, _):
        whole = one.evaluate(prompt(), stream=stream)

    assert (found.text, found.invocations) == (whole.text, whole.invocations)
    assert found.hosted_outputs == whole.hosted_outputs
    assert (found.usage.requests, found.usage.total_tokens) == (2, 30)
    assert [event.call_id for event in happened(session, ToolInvoked)] == ["srvtoolu_1"]
    assert [event.status for event in happened(session, ModelResponded)] == ["paused", "completed"]
    assert said(server.bodies[1]) == [[THOUGHT, INTRO, told(CALLED)]]
    assert server.bodies[1]["tools"] == server.bodies[0]["tools"]


@both
def test_a_turn_may_pause_again_and_then_call_a_tool_of_ours(stream: bool) -> None:
    """Every request brings all segments as one message of the model's, and then our output."""
    segments = [
        paused(INTRO, CALLED),
        paused(RESULT),
        ANTHROPIC.answer(WAITING, stop="tool_use"),
        ANTHROPIC.answer(FINE),
    ]
    with wire_bench(ANTHROPIC, *segments) as (adapter, server):
        found = adapter.evaluate(prompt(), stream=stream)

    whole = [INTRO, told(CALLED), told(RESULT), told(WAITING)]
    assert [said(body) for body in server.bodies[1:]] == [[whole[:2]], [whole[:3]], [whole]]
    assert ANTHROPIC.outputs(server.bodies[3]) == ["3"]
    assert (found.text, len(found.invocations)) == ("It is fine.", 1)


def test_pauses_count_as_steps_and_are_bounded_by_them() -> None:
    """E7: a provider that pauses for ever is asked as often as the budget says."""
    session = Session()
    with (
        wire_bench(ANTHROPIC, *[paused(INTRO)] * 9) as (adapter, server),
        pytest.raises(PromptEvaluationError, match="takes 3 steps and may take 3") as caught,
    ):
        adapter.evaluate(prompt(), session=session, budget=Budget(max_steps=3))

    assert caught.value.phase == "budget"
    assert len(server.requests) == 3
    assert happened(session, PromptAnswered) == []


def test_a_turn_that_broke_off_between_segments_goes_on_there() -> None:
    """C8, N24: the segments so far are sent again as they were; what they cost stays spent."""
    session = Session()
    down = Body({"type": "error", "error": {"type": "invalid_request_error", "message": "no"}}, 400)
    segments = [paused(THOUGHT, CALLED), down, ANTHROPIC.answer(RESULT, FINE)]
    with wire_bench(ANTHROPIC, *segments) as (adapter, server):
        with pytest.raises(PromptEvaluationError, match="no"):
            adapter.evaluate(prompt(), session=session)
        found = adapter.resume(prompt(), session=session)

    assert server.bodies[1] == server.bodies[2]
    assert (found.text, found.usage.requests) == ("It is fine.", 2)
    assert [ran.item_id for _, ran in found.invocations] == ["srvtoolu_1"]
    assert isinstance(found.hosted_outputs["web_search"], WebSearchResult)
    assert [event.call_id for event in happened(session, ToolInvoked)] == ["srvtoolu_1"]


@both
def test_the_model_that_paused_is_the_one_that_goes_on(stream: bool) -> None:
    """A model that took another's place is asked for the rest too, though the first is back."""
    broken = Body({"type": "error", "error": {"type": "api_error", "message": "no"}}, 500)
    with (
        Server(ANTHROPIC.encode, broken, ANTHROPIC.says("Not mine.")) as first,
        Server(ANTHROPIC.encode, paused(INTRO), ANTHROPIC.answer(FINE)) as second,
    ):
        other = AnthropicModel("claude-opus-5", provider=provider_at(second.url))
        adapter = PydanticAIAdapter(FallbackModel(ANTHROPIC.model(first.url), other))
        found = adapter.evaluate(prompt(), stream=stream)
        adapter.close()

    assert found.text == "Let me see. It is fine."
    assert (len(first.requests), len(second.requests)) == (1, 2)


def provider_at(url: str) -> AnthropicProvider:
    client = httpx2.AsyncClient(verify=certificates(), timeout=PATIENCE)
    return AnthropicProvider(api_key=KEY, base_url=url, http_client=client)


def test_where_code_runs_is_not_forgotten_over_pauses() -> None:
    """A container that only the first segment tells of is named in every request after it."""
    container = {"id": "container_1", "expires_at": "2030-01-01T00:00:00Z", "skills": None}
    run: Json = {
        "type": "server_tool_use",
        "id": "srvtoolu_9",
        "name": "bash_code_execution",
        "input": {"command": "ls"},
    }
    segments = [paused(INTRO, run, container=container), paused(INTRO), ANTHROPIC.answer(FINE)]
    with wire_bench(ANTHROPIC, *segments) as (adapter, server):
        adapter.evaluate(ask(hosted=[code_interpreter_tool()]))

    assert [body.get("container") for body in server.bodies] == [
        None,
        "container_1",
        "container_1",
    ]


@both
def test_a_result_may_come_after_our_own_calls(stream: bool) -> None:
    """N24, N26: a search beside a call of ours has its result in the next response: one event,
    when it is over, with the result.
    """
    session = Session()
    steps = [ANTHROPIC.answer(CALLED, WAITING, stop="tool_use"), ANTHROPIC.answer(RESULT, FINE)]
    with wire_bench(ANTHROPIC, *steps) as (adapter, server):
        found = adapter.evaluate(prompt(), session=session, stream=stream)

    events = happened(session, ToolInvoked)
    ((_, ran),) = found.invocations
    assert [event.call_id for event in events] == ["call_1", "srvtoolu_1"]
    assert (ran.item_id, ran.success, ran.params.queries) == ("srvtoolu_1", True, ("query 1",))
    assert ran.value.source_urls == ("https://e.org/1",)
    assert said(server.bodies[1]) == [[told(CALLED), told(WAITING)]]


async def test_a_result_may_come_after_a_wait() -> None:
    """C8: also when our own call waits for a person meanwhile."""
    session = Session(need_user_approve_tools=["add"])
    steps = [ANTHROPIC.answer(CALLED, WAITING, stop="tool_use"), ANTHROPIC.answer(RESULT, FINE)]
    with wire_bench(ANTHROPIC, *steps) as (adapter, _):
        waiting = await adapter.evaluate_async(prompt(), session=session)
        await session.approvals.decide("call_1", Approve(), by="jo")
        found = await adapter.resume_async(prompt(), session=session)

    ((_, ran),) = found.invocations
    assert (waiting.status, ran.item_id, ran.success) == ("waiting", "srvtoolu_1", True)


def test_a_result_that_never_comes_is_a_failure() -> None:
    """N17, N24: the call was made, and nobody knows what came of it."""
    session = Session()
    steps = [ANTHROPIC.answer(CALLED, WAITING, stop="tool_use"), ANTHROPIC.answer(FINE)]
    with wire_bench(ANTHROPIC, *steps) as (adapter, _):
        found = adapter.evaluate(prompt(), session=session)

    ((_, ran),) = found.invocations
    assert (ran.success, ran.value.status) == (False, "failed")
    assert "has no result" in (ran.error or "")
    assert [event.success for event in happened(session, ToolInvoked)] == [True, False]


@both
def test_what_the_provider_signed_is_sent_back_as_it_came(stream: bool) -> None:
    """E2, P23: thinking with its signature, redacted thinking and encrypted results are sent back
    to the letter, and so are they after a wait, from the ledger.
    """
    redacted: Json = {"type": "redacted_thinking", "data": "EqQB=="}
    blocks = [THOUGHT, redacted, INTRO, CALLED, RESULT, WAITING]
    bodies: list[list[Json]] = []
    for session in (Session(), Session(need_user_approve_tools=["add"])):
        steps = [ANTHROPIC.answer(*blocks, stop="tool_use"), ANTHROPIC.answer(FINE)]
        with wire_bench(ANTHROPIC, *steps) as (adapter, server):
            found = adapter.evaluate(prompt(), session=session, stream=stream)
            if found.pending:
                _decide(session)
                adapter.resume(prompt(), session=session, stream=stream)
        bodies.append(server.bodies)

    assert said(bodies[0][1]) == [[*map(told, blocks)]]
    assert bodies[0] == bodies[1]


def test_what_gemini_signed_is_sent_back_too() -> None:
    """E2: Gemini's thought signatures lie on its calls, and are needed there again."""
    asked = {**GOOGLE.call("add", {"a": 1, "b": 2}), "thoughtSignature": "c2lnbg=="}
    bodies: list[list[Json]] = []
    for session in (Session(), Session(need_user_approve_tools=["add"])):
        with wire_bench(GOOGLE, GOOGLE.calls(asked), GOOGLE.says("Fine.")) as (adapter, server):
            found = adapter.evaluate(ask(add), session=session)
            if found.pending:
                _decide(session)
                adapter.resume(ask(add), session=session)
        bodies.append(server.bodies)

    (part,) = bodies[0][1]["contents"][1]["parts"]
    assert part["thoughtSignature"] == "c2lnbg=="
    assert bodies[0] == bodies[1]


def test_what_openai_encrypted_is_sent_back_too() -> None:
    """E2, P23: encrypted reasoning of the Responses API survives a wait."""
    speech = SPEECHES["openai-responses"]
    reasoning: Json = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [],
        "encrypted_content": "gAAAA",
    }
    bodies: list[list[Json]] = []
    for session in (Session(), Session(need_user_approve_tools=["add"])):
        asked = speech.calls(reasoning, speech.call("add", {"a": 1, "b": 2}))
        with wire_bench(speech, asked, speech.says("Fine.")) as (adapter, server):
            found = adapter.evaluate(ask(add), session=session)
            if found.pending:
                _decide(session)
                adapter.resume(ask(add), session=session)
        bodies.append(server.bodies)

    sent = [each for each in bodies[0][1]["input"] if each.get("type") == "reasoning"]
    assert [each["encrypted_content"] for each in sent] == ["gAAAA"]
    assert bodies[0] == bodies[1]


def _decide(session: Session) -> None:
    asyncio.run(session.approvals.decide("call_1", Approve(), by="jo"))

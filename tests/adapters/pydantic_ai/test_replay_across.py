"""One prompt on several providers: a tool of ours, a search, and code that the provider runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.adapters.openai.loopback_adapter import add, ask, bench, happened
from tests.adapters.openai.response_samples import RECORDINGS
from tests.adapters.pydantic_ai import recorded_conversations
from tests.adapters.pydantic_ai.handwritten_scripts import scripted
from tests.adapters.pydantic_ai.recording_server import stage
from tests.adapters.pydantic_ai.recordings import WIRES
from tests.adapters.pydantic_ai.script_replay import speaker
from tests.adapters.pydantic_ai.wire.traffic import Json
from toolcrib import Prompt, PromptResponse, Session, ToolInvoked
from toolcrib.adapters.pydantic_ai import PydanticAIAdapter
from toolcrib.tools.code_interpreter import (
    CodeInterpreterResult,
    CodeRun,
    code_interpreter_tool,
)
from toolcrib.tools.web_search import WebSearchAction, WebSearchResult, web_search_tool

if not RECORDINGS.exists():
    pytest.skip("no recordings here", allow_module_level=True)


@dataclass(frozen=True, slots=True)
class Told:
    """What one provider's traffic came to."""

    response: PromptResponse[Any]
    events: list[ToolInvoked]
    cited: set[str]
    asked: list[Json]


def the_prompt() -> Prompt[Any]:
    return ask(add, hosted=[web_search_tool(), code_interpreter_tool()])


def on_openai(*, stream: bool) -> Told:
    """On our own adapter."""
    bodies, session = recorded_conversations.openai(), Session()
    with bench(*bodies) as (adapter, provider):
        response = adapter.evaluate(the_prompt(), session=session, stream=stream)
        asked = provider.bodies
    return Told(response, happened(session, ToolInvoked), cited("openai-responses", bodies), asked)


def through_pydantic_ai(provider: str, bodies: list[Json], *, stream: bool) -> Told:
    """On a model of pydantic-ai."""
    session = Session()

    async def evaluate() -> PromptResponse[Any]:
        async with speaker(server.url, provider) as model:
            adapter = PydanticAIAdapter(model)
            return await adapter.evaluate_async(the_prompt(), session=session, stream=stream)

    with stage() as server:
        server.play(scripted(provider, *bodies))
        response = asyncio.run(evaluate())
    return Told(response, happened(session, ToolInvoked), cited(provider, bodies), server.asked)


def cited(provider: str, bodies: list[Json]) -> set[str]:
    return {each.text or "" for body in bodies for each in WIRES[provider].cited(body)}


PROVIDERS: dict[str, Callable[[bool], Told]] = {
    "openai": lambda stream: on_openai(stream=stream),
    "openai-responses": lambda stream: through_pydantic_ai(
        "openai-responses", recorded_conversations.openai(), stream=stream
    ),
    "anthropic": lambda stream: through_pydantic_ai(
        "anthropic", recorded_conversations.anthropic(), stream=stream
    ),
    "google": lambda stream: through_pydantic_ai(
        "google", recorded_conversations.google(), stream=stream
    ),
}


@pytest.fixture(scope="module", params=[False, True], ids=["blocking", "streamed"])
def told(request: pytest.FixtureRequest) -> dict[str, Told]:
    """What the prompt came to, on each provider."""
    return {name: evaluate(request.param) for name, evaluate in PROVIDERS.items()}


def types_of(told: Told) -> object:
    """The types of all that a prompt gives, without what it says."""
    response = told.response
    calls = {(name, kind(each.params), kind(each.value)) for name, each in response.invocations}
    events = {(each.name, each.origin, kind(each.params)) for each in told.events}
    outputs = {name: kind(output) for name, output in response.hosted_outputs.items()}
    return kind(response.output), outputs, calls, events, set(map(kind, response.citations))


def kind(value: object) -> str:
    return type(value).__qualname__


def test_results_have_the_same_types_everywhere(told: dict[str, Told]) -> None:
    """H30, N21: whoever ran a tool, its call, its output and its event are of the same types."""
    expected = types_of(told["openai"])
    assert {name: types_of(each) for name, each in told.items()} == dict.fromkeys(told, expected)

    for each in told.values():
        assert isinstance(each.response.hosted_outputs["web_search"], WebSearchResult)
        assert isinstance(each.response.hosted_outputs["code_interpreter"], CodeInterpreterResult)
        params = {name: call.params for name, call in each.response.invocations}
        assert isinstance(params["web_search"], WebSearchAction)
        assert isinstance(params["code_interpreter"], CodeRun)


def test_our_own_tool_runs_everywhere(told: dict[str, Told]) -> None:
    """N26: it is asked for in one response and answered in the next request, on every provider."""
    for each in told.values():
        (ours,) = [event for event in each.events if event.origin != "provider"]
        assert (ours.name, ours.value, ours.success) == ("add", 3, True)
        assert len(each.asked) == 2


def test_searches_and_runs_are_told_everywhere(told: dict[str, Told]) -> None:
    """H33, C17: what was searched for, what was run and what it printed."""
    for name, each in told.items():
        calls = each.response.invocations
        assert all(call.success for _, call in calls), name
        assert any(call.params.queries for tool, call in calls if tool == "web_search"), name
        output = each.response.hosted_outputs["code_interpreter"]
        assert output.code, name
        assert output.stdout, name


def test_spans_slice_to_the_cited_text_everywhere(told: dict[str, Told]) -> None:
    """E6, H38: places are characters of the answer, whatever the provider counts in."""
    for name, each in told.items():
        text, citations = each.response.text, each.response.citations
        sliced = [text[slice(*citation.span)] for citation in citations if citation.span]
        assert sliced, name
        assert set(sliced) <= each.cited, name
        assert all(getattr(citation, "url", "") for citation in citations), name
        assert citations == each.response.hosted_outputs["web_search"].citations

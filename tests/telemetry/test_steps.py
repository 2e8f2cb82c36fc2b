"""Spans of steps: a model answered, and the provider may have run tools."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from opentelemetry.trace import SpanKind

from tests.adapters.openai.files_server import FilesServer
from tests.adapters.openai.loopback_adapter import add, ask, bench, sdk_client
from tests.adapters.openai.nested_prompt import (
    ANSWER,
    INNER,
    INNER_CALLS,
    THREE,
    outer_prompt,
)
from tests.adapters.openai.scripted_provider import Body, Json, call, message, response
from tests.telemetry.memory_collector import Collected, attributes, is_failed, labels, seconds
from toolcrib import (
    Session,
    ToolContext,
    ToolResult,
    tool,
)
from toolcrib.adapters.openai import OpenAIAdapter
from toolcrib.adapters.openai.code_interpreter_tool import OpenAICodeInterpreterTool
from toolcrib.failures import Failure
from toolcrib.ledger.events import ToolInvoked
from toolcrib.ledger.prompt_events import FilesStaged, ModelAsked, ModelResponded, PromptStarted
from toolcrib.testing import FakeClock, Recorder
from toolcrib.tools import HostMount, VfsPath
from toolcrib.tools.file_search import FileSearchConfig, file_search_tool
from toolcrib.tools.identity import ToolRef
from toolcrib.tools.web_search import web_search_tool

PROMPT = "invoke_agent test:ask"
CHAT = "chat test-model"


@pytest.fixture
def collected() -> Collected:
    return Collected()


def searched(number: int, **fields: Any) -> Json:
    item = {"type": "web_search_call", "id": f"ws_{number}", "status": "completed"}
    return {**item, "action": {"type": "search", "query": f"query {number}"}, **fields}


async def test_every_attribute_of_a_step(collected: Collected) -> None:
    """R43: models, ids and tokens of one request."""
    session = Session("s1")
    collected.watch(session)
    usage = {
        "input_tokens": 10,
        "output_tokens": 5,
        "input_tokens_details": {"cached_tokens": 4},
        "output_tokens_details": {"reasoning_tokens": 3},
    }

    with bench(response(message("Fine."), model="test-model-2", usage=usage)) as (adapter, _):
        await adapter.evaluate_async(ask(), session=session)

    span = collected.span(CHAT)
    assert (span.kind, is_failed(span), span.events) == (SpanKind.CLIENT, False, ())
    assert attributes(span) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "test-model",
        "gen_ai.response.model": "test-model-2",
        "gen_ai.response.id": "resp_msg_1",
        "gen_ai.conversation.id": "s1",
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 5,
        "gen_ai.usage.cache_read.input_tokens": 4,
        "gen_ai.usage.reasoning.output_tokens": 3,
        "toolcrib.turn": 1,
        "toolcrib.step": 1,
    }


async def test_cost_is_on_the_spans_and_counted(collected: Collected) -> None:
    """In US dollars: of the request, and of what the provider ran; both are in the metric."""
    session = Session(clock=FakeClock(1_780_000_000.0))
    collected.watch(session)
    usage = {"input_tokens": 1_000, "output_tokens": 10}

    answer = response(searched(1), message("Fine."), model="gpt-5", usage=usage)
    with bench(answer) as (adapter, _):
        await adapter.evaluate_async(ask(web_search_tool()), session=session)

    span = collected.span(CHAT)
    [event] = span.events
    assert attributes(span)["toolcrib.cost"] == 0.00135
    assert event.attributes is not None
    assert event.attributes["toolcrib.cost"] == 0.01
    assert sorted(collected.counts("toolcrib.cost").values()) == [0.00135, 0.01]


async def test_the_cost_of_a_compaction_is_counted(collected: Collected) -> None:
    """A request that makes a conversation shorter is in no turn, and in the metric."""
    session = Session(clock=FakeClock(1_780_000_000.0))
    usage = {"input_tokens": 1_000, "output_tokens": 10}
    answer = response(message("Fine."), model="gpt-5", usage=usage)
    with bench(answer) as (adapter, provider):
        adapter.model = "gpt-5"
        provider.routes["POST /v1/responses/compact"] = Body(answer)
        await adapter.evaluate_async(ask(), session=session)
        collected.watch(session)
        await adapter.compact_async(session)

    assert list(collected.counts("toolcrib.cost").values()) == [0.00135]


async def test_a_step_begins_when_the_calls_before_it_are_over(collected: Collected) -> None:
    """R43: what tools take is no part of a model's time."""
    clock = FakeClock(1_000.0)
    session = Session(clock=clock)
    collected.watch(session)

    @tool
    async def work() -> str:
        """Work."""
        clock.advance(7.0)
        return "done"

    with bench(response(call("work")), ANSWER) as (adapter, _):
        await adapter.evaluate_async(ask(work), session=session)

    assert [seconds(span) for span in collected.all(CHAT)] == [(1_000.0, 0.0), (1_007.0, 0.0)]
    assert seconds(collected.span("execute_tool work")) == (1_000.0, 7.0)
    assert seconds(collected.span(PROMPT)) == (1_000.0, 7.0)


def test_a_step_begins_when_files_are_there(collected: Collected, tmp_path: Path) -> None:
    """R43: what it takes to upload them is no part of a model's time either."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "input.csv").write_bytes(b"1")
    session = Session()
    collected.watch(session)
    heard = Recorder(session.bus)
    mount = HostMount("data", VfsPath(("workspace",)))

    with FilesServer(ANSWER) as server:
        adapter = OpenAIAdapter(
            model="test-model", client=sdk_client(server.url), host_roots=(tmp_path,)
        )
        adapter.evaluate(
            ask(OpenAICodeInterpreterTool(name="python", host_mounts=(mount,))), session=session
        )
        adapter.close()

    (started,), (staged,) = heard.of(PromptStarted), heard.of(FilesStaged)
    (asked,) = heard.of(ModelAsked)
    assert asked.at >= staged.at > started.at
    assert seconds(collected.span(CHAT))[0] == pytest.approx(asked.at, abs=1e-6)


async def test_provider_run_calls_are_events_of_their_step(collected: Collected) -> None:
    """R43, N3: nobody measured them, so they are no spans; they are on the step that they were
    made in, in order, with the attributes of a call.
    """
    session = Session("s1")
    collected.watch(session)
    first = response(searched(1), searched(2), call("add", {"a": 1, "b": 2}))
    second = response(searched(3), message("Fine."))

    with bench(first, second) as (adapter, _):
        prompt = ask(add, hosted=[web_search_tool()])
        await adapter.evaluate_async(prompt, session=session)

    steps = [[event for event in span.events] for span in collected.all(CHAT)]
    assert [[(e.attributes or {})["gen_ai.tool.call.id"] for e in step] for step in steps] == [
        ["ws_1", "ws_2"],
        ["ws_3"],
    ]
    event = steps[0][0]
    assert event.name == "toolcrib.provider_call"
    assert event.timestamp == collected.all(CHAT)[0].end_time
    assert dict(event.attributes or {}) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "web_search",
        "gen_ai.tool.type": "extension",
        "gen_ai.tool.call.id": "ws_1",
        "gen_ai.agent.name": "test:ask",
        "gen_ai.conversation.id": "s1",
        "gen_ai.provider.name": "openai",
        "toolcrib.tool.place": "provider",
    }
    assert collected.names.count("execute_tool web_search") == 0
    told = labels(tool="web_search", type="extension", agent="test:ask")
    assert collected.counts("toolcrib.calls")[told] == 3
    assert told not in collected.durations()


async def test_provider_run_calls_of_a_stream_are_spans(collected: Collected) -> None:
    """R43, N3: a stream shows when they began and ended, so that they have a duration."""
    session = Session("s1")
    collected.watch(session)
    with bench(response(searched(1), message("Fine."))) as (adapter, _):
        await adapter.evaluate_async(ask(hosted=[web_search_tool()]), session=session, stream=True)

    span = collected.span("execute_tool web_search")
    assert attributes(span)["gen_ai.tool.call.id"] == "ws_1"
    assert collected.span(CHAT).events == ()
    told = labels(tool="web_search", type="extension", agent="test:ask")
    assert told in collected.durations()


async def test_a_search_in_the_providers_files_is_an_access_to_data(collected: Collected) -> None:
    """R43: `datastore` is the type of file search, whatever the tool is called."""
    session = Session()
    collected.watch(session)
    found = {"type": "file_search_call", "id": "fs_1", "status": "completed", "queries": ["q"]}
    tool = file_search_tool(FileSearchConfig(vector_store_ids=("vs_1",)), name="handbook")

    with bench(response({**found, "results": []}, message("Fine."))) as (adapter, _):
        await adapter.evaluate_async(ask(hosted=[tool]), session=session)

    (event,) = collected.span(CHAT).events
    assert (event.attributes or {})["gen_ai.tool.type"] == "datastore"
    assert (event.attributes or {})["gen_ai.tool.name"] == "handbook"


async def test_a_provider_run_call_that_failed(collected: Collected) -> None:
    """R43: its event has the kind of failure, and it counts as an error."""
    session = Session()
    collected.watch(session)

    with bench(response(searched(1, status="failed"), message("Fine."))) as (adapter, _):
        await adapter.evaluate_async(ask(hosted=[web_search_tool()]), session=session)

    (event,) = collected.span(CHAT).events
    assert (event.attributes or {})["error.type"] == "provider_error"
    assert not is_failed(collected.span(CHAT))
    told = labels(tool="web_search", type="extension", agent="test:ask", error="provider_error")
    assert collected.counts("toolcrib.call.errors") == {told: 1}


def test_a_hook_on_a_providers_output_does_not_end_the_step(collected: Collected) -> None:
    """R43: it may evaluate a prompt before the provider's call is recorded; that prompt is under
    the outer one, and the call is still an event of its own step.
    """
    session = Session()
    collected.watch(session)

    def hook(result: Any, context: ToolContext) -> Any:
        return ToolResult(value=result, message=context.adapter.evaluate(INNER).text)

    ran: Json = {"type": "code_interpreter_call", "id": "ci_1", "status": "completed"}
    ran |= {"code": "1", "container_id": "c", "outputs": [{"type": "logs", "logs": "1"}]}
    python = OpenAICodeInterpreterTool(name="python", handle_provider_output=hook)

    with bench(response(ran, message("Two.")), INNER_CALLS, THREE) as (adapter, _):
        adapter.evaluate(outer_prompt(python), session=session)

    with_events = [span for span in collected.all(CHAT) if span.events]
    assert [attributes(span)["toolcrib.turn"] for span in with_events] == [1]
    assert collected.tree()[""] == [PROMPT]
    under = sorted(collected.tree()[PROMPT])
    assert under == [CHAT, CHAT, CHAT, "execute_tool add", PROMPT]


async def test_a_provider_that_tells_times_gets_spans(collected: Collected) -> None:
    """R43: where the time of a provider-run call is known it is a span under its step, and it is
    measured.
    """
    session = Session("s1", clock=FakeClock(1_000.0))
    collected.watch(session)
    ref = ToolRef("web_search", "acme", "1", "d", "provider")

    @tool
    async def relay() -> str:
        """Tell of a provider that tells times."""
        failure = Failure("provider_error", "broken")
        facts: dict[str, Any] = {"session_id": "s1", "at": 1_000.0}
        responded: dict[str, Any] = {"response_id": None, "request_id": None, "model": None}
        session.announce(
            ModelResponded(
                **facts, **responded, turn=1, step=1, status="completed", items=[], usage={}
            )
        )
        for number, problem in enumerate((None, failure)):
            session.announce(
                ToolInvoked(
                    **facts,
                    call_id=f"ws_{number}",
                    name="web_search",
                    params=None,
                    message="",
                    success=problem is None,
                    failure=problem,
                    tool=ref,
                    origin="provider",
                    duration_seconds=2.5,
                )
            )
        return "told"

    with bench(response(call("relay")), ANSWER) as (adapter, _):
        await adapter.evaluate_async(ask(relay), session=session)

    first, second = collected.all("execute_tool web_search")
    assert seconds(first) == (997.5, 2.5)
    assert (is_failed(first), is_failed(second)) == (False, True)
    assert collected.tree()[CHAT] == ["execute_tool web_search"] * 2
    told = labels(tool="web_search", type="extension", agent="test:ask")
    assert collected.durations()[told] == [1, 2.5]

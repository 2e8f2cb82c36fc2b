"""Native tools as their document asks for them: its program, and one trail of events for all.

Where the document is wrong about the API, the tests follow the API: what the provider ran comes as
an item of its own, already finished, and nothing is sent back for it.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.openai.loopback_adapter import add, ask, bench, happened
from tests.adapters.openai.scripted_provider import Json, call, message, response
from toolcrib import (
    EventBus,
    MarkdownSection,
    NativeTool,
    Prompt,
    PromptEvaluationError,
    Session,
    ToolExample,
    ToolInvoked,
    tool,
)
from toolcrib.adapters.openai import OpenAIAdapter
from toolcrib.ledger.prompt_events import ToolWithheld
from toolcrib.testing import Recorder
from toolcrib.tools import HostMount, OpenAICodeInterpreterTool
from toolcrib.tools.code_interpreter import code_interpreter_tool
from toolcrib.tools.web_search import web_search_tool


@dataclass
class WebSearchParams:
    query: str


@dataclass
class WebSearchPayload:
    # The provider's payload as it came.
    payload: dict[str, object]


@dataclass
class Anything:
    raw: dict[str, object]


SEARCH = NativeTool[WebSearchParams, WebSearchPayload](
    name="web_search",
    description="Use the provider's built-in search to gather fresh results.",
    examples=(
        ToolExample(
            description="Search for current weather in Paris.",
            input=WebSearchParams(query="current weather in Paris"),
            output=WebSearchPayload(payload={"results": []}),
        ),
    ),
)


def searched(number: int = 1, **fields: Any) -> Json:
    return {
        "type": "web_search_call",
        "id": f"ws_{number}",
        "status": "completed",
        "action": {"type": "search", "query": f"query {number}", "sources": []},
        **fields,
    }


def test_the_documents_program() -> None:
    """N1, N2, N7, N13, N16: declared beside a client tool, sent without a handler, and told in its
    own types: the query that was searched for and the payload as it came.
    """
    section = MarkdownSection(
        title="Task", key="task", template="Find out about $topic.", tools=[SEARCH, add]
    )
    prompt = Prompt[str](ns="research", key="native", sections=[section]).bind(topic="Paris")
    session = Session()
    recorder = Recorder(session.bus)

    with bench(response(searched(), message("Sunny."))) as (adapter, provider):
        found = adapter.evaluate(prompt, session=session)

    (body,) = provider.bodies
    assert [entry["type"] for entry in body["tools"]] == ["function", "web_search"]
    assert '- input: {"query":"current weather in Paris"}' in body["input"][0]["content"][0]["text"]
    (event,) = recorder.of(ToolInvoked)
    assert event.params == WebSearchParams("query 1")
    assert event.value == WebSearchPayload(searched())
    assert found.text == "Sunny."


@pytest.mark.parametrize("name", ["web_search", "code_interpreter", "shell"])
def test_capabilities_of_the_provider_are_offered_by_their_names(name: str) -> None:
    """N4, N14: what the provider runs itself needs nothing but its name."""
    with bench(response(message("Fine."))) as (adapter, provider):
        adapter.evaluate(ask(hosted=[NativeTool[None, Anything](name=name, description="Use it.")]))

    (entry,) = provider.bodies[0]["tools"]
    assert entry["type"] == name
    # Without a container it would be a shell of ours to run.
    assert name != "shell" or entry["environment"]["type"] == "container_auto"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("apply_patch", "openai defines it and you run it; declare it with a handler"),
        ("file_search", "it needs options; declare it as a HostedTool with a config"),
        ("teleport", "it knows: code_interpreter, file_search, "),
    ],
)
def test_what_the_provider_does_not_run_is_refused(name: str, text: str) -> None:
    """N14, P3: a patch is ours to apply, a search in files needs a store, and the rest is unknown;
    each is told before any request.
    """
    native = NativeTool[None, Anything](name=name, description="Use it.")
    with bench() as (adapter, provider), pytest.raises(PromptEvaluationError) as caught:
        adapter.evaluate(ask(hosted=[native]))

    assert text in str(caught.value)
    assert (caught.value.phase, provider.requests) == ("render", [])


def test_an_unavailable_capability_can_be_left_out() -> None:
    """N14, N28: on request, and with a record of what was left out and why."""
    session = Session()
    native = NativeTool[None, Anything](name="teleport", description="Go there.")
    with bench(response(message("Fine.")), on_unsupported="drop") as (adapter, provider):
        adapter.evaluate(ask(hosted=[native, SEARCH]), session=session)

    assert [entry["type"] for entry in provider.bodies[0]["tools"]] == ["web_search"]
    (event,) = happened(session, ToolWithheld)
    assert "'teleport'" in event.reason


class TestOneTrail:
    def test_native_and_client_calls_tell_the_same_things(self) -> None:
        """N3, N21, N34: parity: whatever a consumer reads of one it can read of the other."""

        @tool
        def look_up(query: str) -> dict[str, str]:
            """Look it up."""
            return {"found": query}

        session = Session()
        steps = [
            response(searched(), call("look_up", {"query": "x"})),
            response(message("Fine.")),
        ]
        with bench(*steps) as (adapter, _):
            adapter.evaluate(ask(look_up, hosted=[SEARCH]), session=session)

        native, client = happened(session, ToolInvoked)
        for event in (native, client):
            assert isinstance(event.name, str)
            assert isinstance(event.params, dict)
            assert isinstance(event.message, str)
            assert isinstance(event.value, dict)
            assert event.tool is not None
            assert (event.success, event.failure, event.turn) == (True, None, 1)
        assert (native.params, client.params) == ({"query": "query 1"}, {"query": "x"})
        assert (native.origin, client.origin) == ("provider", "local")

    def test_consumers_need_not_know_of_origins(self) -> None:
        """N22: an event of before, without any of the fields about providers, is a whole event."""
        optional = {
            each.name
            for each in fields(ToolInvoked)
            if each.default is not MISSING or each.default_factory is not MISSING
        }
        made = ToolInvoked(
            session_id="s", at=0, call_id="c", name="n", params=None, message="", success=True
        )

        assert {"origin", "provider", "capability", "raw"} <= optional
        assert (made.origin, made.provider, made.capability) == ("local", None, None)

    def test_a_provider_that_tries_again_is_two_calls_and_no_new_kind_of_event(self) -> None:
        """N26: each try in its order, the failure in the provider's words, in the same events."""
        failed = searched(
            1, status="failed", error={"code": "rate_limit", "message": "retry in 2s"}
        )
        trails: list[set[str]] = []
        for items in ([searched(1), searched(2)], [failed, searched(2)]):
            session = Session()
            with bench(response(*items, message("Fine."))) as (adapter, _):
                adapter.evaluate(ask(hosted=[SEARCH]), session=session)
            trails.append({record.kind for record in session.records()})

        first, second = happened(session, ToolInvoked)
        assert (first.success, second.success) == (False, True)
        assert first.message == "web_search_call failed: rate_limit: retry in 2s"
        assert trails[0] == trails[1]

    def test_events_come_in_the_order_of_the_calls(self) -> None:
        """N20, N26: as with client tools, a bus hears of each call when it is recorded."""
        bus = EventBus()
        heard: list[str] = []
        bus.subscribe(ToolInvoked, lambda event: heard.append(event.call_id))
        steps = [
            response(searched(1), call("add", {"a": 1, "b": 2}), searched(2)),
            response(searched(3), message("Fine.")),
        ]
        with bench(*steps) as (adapter, _):
            adapter.evaluate(ask(add, hosted=[SEARCH]), bus=bus)

        assert heard == ["ws_1", "ws_2", "call_1", "ws_3"]

    def test_nothing_is_sent_back_for_what_the_provider_ran(self) -> None:
        """N19, N20, P4: it has its result already; only ours are answered."""
        steps = [response(searched(), call("add", {"a": 1, "b": 2})), response(message("Fine."))]
        with bench(*steps) as (adapter, provider):
            adapter.evaluate(ask(add, hosted=[SEARCH]))

        assert [item["type"] for item in provider.bodies[1]["input"]] == ["function_call_output"]


class TestNothingIsTakenForLocal:
    """N27: what runs elsewhere has no files here, and takes none that nobody gave it."""

    def test_what_code_wrote_there_is_not_written_here(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """N27: paths in code, output and citations are the container's; the host is not touched."""
        monkeypatch.chdir(tmp_path)
        (tmp_path / "secret.csv").write_text("1\n")
        before = sorted(path.name for path in tmp_path.iterdir())
        cited = {
            "type": "container_file_citation",
            "container_id": "cntr_1",
            "file_id": "cfile_1",
            "filename": "../plot.png",
            "start_index": 0,
            "end_index": 4,
        }
        ran = {
            "type": "code_interpreter_call",
            "id": "ci_1",
            "status": "completed",
            "code": f"open({str(tmp_path / 'secret.csv')!r}).read(); save('plot.png')",
            "container_id": "cntr_1",
            "outputs": [{"type": "logs", "logs": "saved plot.png\n"}],
        }
        session = Session(cwd=str(tmp_path))
        with bench(response(ran, message("Plot", cited))) as (adapter, provider):
            found = adapter.evaluate(ask(hosted=[code_interpreter_tool()]), session=session)

        assert sorted(path.name for path in tmp_path.iterdir()) == before
        assert [file.filename for file in found.hosted_outputs["code_interpreter"].files] == [
            "../plot.png"
        ]
        assert provider.others == []
        assert "1\\n" not in provider.requests[0].raw.decode()

    def test_files_of_the_host_go_only_through_mounts_that_are_allowed(
        self, tmp_path: Path
    ) -> None:
        """N27: a mount is a wish; without a root that holds it nothing is read and nothing sent."""
        (tmp_path / "data.csv").write_text("1\n")
        mount = HostMount(host_path=str(tmp_path / "data.csv"))
        python = OpenAICodeInterpreterTool(host_mounts=(mount,))
        with bench() as (adapter, provider):
            with pytest.raises(PromptEvaluationError, match="host_roots"):
                adapter.evaluate(ask(hosted=[python]))
            elsewhere = tmp_path / "elsewhere"
            elsewhere.mkdir()
            narrow = OpenAIAdapter(
                model="m", base_url=provider.url, api_key="k", host_roots=(elsewhere,)
            )
            with pytest.raises(PromptEvaluationError, match="outside the allowed roots"):
                narrow.evaluate(ask(hosted=[python]))
            narrow.close()

        assert (provider.requests, provider.others) == ([], [])


def test_declarations_of_both_documents_meet_in_one_family() -> None:
    """N6, N30, X1: whoever takes native tools takes hosted ones; a set of tools holds each once."""
    hosted = web_search_tool()

    assert isinstance(hosted, NativeTool)
    assert len({SEARCH, SEARCH, hosted, web_search_tool()}) == 2

"""What the real wire demands, seen by whoever reads the error: what was wrong, where, what to do.

The rules themselves are proved beside the code; here each is tried as a user would meet it.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.openai.files_server import FilesServer, code_call, opened
from tests.adapters.openai.loopback_adapter import KEY, add, ask, bench, happened, sdk_client
from tests.adapters.openai.scripted_provider import Body, Json, Reply, call, message, response
from toolcrib import PromptEvaluationError, Session, ToolContext, ToolInvoked, ToolResult
from toolcrib.adapters.openai import Budget, Governance, OpenAIAdapter, download_files_blocking
from toolcrib.errors import DownloadFailed
from toolcrib.ledger.prompt_events import ModelResponded, PromptAnswered
from toolcrib.tools import OpenAICodeInterpreterTool
from toolcrib.tools.code_interpreter import (
    CodeInterpreterResult,
    GeneratedFile,
    code_interpreter_tool,
)
from toolcrib.tools.web_search import web_search_tool

SEARCHED: Json = {
    "type": "web_search_call",
    "id": "ws_1",
    "status": "completed",
    "action": {"type": "search", "query": "cribs"},
}
RAN: Json = {
    "type": "code_interpreter_call",
    "id": "ci_1",
    "status": "completed",
    "code": "print(42)",
    "container_id": "cntr_1",
    "outputs": [{"type": "logs", "logs": "42\n"}],
}
HALF = response(message("Half an ans"))


def told(prompt: Any, *replies: Json | Reply, **options: Any) -> PromptEvaluationError:
    """The error that the prompt ends with."""
    with bench(*replies) as (adapter, _), pytest.raises(PromptEvaluationError) as caught:
        adapter.evaluate(prompt, **options)
    return caught.value


@pytest.mark.parametrize(
    ("prompt", "replies", "options", "what", "to_do"),
    [
        (
            ask(hosted=[web_search_tool(), web_search_tool(name="cached_search")]),
            [],
            {},
            "'cached_search' and 'web_search' are both web_search",
            "a prompt can offer only one",
        ),
        (
            ask(),
            [{**HALF, "status": "incomplete", "incomplete_details": {"reason": "content_filter"}}],
            {},
            "the answer was filtered (content_filter)",
            "ask in other words",
        ),
        (
            ask(),
            [{**HALF, "status": "failed", "error": {"code": "server_error", "message": "Sorry."}}],
            {},
            "the provider failed: server_error: Sorry.",
            "`resume` asks for it again",
        ),
        (
            ask(),
            [{**HALF, "status": "queued"}],
            {},
            "the provider no longer has response resp_msg_1",
            "`resume` asks for it again",
        ),
        (
            ask(add),
            [response(call("add", {"a": 1, "b": 2}))],
            {"budget": Budget(max_tokens=15)},
            "the prompt takes 15 tokens and may take 15",
            "Raise the limit in its Budget",
        ),
        (
            ask(),
            [],
            {"tool_choice": "required"},
            "tool_choice is 'required', but no tool is offered",
            "offer one, or leave the choice at 'auto'",
        ),
        (
            ask(add, hosted=[web_search_tool()]),
            [],
            {"tool_choice": "websearch"},
            "tool_choice names 'websearch', which the prompt does not offer",
            "it offers: add, web_search",
        ),
        (
            ask(hosted=[code_interpreter_tool()]),
            [Body({"error": {"message": "Container is expired."}}, 400)],
            {},
            "HTTP 400: Container is expired.",
            "use a new one (AutoContainer, create_container or renew_container)",
        ),
    ],
    ids=["E1", "E5_filtered", "E5_failed", "E5_lost", "E7", "E8", "E8_named", "C26"],
)
def test_an_error_says_what_was_wrong_where_and_what_to_do(
    prompt: Any, replies: list[Any], options: dict[str, Any], what: str, to_do: str
) -> None:
    """E1, E5, E7, E8: the text alone is enough: it names the prompt, and the request once there
    was one.
    """
    error = told(prompt, *replies, **options)

    assert str(error).startswith("prompt 'test:ask': ")
    assert what in str(error)
    assert to_do in str(error)
    assert (" (request req_1)" in str(error)) == (error.request_id == "req_1")
    assert error.request_id == ("req_1" if replies and error.phase != "budget" else None)


def test_the_place_is_named_once() -> None:
    """A section that cannot be rendered names its prompt itself; the error does not repeat it."""
    error = told(ask(text="Answer $question"))

    assert str(error) == (
        "prompt 'test:ask': section 'task': no value for $question; bind it: "
        "prompt.bind(question=...)"
    )


def test_items_are_sent_back_as_they_came_after_a_wait() -> None:
    """E2: also those of a turn that waited in between, whatever fields this version knows."""
    odd: Json = {**SEARCHED, "mood": {"is": [1, None]}}
    asking = response({"type": "reasoning", "id": "rs_1", "summary": []}, odd, call("add"))
    broken = Body({"error": {"message": "down"}}, 400)
    session = Session()
    prompt = ask(add, hosted=[web_search_tool()])
    with bench(asking, broken, response(message("Fine.")), history="client") as (adapter, provider):
        with pytest.raises(PromptEvaluationError, match="down"):
            adapter.evaluate(prompt, session=session)
        adapter.resume(prompt, session=session)

    assert provider.bodies[2]["input"][1:4] == asking["output"]
    assert provider.bodies[1] == provider.bodies[2]


def test_outputs_of_every_step_are_one() -> None:
    """E3: what was searched for the first request is as much part of the output as the last."""
    first = {**SEARCHED, "action": {"type": "open_page", "url": "https://a.example"}}
    last = {**SEARCHED, "id": "ws_2", "action": {"type": "open_page", "url": "https://b.example"}}
    steps = [response(first, call("add", {"a": 1, "b": 2})), response(last, message("Fine."))]
    with bench(*steps) as (adapter, _):
        found = adapter.evaluate(ask(add, hosted=[web_search_tool()]))

    output = found.hosted_outputs["web_search"]
    assert output.source_urls == ("https://a.example", "https://b.example")
    assert [name for name, _ in found.invocations] == ["web_search", "web_search"]


def test_what_is_unknown_is_counted_and_breaks_nothing() -> None:
    """E4: an item of tomorrow, twice, beside an answer of today."""
    strange = {"type": "hologram", "id": "ho_1", "beam": 7}
    with bench(response(strange, strange, {**message("Fine."), "glow": 1})) as (adapter, _):
        found = adapter.evaluate(ask())

    assert (found.text, found.skipped) == ("Fine.", {"hologram": 2})


def test_a_structured_answer_may_lack_citations() -> None:
    """E6: under a schema annotations may be missing altogether; what is cited is then not known."""
    part = {"type": "output_text", "text": '{"a": 1}'}
    with bench(response(SEARCHED, message("", content=[part]))) as (adapter, _):
        found = adapter.evaluate(ask(hosted=[web_search_tool()]))

    assert (found.citations, found.hosted_outputs["web_search"].citations) == ((), ())
    assert found.hosted_outputs["web_search"].text == '{"a": 1}'


def test_a_download_says_which_file_failed_and_why(tmp_path: Path) -> None:
    """E9: the file, its container, the limit that it broke, and what is there all the same."""
    from httpx2 import Client
    from openai import OpenAI

    files: list[GeneratedFile] = []

    def model(server: FilesServer, body: Json) -> Json:
        container = opened(server, body)
        for name, size in (("small.csv", 2), ("../../large.csv", 50)):
            file_id = container.write(name, b"x" * size)
            files.append(GeneratedFile(container.id, file_id, name))
        return response(code_call(container, "write()", ""), message("Done."))

    with FilesServer(model) as server:
        adapter = OpenAIAdapter(model="m", client=sdk_client(server.url))
        adapter.evaluate(ask(code_interpreter_tool()))
        adapter.close()
        http_client = Client(verify=False)
        with (
            OpenAI(base_url=server.url, api_key=KEY, http_client=http_client) as client,
            pytest.raises(DownloadFailed, match="more than 10 bytes; allow more max_bytes") as got,
        ):
            download_files_blocking(client, files, tmp_path, max_bytes=10)

    where = f"'../../large.csv' of container {files[1].container_id} was not saved: "
    assert str(got.value).startswith(where)
    assert [path.name for path in got.value.saved] == ["small.csv"]
    assert [path.name for path in tmp_path.iterdir()] == ["small.csv"]


def test_a_hook_that_fails_is_named_and_the_output_is_kept(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """E10: the record says what the hook did; the log has its traceback and the tool's name."""

    def hook(
        result: CodeInterpreterResult, context: ToolContext
    ) -> ToolResult[CodeInterpreterResult]:
        raise LookupError("no such column")

    session = Session()
    python = OpenAICodeInterpreterTool(name="python", handle_provider_output=hook)
    with bench(response(RAN, message("Fine."))) as (adapter, _):
        found = adapter.evaluate(ask(hosted=[python]), session=session)

    (event,) = happened(session, ToolInvoked)
    assert event.failure is not None
    assert event.failure.message == "handle_provider_output failed: LookupError: no such column"
    assert event.value["stdout"] == "42\n"
    assert found.hosted_outputs["python"].stdout == "42\n"
    (logged,) = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert logged.getMessage() == "handle_provider_output of python failed"
    assert logged.exc_info is not None


def test_a_watcher_that_fails_changes_no_state_and_the_remote_effect_is_noted() -> None:
    """E11, P24: the slice whose reducer failed is as it was before the event; the others, the
    ledger and the prompt go on, and the ledger has what the provider did and nobody can undo.
    """
    session = Session()

    def fails_on_searches(names: tuple[str, ...], event: ToolInvoked) -> tuple[str, ...]:
        if event.origin == "provider":
            raise RuntimeError("cannot count that")
        return (*names, event.name)

    def count(names: tuple[str, ...], event: ToolInvoked) -> tuple[str, ...]:
        return (*names, event.name)

    def deaf(event: ToolInvoked) -> None:
        raise RuntimeError("deaf")

    session.add_reducer("own", ToolInvoked, fails_on_searches, ())
    session.add_reducer("all", ToolInvoked, count, ())
    session.bus.subscribe(ToolInvoked, deaf)
    steps = [response(SEARCHED, call("add", {"a": 1, "b": 2})), response(message("Fine."))]
    with bench(*steps) as (adapter, _):
        found = adapter.evaluate(ask(add, hosted=[web_search_tool()]), session=session)

    assert found.text == "Fine."
    assert (session.state("own"), session.state("all")) == (("add",), ("web_search", "add"))
    assert [entry.origin for entry in session.transcript()] == ["provider", "local"]
    assert (session.bus.failures, session.reducers.failures) == (2, 1)
    assert session.verify() is not None


def test_a_prompt_that_ended_in_an_error_has_no_answer_in_its_ledger() -> None:
    """E5: what came back is kept, tokens and all, and is not taken for an answer later."""
    session = Session()
    told(ask(), {**HALF, "status": "incomplete"}, session=session, governance=Governance())

    assert len(happened(session, ModelResponded)) == 1
    assert happened(session, PromptAnswered) == []

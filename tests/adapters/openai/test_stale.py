"""Runs of code whose container is gone: told as text, so that a turn can go on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.adapters.openai.files_server import Fault, FilesServer, Json, code_call, opened
from tests.adapters.openai.loopback_adapter import ask, happened, sdk_client
from tests.adapters.openai.response_samples import read_items
from tests.adapters.openai.scripted_provider import call, message, response
from toolcrib import Session, tool
from toolcrib.adapters.openai import OpenAIAdapter
from toolcrib.adapters.openai.containers import retold
from toolcrib.adapters.openai.items import write_item
from toolcrib.approval.decision import Approve
from toolcrib.errors import ContainerGone
from toolcrib.ledger.prompt_events import ModelResponded
from toolcrib.tools import OpenAICodeInterpreterTool
from toolcrib.tools.code_interpreter import ExistingContainer

EXPIRED = Fault(400, "Container is expired.")
DONE = response(message("Done."))


@tool(requires_approval=True)
async def launch() -> str:
    """Launch it."""
    return "launched"


def reasoning(number: int) -> Json:
    return {"type": "reasoning", "id": f"rs_{number}", "summary": []}


RUN: Json = {
    "type": "code_interpreter_call",
    "id": "ci_1",
    "code": "print(6 * 7)",
    "container_id": "cntr_1",
    "outputs": [{"type": "logs", "logs": "42\n"}, {"type": "image", "url": "data:image/png;,"}],
}


def retold_json(*raws: Json) -> list[Json]:
    """The JSON of the items after `retold`."""
    return [dict(write_item(item)) for item in retold(read_items(list(raws)))]


def test_a_run_becomes_words_of_the_models_own() -> None:
    """C26: code and output stay known; they are no instructions of anybody else's."""
    (told,) = retold_json(RUN)

    assert (told["type"], told["role"]) == ("message", "assistant")
    assert "print(6 * 7)" in told["content"]
    assert told["content"].endswith("It printed:\n42\n")


def test_reasoning_goes_with_the_run_that_it_led_to() -> None:
    """P23: reasoning without the item that followed it is refused; other reasoning stays."""
    answer, asked = message("So far."), call("launch")

    told = retold_json(answer, reasoning(1), reasoning(2), RUN, reasoning(3), asked)

    assert told == [answer, *retold_json(RUN), reasoning(3), asked]


SILENT: list[Json] = [{}, {"code": None}, {"outputs": None}, {"outputs": [7, {}]}]


@pytest.mark.parametrize("run", SILENT)
def test_a_run_that_tells_nothing_is_no_fault(run: Json) -> None:
    """What is missing is left out."""
    assert len(retold_json({"type": "code_interpreter_call", **run})) == 1


def test_without_runs_nothing_changes() -> None:
    """Only what ran in a container is retold."""
    items = read_items([message("Hello."), reasoning(1), call("launch")])

    assert retold(items) == items


def runs_and_asks(server: FilesServer, body: Json) -> Json:
    run = code_call(opened(server, body), "print(6 * 7)", "42\n")
    return response(reasoning(1), run, reasoning(2), call("launch"))


def resumed(
    server: FilesServer, history: Any, tools: Any, later: Any = None
) -> tuple[Any, Session]:
    """A prompt that waits for a person while its container expires, and goes on."""
    session = Session()
    adapter = OpenAIAdapter(model="m", client=sdk_client(server.url), history=history)
    try:
        waiting = adapter.evaluate(ask(*tools), session=session)
        pending = waiting.pending[0].approval_id
        asyncio.run(session.approvals.decide(pending, Approve(), by="jo"))
        server.faults["POST /v1/responses"] = [EXPIRED]
        return adapter.resume(ask(*(later or tools)), session=session), session
    finally:
        adapter.close()


def test_a_turn_goes_on_without_its_container() -> None:
    """C26: the runs are retold, the provider makes a new container, and the ledger is as it was."""
    tools = (OpenAICodeInterpreterTool(name="python"), launch)
    with FilesServer(runs_and_asks, DONE) as server:
        answer, session = resumed(server, "client", tools)

    assert answer.text == "Done."
    first, last = server.asked
    assert [item["type"] for item in last["input"]] == [
        "message",
        "message",
        "reasoning",
        "function_call",
        "function_call_output",
    ]
    assert "42" in last["input"][1]["content"]
    assert last["tools"] == first["tools"]
    recorded = happened(session, ModelResponded)[0].items
    assert [item["type"] for item in recorded][:2] == ["reasoning", "code_interpreter_call"]


def test_a_history_that_the_provider_keeps_cannot_be_retold() -> None:
    """C26: the error is typed and says which adapter can go on."""
    tools = (OpenAICodeInterpreterTool(name="python"), launch)
    with (
        FilesServer(runs_and_asks, DONE) as server,
        pytest.raises(ContainerGone, match=r"Container is expired\..*history='client'"),
    ):
        resumed(server, "server", tools)


def test_a_container_that_the_tool_itself_names_must_be_replaced() -> None:
    """C26: retelling does not help when the tool still asks for the dead container."""
    tools = (OpenAICodeInterpreterTool(container=ExistingContainer("cntr_1")), launch)
    with FilesServer(runs_and_asks) as server:
        server.container("cntr_1")
        server.during = lambda request: dies(server, request)
        with pytest.raises(ContainerGone, match="Container is expired"):
            resumed(server, "client", tools)

    assert server.counted("POST /v1/responses") == 3


def dies(server: FilesServer, request: str) -> None:
    """From the second request on, the container is expired."""
    if request == "POST /v1/responses" and server.seen:
        server.faults[request] = [EXPIRED]

"""What is announced while a response of the Responses API streams in."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Sequence
from typing import Annotated, Any
from unittest.mock import create_autospec

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.adapters.openai.loopback_adapter import add, ask, bench
from tests.adapters.openai.response_samples import JSON_VALUES
from tests.adapters.openai.scripted_provider import (
    Events,
    Json,
    call,
    events_of,
    message,
    response,
)
from toolcrib import PromptResponse, Secret, Session, tool
from toolcrib.adapters.openai.stream_watcher import StreamWatcher
from toolcrib.adapters.stream_announcer import MAX_IMAGE_CHARS, StreamAnnouncer
from toolcrib.ledger import (
    ArgumentsDelta,
    Event,
    HostedToolProgress,
    PartialImage,
    ReasoningDelta,
    TextDelta,
)
from toolcrib.tools.code_interpreter import code_interpreter_tool
from toolcrib.tools.image_generation import image_generation_tool
from toolcrib.tools.mcp import McpConfig, mcp_tool
from toolcrib.tools.web_search import web_search_tool

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n0123456789").decode()
ANSWER = message("Fine.")
TOKEN = "tok-0123456789"


def streamed(*items: Json, between: Sequence[Json] = ()) -> Events:
    """A stream of a response. `between` come after the first item was added."""
    body = response(*items)
    events = events_of(body)
    return Events(numbered([*events[:2], *between, *events[2:]]))


def numbered(events: Sequence[Json]) -> list[Json]:
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def of_item(kind: str, item_id: str, **fields: Any) -> Json:
    return {"type": f"response.{kind}", "item_id": item_id, "output_index": 0, **fields}


def heard(
    *replies: Events | Json, tools: Sequence[Any] = (), hosted: Sequence[Any] = ()
) -> tuple[PromptResponse[Any], list[Event]]:
    """The response to a prompt, and what was announced meanwhile."""
    session, events = Session(), list[Event]()
    session.bus.subscribe(Event, events.append)
    with bench(*replies) as (adapter, _):
        found = adapter.evaluate(ask(*tools, hosted=hosted), session=session, stream=True)
    kept = b"".join(record.payload or b"" for record in session.records())
    assert b"delta" not in kept
    return found, events


def of(events: Sequence[Event], kind: type[Event]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


def code_call(**fields: Any) -> Json:
    logs = [{"type": "logs", "logs": "12\n"}]
    facts = {"code": "print(12)", "container_id": "c1", "outputs": logs, "status": "completed"}
    return {"type": "code_interpreter_call", "id": "ci_1", **facts, **fields}


def test_code_and_its_output_are_in_the_events() -> None:
    """Hosted tools 4: the code comes as it is written, then what it printed, then the end."""
    begun = streamed(
        code_call(),
        ANSWER,
        between=[
            of_item("code_interpreter_call.in_progress", "ci_1"),
            of_item("code_interpreter_call_code.delta", "ci_1", delta="print("),
            of_item("code_interpreter_call_code.delta", "ci_1", delta="12)"),
            of_item("code_interpreter_call_code.done", "ci_1", code="print(12)"),
            of_item("code_interpreter_call.interpreting", "ci_1"),
        ],
    )
    _, events = heard(begun, hosted=[code_interpreter_tool()])

    progress = of(events, HostedToolProgress)
    assert [(each.status, each.code, each.output) for each in progress] == [
        ("in_progress", None, None),
        ("in_progress", "print(", None),
        ("in_progress", "12)", None),
        ("interpreting", None, None),
        ("interpreting", None, "12\n"),
        ("completed", None, None),
    ]
    named = {(each.call_id, each.tool, each.capability) for each in progress}
    assert named == {("ci_1", "code_interpreter", "code_interpreter")}


def test_partial_images_are_bytes_and_bounded() -> None:
    """Hosted tools 4: the pictures that were asked and paid for arrive; none without end does."""
    picture = {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": PNG}
    drawn = streamed(
        picture,
        ANSWER,
        between=[
            of_item("image_generation_call.generating", "ig_1"),
            of_item(
                "image_generation_call.partial_image",
                "ig_1",
                partial_image_index=0,
                partial_image_b64=PNG,
            ),
            of_item(
                "image_generation_call.partial_image",
                "ig_1",
                partial_image_index=1,
                partial_image_b64="A" * (MAX_IMAGE_CHARS + 4),
            ),
        ],
    )
    _, events = heard(drawn, hosted=[image_generation_tool()])

    images = [each.image for each in of(events, HostedToolProgress) if each.image]
    assert images == [PartialImage(0, "image/png", PNG)]
    assert images[0].data.startswith(b"\x89PNG")


def test_only_provider_run_calls_have_progress() -> None:
    """Hosted tools 4, F16: never a message, reasoning or a call of ours."""
    reasoning: Json = {"type": "reasoning", "id": "rs_1", "summary": []}
    _, events = heard(
        streamed(reasoning, call("add", {"a": 1, "b": 2})), streamed(ANSWER), tools=[add]
    )

    assert of(events, HostedToolProgress) == []
    pieces = of(events, ArgumentsDelta)
    assert {(each.call_id, each.tool) for each in pieces} == {("call_1", "add")}
    assert json.loads("".join(each.text for each in pieces)) == {"a": 1, "b": 2}


def test_a_repeated_call_id_is_announced_as_the_ledger_keeps_it() -> None:
    """Pieces of a call can be matched with its end, also when a model uses an id twice."""
    again = streamed(call("add", {"a": 1, "b": 2}))
    _, events = heard(again, again, streamed(ANSWER), tools=[add])

    assert {each.call_id for each in of(events, ArgumentsDelta)} == {"call_1", "call_1#2"}


def test_arguments_of_a_remote_server_come_as_they_are_written() -> None:
    """Hosted tools 4: MCP arguments, too."""
    used = {
        "type": "mcp_call",
        "id": "mcp_1",
        "server_label": "docs",
        "name": "search",
        "arguments": '{"q": 1}',
        "output": "x",
        "status": "completed",
    }
    begun = streamed(
        used,
        ANSWER,
        between=[
            of_item("mcp_call_arguments.delta", "mcp_1", delta='{"q"'),
            of_item("mcp_call_arguments.delta", "mcp_1", delta=": 1}"),
        ],
    )
    docs = McpConfig(server_label="docs", server_url="https://d.example", require_approval="never")
    _, events = heard(begun, hosted=[mcp_tool(docs)])

    pieces = [each.arguments for each in of(events, HostedToolProgress) if each.arguments]
    assert pieces == ['{"q"', ": 1}"]


@pytest.mark.parametrize("has_deltas", [True, False], ids=["deltas", "whole"])
def test_reasoning_is_streamed_and_in_the_response(has_deltas: bool) -> None:
    """Hosted tools 4: summaries come in pieces where there are some, and stand in the response."""
    summary = [{"type": "summary_text", "text": text} for text in ("First.", "Then.")]
    thought = {"type": "reasoning", "id": "rs_1", "summary": summary}
    deltas = [
        of_item("reasoning_summary_text.delta", "rs_1", summary_index=0, delta="Fir"),
        of_item("reasoning_summary_text.delta", "rs_1", summary_index=0, delta="st."),
        of_item("reasoning_summary_text.done", "rs_1", summary_index=0, text="First."),
    ]
    body = response(thought, ANSWER)
    streaming = streamed(thought, ANSWER, between=deltas if has_deltas else [])
    found, events = heard(streaming)
    with bench(body) as (adapter, _):
        blocking = adapter.evaluate(ask())

    pieces = [(each.index, each.text) for each in of(events, ReasoningDelta)]
    first = [(0, "Fir"), (0, "st.")] if has_deltas else [(0, "First.")]
    assert pieces == [*first, (1, "Then.")]
    assert found.reasoning == blocking.reasoning == ("First.", "Then.")


def test_secret_arguments_are_in_no_piece() -> None:
    """The arguments of a tool with secrets are held back, and announced without them."""

    @tool
    def login(user: str, password: Annotated[str, Secret()]) -> str:
        """Log in."""
        return "in"

    arguments = '{"user": "jo", "password": "hunter2"}'
    deltas = [
        of_item("function_call_arguments.delta", "fc_1", delta=piece)
        for piece in (arguments[:30], arguments[30:])
    ]
    _, events = heard(
        streamed(call("login", arguments), between=deltas), streamed(ANSWER), tools=[login]
    )

    pieces = of(events, ArgumentsDelta)
    assert "hunter2" not in repr(events)
    assert [json.loads(each.text or "{}").get("user") for each in pieces] == [None, "jo"]


def test_credentials_are_in_no_piece_however_it_is_cut() -> None:
    """A token that the provider repeats is hidden in code, arguments, reasoning and text."""
    docs = McpConfig(
        server_label="docs",
        server_url="https://d.example",
        authorization=TOKEN,
        require_approval="never",
    )
    code = f"key = '{TOKEN}'"
    summary = [{"type": "summary_text", "text": f"Use {TOKEN} now."}]
    thought = {"type": "reasoning", "id": "rs_1", "summary": summary}
    pieces = [code[:10], code[10:14], code[14:]]
    deltas = [of_item("code_interpreter_call_code.delta", "ci_1", delta=each) for each in pieces]
    events = heard(
        streamed(code_call(code=code), thought, message(f"It is {TOKEN}."), between=deltas),
        hosted=[code_interpreter_tool(), mcp_tool(docs)],
    )[1]

    shown = [event for event in events if isinstance(event, HostedToolProgress | ReasoningDelta)]
    assert TOKEN not in repr([*shown, *of(events, TextDelta)])
    written = "".join(each.code or "" for each in of(events, HostedToolProgress))
    assert written == "key = '[secret]'"


def test_what_no_delta_brought_is_announced_all_the_same() -> None:
    """A server that sends only the end still shows text, calls and searches."""
    search = {
        "type": "web_search_call",
        "id": "ws_1",
        "status": "completed",
        "action": {"type": "search", "query": "hours"},
    }
    body = response(search, ANSWER)
    end = {"type": "response.completed", "response": body}
    found, events = heard(Events(numbered([end])), hosted=[web_search_tool()])

    assert found.text == "".join(each.text for each in of(events, TextDelta)) == "Fine."
    assert [each.queries for each in of(events, HostedToolProgress) if each.queries] == [("hours",)]


def test_repeated_events_say_nothing_twice() -> None:
    """Some servers send every event twice."""
    events_twice = [event for event in events_of(response(ANSWER)) for _ in range(2)]
    found, events = heard(Events(events_twice))

    assert "".join(each.text for each in of(events, TextDelta)) == found.text == "Fine."


def test_a_request_that_is_made_again_says_nothing_twice() -> None:
    """Text is not doubled when the connection was lost in the middle of it."""
    events = events_of(response(message("It is fine.")))
    found, announced = heard(Events(events[:3], is_cut=True), Events(events))

    pieces = of(announced, TextDelta)
    assert "".join(each.text for each in pieces) == found.text == "It is fine."
    assert not any(each.is_restart for each in pieces)


def test_an_answer_that_comes_out_otherwise_begins_anew() -> None:
    """After a lost connection the model may answer in other words: the first ones are void."""
    lost = events_of(response(message("It is bad.")))
    found, announced = heard(Events(lost[:3], is_cut=True), streamed(message("All is well.")))

    text = ""
    for each in of(announced, TextDelta):
        text = each.text if each.is_restart else text + each.text
    assert text == found.text == "All is well."
    assert any(each.is_restart for each in of(announced, TextDelta))


KINDS = (
    "output_text.delta",
    "output_text.done",
    "output_item.added",
    "output_item.done",
    "completed",
    "reasoning_summary_text.delta",
    "reasoning_text.done",
    "function_call_arguments.delta",
    "custom_tool_call_input.done",
    "code_interpreter_call_code.delta",
    "shell_call_command.delta",
    "shell_call_output_content.delta",
    "image_generation_call.partial_image",
    "web_search_call.searching",
    "new_call.unheard_of",
)
ITEM_TYPES = (
    "message",
    "reasoning",
    "function_call",
    "shell_call",
    "shell_call_output",
    "code_interpreter_call",
    "web_search_call",
    "apply_patch_call",
    "tool_search_call",
)
FIELDS = (
    "item_id",
    "output_index",
    "content_index",
    "summary_index",
    "sequence_number",
    "delta",
    "text",
    "code",
    "command_index",
    "partial_image_b64",
    "partial_image_index",
    "arguments",
)
SILENT: Any = create_autospec(StreamAnnouncer, instance=True)
ITEM_FIELDS = ("id", "call_id", "action", "content", "summary", "outputs", "output", "arguments")


@st.composite
def any_event(draw: st.DrawFn) -> Json:
    """An event of a known kind, with fields of any value."""
    item: Any = draw(JSON_VALUES)
    if draw(st.booleans()):
        fields: Json = draw(st.dictionaries(st.sampled_from(ITEM_FIELDS), JSON_VALUES))
        item = {**fields, "type": draw(st.sampled_from(ITEM_TYPES))}
    facts: Json = draw(st.dictionaries(st.sampled_from(FIELDS), JSON_VALUES))
    kind = f"response.{draw(st.sampled_from(KINDS))}"
    return {**facts, "type": kind, "item": item, "response": {"output": [item]}}


@settings(max_examples=60)
@given(events=st.lists(any_event(), max_size=6))
def test_no_event_breaks_an_evaluation(events: list[Json]) -> None:
    """Whatever a server sends in an event, showing it raises nothing and changes nothing of it: the
    answer is read from the same events.
    """
    watcher, before = StreamWatcher(SILENT), json.dumps(events)

    async def watch() -> None:
        for event in events:
            await watcher.add(event)

    asyncio.run(watch())
    assert json.dumps(events) == before

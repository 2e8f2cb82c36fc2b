"""What servers are reached with is in no record, event, error or log, whoever repeats it."""

from __future__ import annotations

import json
import logging
import traceback
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.adapters.openai.loopback_adapter import KEY, add, ask, bench
from tests.adapters.openai.response_samples import read_items
from tests.adapters.openai.scripted_provider import (
    Body,
    Events,
    Json,
    call,
    events_of,
    message,
    response,
)
from toolcrib import Approve, HostedTool, PromptEvaluationError, Session, ToolInvoked
from toolcrib.adapters.codec import Contribution
from toolcrib.adapters.credentials import Credentials, Pieces
from toolcrib.adapters.history import Conversation, ReplyItems
from toolcrib.adapters.openai.adapter import default_codecs
from toolcrib.adapters.openai.model_client import ResponsesReply
from toolcrib.adapters.options import Usage
from toolcrib.adapters.tool_declarations import HostedDeclaration, declare
from toolcrib.ledger.prompt_events import TextDelta
from toolcrib.testing import Recorder
from toolcrib.tools.code_interpreter import code_interpreter_tool
from toolcrib.tools.mcp import McpConfig, mcp_tool

TOKEN = "tok-0123456789"
HEADER = "hdr-0123456789"
QUERY = "qry-0123456789"
ALL = f"{TOKEN} {HEADER} {QUERY}"


def server(**options: Any) -> HostedTool[McpConfig]:
    fields: dict[str, Any] = {
        "server_label": "docs",
        "server_url": f"https://docs.example.org/mcp?key={QUERY}",
        "authorization": TOKEN,
        "headers": {"X-Key": f"Bearer {HEADER}"},
        "require_approval": "never",
    }
    return mcp_tool(McpConfig(**{**fields, **options}))


def named(item_type: str, item_id: str, **fields: Any) -> Json:
    return {"type": item_type, "id": item_id, "status": "completed", **fields}


LISTED = named(
    "mcp_list_tools",
    "mcpl_1",
    server_label="docs",
    tools=[{"name": "search", "description": ALL, "input_schema": {"default": TOKEN}}],
    error=f"401 with {ALL}",
)
CALLED = named(
    "mcp_call",
    "mcp_1",
    server_label="docs",
    name="search",
    arguments=json.dumps({"sent": ALL}),
    output=f"You sent {ALL}.",
)
FAILED = {**CALLED, "id": "mcp_2", "output": None, "error": {"type": "http_error", "message": ALL}}
RAN = named(
    "code_interpreter_call",
    "ci_1",
    container_id="cntr_1",
    code=f"get({TOKEN!r})",
    outputs=[{"type": "logs", "logs": ALL}],
)
STREAMED = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


def leaks(*texts: object) -> list[str]:
    """The secrets that are in what was written, whatever was written."""
    written = "\n".join(map(repr, texts))
    return [secret for secret in (TOKEN, HEADER, QUERY, KEY) if secret in written]


@STREAMED
def test_repeated_credentials_are_in_no_record_event_or_log(
    stream: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """A provider, a server and a model that repeat all they know bring nothing into the ledger, to
    a subscriber or into a log.
    """
    caplog.set_level(logging.DEBUG)
    session = Session()
    recorder = Recorder(session.bus)
    echoed = [{"type": "mcp", "server_label": "docs", "authorization": TOKEN}]
    items = [LISTED, CALLED, FAILED, RAN, message(f"I was told {ALL}.")]
    with bench(response(*items, tools=echoed)) as (adapter, provider):
        found = adapter.evaluate(
            ask(hosted=[server(), code_interpreter_tool()]), session=session, stream=stream
        )

    assert provider.bodies[0]["tools"][0]["authorization"] == TOKEN
    assert found.text == f"I was told {ALL}."
    assert leaks(*(record.payload for record in session.records())) == []
    assert leaks(*recorder.events) == []
    assert leaks(caplog.text, *session.transcript()) == []
    if stream:
        shown = "".join(event.text for event in recorder.of(TextDelta))
        assert shown == "I was told [secret] [secret] [secret]."


def test_what_holds_no_credential_stays_as_it_is() -> None:
    """N2: subscribers get typed values; hiding costs only those that need it."""
    session = Session()
    recorder = Recorder(session.bus)
    plain = {**RAN, "code": "1", "outputs": [{"type": "logs", "logs": "1"}]}
    with bench(response(plain, message("Fine."))) as (adapter, _):
        found = adapter.evaluate(ask(hosted=[server(), code_interpreter_tool()]), session=session)

    ((_, ran),) = found.invocations
    (event,) = recorder.of(ToolInvoked)
    assert (event.value, event.params) == (ran.value, ran.params)


def told(*replies: Any, **options: Any) -> PromptEvaluationError:
    """The error of a prompt whose provider gives these replies."""
    with bench(*replies) as (adapter, _), pytest.raises(PromptEvaluationError) as caught:
        adapter.evaluate(ask(hosted=[server()]), **options)
    return caught.value


REFUSED = Body({"error": {"message": f"424 from the server, sent {ALL} by {KEY}"}}, 400)
BROKEN = response(status="failed", error={"code": "server_error", "message": ALL})
CUT_OFF = Events([*events_of(response())[:1], {"type": "error", "message": ALL, "code": "bad"}])
DECLINED = response(
    {"type": "message", "content": [{"type": "refusal", "refusal": f"I will not use {ALL}"}]}
)


@pytest.mark.parametrize(
    ("reply", "stream"),
    [(REFUSED, False), (REFUSED, True), (BROKEN, False), (CUT_OFF, True), (DECLINED, False)],
    ids=["refused", "refused stream", "failed", "broken off", "declined"],
)
def test_repeated_credentials_are_in_no_error(
    reply: Any, stream: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """What a log would show of an error has no credential in it, nor have the errors behind it."""
    caplog.set_level(logging.DEBUG)

    error = told(reply, stream=stream)

    assert "[secret] [secret] [secret]" in str(error)
    assert leaks(str(error), traceback.format_exception(error), caplog.text) == []
    assert error.phase in ("request", "response")


def test_an_error_that_repeats_nothing_keeps_its_cause() -> None:
    """Whoever looks for the reason finds it."""
    error = told(Body({"error": {"message": "no such model"}}, 400))

    assert error.__cause__ is not None
    assert "no such model" in str(error.__cause__)


def test_a_codec_that_fails_with_a_credential_tells_it_to_nobody() -> None:
    """H42: also a codec of the user's own may quote the options that it chokes on."""

    class Broken:
        kind = "mcp"

        def serialize(self, tool: HostedTool[McpConfig]) -> dict[str, Any]:
            raise LookupError(f"no idea what {tool.config.authorization} is")

        def parse_output(self, response_items: Sequence[Any], tool: HostedTool[McpConfig]) -> None:
            return None

    with (
        bench(hosted_tool_codecs={"mcp": Broken()}) as (adapter, _),
        pytest.raises(PromptEvaluationError, match=r"no idea what \[secret\] is") as caught,
    ):
        adapter.evaluate(ask(hosted=[server()]))

    assert leaks(traceback.format_exception(caught.value)) == []


async def test_a_question_shows_no_credential_and_can_be_answered() -> None:
    """The person who is asked, and the ledger, see that something secret is sent, not what."""
    session = Session()
    asked = {
        "type": "mcp_approval_request",
        "id": "mcpr_1",
        "server_label": "docs",
        "name": "search",
        "arguments": json.dumps({"q": TOKEN}),
    }
    prompt = ask(hosted=[server(require_approval="always")])
    with bench(response(asked), response(message("Fine."))) as (adapter, provider):
        waiting = await adapter.evaluate_async(prompt, session=session)
        await session.approvals.decide("mcpr_1", Approve(), by="jo")
        await adapter.resume_async(prompt, session=session)

    (request,) = waiting.pending
    assert request.arguments["arguments"] == {"q": "[secret]"}
    assert provider.bodies[1]["input"] == [
        {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True}
    ]
    assert leaks(*(record.payload for record in session.records())) == []


def test_the_provider_gets_its_items_back_as_they_came() -> None:
    """E2: what is hidden in records is not changed in the conversation."""
    step = response(CALLED, call("add", {"a": 1, "b": 2}))
    with bench(step, response(message("3")), history="client") as (adapter, provider):
        adapter.evaluate(ask(add, hosted=[server()]))

    assert CALLED in provider.bodies[1]["input"]


def test_no_fact_about_a_request_shows_a_credential() -> None:
    """A fact that is logged or shown in a debugger says what it is about, not with what."""
    hosted = HostedDeclaration(server(), default_codecs()["mcp"])
    declared = declare([], [], [hosted], prompt_name="p")
    reply = ReplyItems(read_items([CALLED]), Usage())
    conversation = Conversation("client")
    conversation.add_reply(reply)

    assert declared.entries[0]["authorization"] == TOKEN
    held = Contribution((), body={"token": TOKEN})
    shown = [
        declared,
        hosted,
        hosted.contribute(),
        held,
        ResponsesReply({"echo": ALL}, None),
        reply,
        *reply.items,
        conversation,
    ]
    assert leaks(*shown) == []


WORDS = ("abba", "abbabb", "bab-tail")


@given(st.text("ab-tail", max_size=40), st.lists(st.integers(1, 7), min_size=1, max_size=9))
@example("xabbabb", [1])
@example("abbab-tail", [3])
def test_no_piece_of_a_text_shows_a_part_of_a_credential(text: str, sizes: list[int]) -> None:
    """However a text is cut into pieces, it is shown as it would be shown whole."""
    credentials = Credentials(WORDS)
    pieces = Pieces(credentials)
    shown, start = "", 0
    while start < len(text):
        size = sizes[start % len(sizes)]
        shown += pieces.add(text[start : start + size])
        start += size
    shown += pieces.rest()

    assert shown == credentials.hide(text)


def test_pieces_that_begin_no_credential_are_shown_at_once() -> None:
    """Nobody waits for a text longer than is needed."""
    pieces = Pieces(Credentials(WORDS))

    assert [pieces.add(piece) for piece in ("on", "ce ab", "out")] == ["on", "ce ", "about"]
    assert [Pieces(Credentials(())).add("ab")] == ["ab"]

"""Messages without server tools, as Anthropic's SDK asks for them."""

from __future__ import annotations

import base64
from typing import Any

import anthropic
import pytest

from tests.embedded.messages.anthropic_provider import ADD, ask, calls, events, only, provided, wire
from tests.embedded.search.test_documents import pdf
from toolcrib.embedded import (
    BackendCall,
    BackendCallResult,
    BackendFailed,
    BackendMessage,
    BackendReasoning,
    BackendRequest,
    BackendText,
    BackendUsage,
    EmbeddedProvider,
    ProposedCall,
    Truncation,
)

PICTURE = base64.b64encode(b"\x89PNG not really").decode()


async def test_a_plain_answer() -> None:
    """Text becomes one block; the backend's usage is the message's."""
    script = [BackendText("Hello"), BackendText(" there."), BackendUsage(12, 3)]
    async with provided(lambda _: script) as (client, puppet, _):
        message = await ask(client, "Hi.", system=[{"type": "text", "text": "Be kind."}])
    assert [(block.type, block.text) for block in message.content] == [("text", "Hello there.")]
    assert (message.stop_reason, message.stop_sequence) == ("end_turn", None)
    assert (message.usage.input_tokens, message.usage.output_tokens) == (12, 3)
    assert message.id.startswith("msg_")
    assert message.model == "puppet"
    [request] = puppet.requests
    assert request.instructions == "Be kind."
    assert list(request.history) == [BackendMessage("user", "Hi.")]
    assert request.max_output_tokens == 1000


async def test_a_stream_has_every_event_in_order() -> None:
    """The sequence of events is that of Anthropic's API."""
    script = [BackendReasoning("Hm."), BackendText("Hello"), ProposedCall("add", '{"a": 1}')]
    thinking = {"type": "enabled", "budget_tokens": 1024}
    async with provided(lambda _: script) as (client, _, _):
        seen = await events(client, tools=[ADD], thinking=thinking)
        stream: Any = client.messages.stream
        asked: Any = {"role": "user", "content": "Go."}
        async with stream(
            model="puppet", max_tokens=9, messages=[asked], tools=[ADD], thinking=thinking
        ) as open_stream:
            whole = await open_stream.get_final_message()
        plain = await ask(client, tools=[ADD], thinking=thinking)
    assert [event["type"] for event in seen] == [
        "message_start",
        *("content_block_start", "ping", "content_block_delta", "content_block_delta"),
        "content_block_stop",
        *("content_block_start", "content_block_delta", "content_block_stop"),
        *("content_block_start", "content_block_delta", "content_block_delta"),
        *("content_block_stop", "message_delta", "message_stop"),
    ]
    kinds = [event["delta"]["type"] for event in seen if event["type"] == "content_block_delta"]
    assert kinds == [
        *("thinking_delta", "signature_delta", "text_delta"),
        *("input_json_delta", "input_json_delta"),
    ]
    assert seen[-2]["delta"]["stop_reason"] == "tool_use"
    shown = [block.model_dump(exclude={"id"}) for block in plain.content]
    assert [block.model_dump(exclude={"id"}) for block in whole.content] == shown
    assert [block["type"] for block in shown] == ["thinking", "text", "tool_use"]


async def test_reasoning_is_shown_only_when_thinking_is_enabled() -> None:
    """Without `thinking`, a message has no thinking blocks."""
    async with provided(lambda _: [BackendReasoning("Hm."), BackendText("Hi.")]) as (client, _, _):
        message = await ask(client)
    assert [block.type for block in message.content] == ["text"]


async def test_a_client_tool_and_its_result() -> None:
    """A call of a client's tool ends the message; its result goes on with the conversation."""
    async with provided(lambda _: [ProposedCall("add", '{"a": 1}')]) as (client, puppet, _):
        message = await ask(client, tools=[ADD])
        use = only(message, "tool_use")
        assert (message.stop_reason, use.name, use.input) == ("tool_use", "add", {"a": 1})
        puppet.script = calls(then="Two.")
        result: Any = {
            "type": "tool_result",
            "tool_use_id": use.id,
            "is_error": True,
            "content": [{"type": "text", "text": "2"}],
        }
        turns = [
            {"role": "user", "content": "Go."},
            {"role": "assistant", "content": message.content},
            {"role": "user", "content": [result, {"type": "text", "text": "And?"}]},
        ]
        assert (await ask(client, messages=turns, tools=[ADD])).content[0].text == "Two."
    history = puppet.requests[-1].history
    assert list(history) == [
        BackendMessage("user", "Go."),
        BackendCall(use.id, "add", '{"a": 1}'),
        BackendCallResult(use.id, "add", "Error: 2", 2),
        BackendMessage("user", "And?"),
    ]


@pytest.mark.parametrize(
    ("choice", "mode", "names"),
    [
        ({"type": "auto"}, "auto", ["add", "other"]),
        ({"type": "any"}, "required", ["add", "other"]),
        ({"type": "tool", "name": "other"}, "required", ["other"]),
        ({"type": "none"}, "none", ["add", "other"]),
    ],
)
async def test_the_tool_choice(choice: Any, mode: str, names: list[str]) -> None:
    """A choice reaches the backend as its mode and the tools that it may call."""
    tools = [ADD, {**ADD, "name": "other"}]
    choice = {**choice, "disable_parallel_tool_use": True} if mode != "none" else choice
    async with provided(lambda _: [BackendText("Hi.")]) as (client, puppet, _):
        await ask(client, tools=tools, tool_choice=choice)
    [request] = puppet.requests
    assert request.tool_choice == mode
    assert [tool.name for tool in request.tools] == names
    assert request.is_parallel == (mode == "none")


@pytest.mark.parametrize("cuts", [1, 2, 3, 7])
async def test_a_stop_sequence_ends_the_answer(cuts: int) -> None:
    """The answer ends before the sequence, however the backend cuts its text."""
    text = "one END two"
    script = [BackendText(text[at : at + cuts]) for at in range(0, len(text), cuts)]
    async with provided(lambda _: [*script, ProposedCall("add", "{}")]) as (client, _, _):
        message = await ask(client, stop_sequences=["XX", "END"], tools=[ADD])
        other = await ask(client, stop_sequences=["two!"], tools=[ADD])
    assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", "END")
    assert [block.text for block in message.content] == ["one "]
    assert other.content[0].text == text
    assert other.stop_reason == "tool_use"


@pytest.mark.parametrize(
    ("reason", "stop"), [("max_output_tokens", "max_tokens"), ("content_filter", "refusal")]
)
async def test_an_answer_that_ends_early(reason: Any, stop: str) -> None:
    """What cut an answer is its stop reason."""
    async with provided(lambda _: [BackendText("Hel"), Truncation(reason)]) as (client, _, _):
        message = await ask(client)
    assert (message.stop_reason, message.content[0].text) == (stop, "Hel")


async def test_images_and_documents_reach_the_backend() -> None:
    """Images go to the backend as they are, documents as their text; files by their id too."""
    image = {"type": "base64", "media_type": "image/png", "data": PICTURE}
    written = base64.b64encode(pdf("A page about owls")).decode()
    async with provided(lambda _: [BackendText("Hi.")]) as (client, puppet, _):
        upload = await client.files.upload(file=("notes.txt", b"Bees are busy."))
        blocks: Any = [
            {"type": "image", "source": image},
            {
                "type": "document",
                "title": "Owls",
                "source": {"type": "base64", "media_type": "application/pdf", "data": written},
            },
            {"type": "document", "source": {"type": "file", "file_id": upload.id}},
            {"type": "document", "source": {"type": "text", "data": "Plain."}},
            {"type": "text", "text": "What is this?"},
        ]
        await ask(client, messages=[{"role": "user", "content": blocks}])
    [message] = puppet.requests[-1].history
    assert isinstance(message, BackendMessage)
    assert message.images == (f"data:image/png;base64,{PICTURE}",)
    for part in ("Document 'Owls':\nA page about owls", "Bees are busy.", "Plain.", "What is"):
        assert part in message.text


async def test_a_document_is_cited_where_the_answer_marks_it() -> None:
    """The sentence before a mark becomes a block whose citation points into the document."""
    text = "Bees are busy. Owls sleep by day. Cats do not care."
    document: Any = {
        "type": "document",
        "title": "Animals",
        "source": {"type": "text", "media_type": "text/plain", "data": text},
        "citations": {"enabled": True},
    }
    script = [
        BackendText("Well. An owl sleeps by day "),
        BackendText("[S1]. Good "),
        BackendText("night."),
    ]
    async with provided(lambda _: script) as (client, _, _):
        content = [document, {"type": "text", "text": "Owls?"}]
        message = await ask(client, messages=[{"role": "user", "content": content}])
    assert [block.text for block in message.content] == [
        *("Well. ", "An owl sleeps by day", ". Good night.")
    ]
    [citation] = message.content[1].citations
    assert (citation.type, citation.document_title) == ("char_location", "Animals")
    assert citation.cited_text == "Owls sleep by day."
    assert text[citation.start_char_index : citation.end_char_index] == citation.cited_text


async def test_a_schema_gives_json() -> None:
    """`output_config` reaches the backend, and the text stays one block."""
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    async with provided(lambda _: [BackendText('{"n": '), BackendText("1}")]) as (
        client,
        puppet,
        _,
    ):
        config = {"format": {"type": "json_schema", "schema": schema}, "effort": "low"}
        message = await ask(client, output_config=config)
    assert puppet.requests[0].output.schema == schema
    assert [block.text for block in message.content] == ['{"n": 1}']


async def test_tokens_are_counted() -> None:
    """A request that is counted needs no `max_tokens`; more text is more tokens."""
    async with provided(lambda _: []) as (client, _, _):
        count = client.messages.count_tokens
        short = await count(model="puppet", messages=[{"role": "user", "content": "Hi."}])
        longer = await count(
            model="puppet", messages=[{"role": "user", "content": "Hi. " * 50}], system="Be kind."
        )
    assert 0 < short.input_tokens < longer.input_tokens


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "user", "content": [{"type": "tape"}]}]}, "messages.0.content.0"),
        ({"messages": [{"role": "robot", "content": ""}]}, "role"),
        (
            {
                "messages": [
                    {
                        "role": "assistant",
                        "content": [{"type": "tool_use", "id": "t", "name": "a"}],
                    },
                    {"role": "user", "content": "Hm."},
                ]
            },
            "without `tool_result`",
        ),
        (
            {
                "messages": [
                    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t"}]}
                ]
            },
            "unexpected `tool_use_id`",
        ),
        ({"tools": [{"name": "a"}]}, "tools.0.input_schema"),
        ({"tools": [ADD, ADD]}, "unique"),
        ({"tools": [{"type": "computer_20250124", "name": "computer"}]}, "computer_20250124"),
        ({"tool_choice": {"type": "tool", "name": "x"}}, "tool_choice"),
        ({"stop_sequences": [" "]}, "stop_sequences"),
        ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "no web source"),
        ({"container": "cntr_unknown"}, "cntr_unknown"),
    ],
)
async def test_a_wrong_request_is_refused_with_its_place(changes: Any, named: str) -> None:
    """The error has Anthropic's form and names what is wrong; the backend is not asked."""
    async with provided(lambda _: [BackendText("Hi.")]) as (client, puppet, _):
        with pytest.raises(anthropic.APIStatusError) as caught:
            await ask(client, **changes)
    assert puppet.requests == []
    body: Any = caught.value.body
    is_missing = caught.value.status_code == 404
    kind = "not_found_error" if is_missing else "invalid_request_error"
    assert (body["type"], body["error"]["type"]) == ("error", kind)
    assert named in body["error"]["message"]
    assert body["request_id"] == caught.value.request_id


async def test_a_backend_that_fails() -> None:
    """A failure is an error: as the answer, or as the last event of a stream."""

    def script(request: BackendRequest) -> Any:
        yield BackendText("Hel")
        raise BackendFailed("the model is out of order")

    async with provided(script) as (client, _, _):
        with pytest.raises(anthropic.InternalServerError, match="out of order"):
            await ask(client)
        seen = await events(client)
    assert [event["type"] for event in seen][-2:] == ["content_block_stop", "error"]
    assert seen[-1]["error"] == {"type": "api_error", "message": "the model is out of order"}


async def test_unknown_parameters_are_accepted_and_named() -> None:
    """What has no effect is named in a header of the response."""
    async with provided(lambda _: [BackendText("Hi.")]) as (client, _, _):
        create: Any = client.messages.with_raw_response.create
        options: Any = {"extra_body": {"top_k": 3, "moonlight": True}}
        asked = [{"role": "user", "content": "Go."}]
        raw = await create(model="puppet", max_tokens=9, messages=asked, **options)
        plain = await create(model="puppet", max_tokens=9, messages=asked)
    assert raw.headers["toolcrib-warning"] == "ignored parameters: moonlight, top_k"
    assert "toolcrib-warning" not in plain.headers


async def test_models_are_listed_in_both_forms() -> None:
    """The header `anthropic-version` chooses the form of a shared path."""
    async with provided(lambda _: []) as (client, _, provider):
        [model] = [each async for each in client.models.list()]
        assert (model.id, model.type) == ("puppet", "model")
        assert (await client.models.retrieve("puppet")).display_name == "puppet"
        with pytest.raises(anthropic.NotFoundError):
            await client.models.retrieve("other")
        [other] = [each async for each in provider.client().models.list()]
        assert other.owned_by == "toolcrib"


def test_the_blocking_client() -> None:
    """Blocking code uses a provider that runs on another thread."""
    from tests.embedded.scripted_provider import Puppet

    with EmbeddedProvider(Puppet(lambda _: [BackendText("Hi.")])) as provider:
        client = provider.sync_anthropic_client()
        asked: Any = [{"role": "user", "content": "Go."}]
        message = client.messages.create(model="puppet", max_tokens=9, messages=asked)
        with client.messages.stream(model="puppet", max_tokens=9, messages=asked) as stream:
            assert "".join(stream.text_stream) == message.content[0].text == "Hi."


async def test_a_message_stands_on_the_wire_as_anthropic_writes_it() -> None:
    """The fields of a message are there also when they are empty."""
    async with provided(lambda _: [BackendText("Hi.")]) as (client, _, _):
        message = await wire(client)
    assert message["type"] == "message"
    assert message["role"] == "assistant"
    assert message["content"] == [{"type": "text", "text": "Hi."}]
    assert message["stop_sequence"] is None
    assert message["container"] is None
    assert message["usage"]["input_tokens"] > 0

"""Chat completions, asked for with the official client."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import Any

import pytest
from httpx2 import AsyncClient
from openai import APIError, AsyncOpenAI, BadRequestError, InternalServerError, NotFoundError
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from pydantic import BaseModel

from tests.embedded.provider_server import SECRET, listening
from tests.embedded.scripted_provider import Puppet, served
from toolcrib.embedded import (
    BackendCall,
    BackendCallResult,
    BackendFailed,
    BackendMessage,
    BackendOutput,
    BackendReasoning,
    BackendRequest,
    BackendText,
    BackendUsage,
    EmbeddedProvider,
    ProposedCall,
    TokenLogprob,
    Truncation,
)
from toolcrib.embedded.web.folder import WebFolder

pytestmark = pytest.mark.wire

Json = dict[str, Any]
WEATHER: Json = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather of a place.",
        "parameters": {"type": "object", "properties": {"place": {"type": "string"}}},
        "strict": True,
    },
}
PATCH: Json = {"type": "custom", "custom": {"name": "patch", "description": "Patch it."}}
PIXEL = "data:image/png;base64,iVBORw0KGgo="


def says(*texts: str) -> Any:
    def script(request: BackendRequest) -> Sequence[BackendOutput]:
        return [*map(BackendText, texts), BackendUsage(7, 3)]

    return script


def calls(*proposed: ProposedCall) -> Any:
    def script(request: BackendRequest) -> Sequence[BackendOutput]:
        return [BackendReasoning("hm"), *proposed, BackendUsage(7, 3)]

    return script


def ask(text: str = "hi") -> list[Any]:
    return [{"role": "user", "content": text}]


async def complete(client: AsyncOpenAI, **options: Any) -> ChatCompletion:
    create: Any = client.chat.completions.create
    return await create(**{"model": "puppet", "messages": ask(), **options})


async def chunks(client: AsyncOpenAI, **options: Any) -> list[ChatCompletionChunk]:
    create: Any = client.chat.completions.create
    stream = await create(**{"model": "puppet", "messages": ask(), "stream": True, **options})
    return [chunk async for chunk in stream]


async def test_a_completion_has_the_text_the_reason_and_the_usage() -> None:
    async with served(says("Hello ", "there.")) as (client, _):
        completion = await complete(
            client,
        )

    assert completion.object == "chat.completion"
    assert completion.id.startswith("chatcmpl-")
    [choice] = completion.choices
    assert (choice.message.content, choice.finish_reason) == ("Hello there.", "stop")
    assert completion.usage is not None
    assert (completion.usage.prompt_tokens, completion.usage.total_tokens) == (7, 10)


async def test_the_backend_gets_every_role_with_its_content() -> None:
    messages: list[Any] = [
        {"role": "system", "content": "Be short."},
        {"role": "developer", "content": [{"type": "text", "text": "Be kind."}]},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Look."},
                {"type": "image_url", "image_url": {"url": PIXEL, "detail": "low"}},
            ],
        },
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "call_weather_1",
                    "type": "function",
                    "function": {"name": "weather", "arguments": '{"place": "Bonn"}'},
                },
                {"id": "call_patch_1", "type": "custom", "custom": {"name": "patch", "input": "x"}},
            ],
        },
        {"role": "tool", "tool_call_id": "call_weather_1", "content": "rain"},
        {
            "role": "tool",
            "tool_call_id": "call_patch_1",
            "content": [{"type": "text", "text": "done"}],
        },
        {"role": "assistant", "content": "It rains.", "refusal": None, "annotations": []},
        {"role": "user", "content": "Thanks."},
    ]
    async with served(says("ok")) as (client, puppet):
        await complete(client, messages=messages, tools=[WEATHER, PATCH])

    assert list(puppet.requests[0].history) == [
        BackendMessage("system", "Be short."),
        BackendMessage("developer", "Be kind."),
        BackendMessage("user", "Look.", (PIXEL,)),
        BackendCall("call_weather_1", "weather", '{"place": "Bonn"}'),
        BackendCall("call_patch_1", "patch", '{"input": "x"}'),
        BackendCallResult("call_weather_1", "weather", "rain"),
        BackendCallResult("call_patch_1", "patch", "done"),
        BackendMessage("assistant", "It rains."),
        BackendMessage("user", "Thanks."),
    ]


async def test_a_stream_has_the_same_content_as_a_whole_completion() -> None:
    """The stream helper of the SDK reads the calls of functions only."""
    async with served(calls(ProposedCall("weather", '{"place": "Bonn"}'))) as (client, _):
        options: Any = {"model": "puppet", "messages": ask(), "tools": [WEATHER]}
        whole = await complete(client, **options)
        helper: Any = client.chat.completions.stream
        async with helper(**options, stream_options={"include_usage": True}) as stream:
            streamed = await stream.get_final_completion()

    assert whole.choices[0].finish_reason == streamed.choices[0].finish_reason == "tool_calls"
    assert whole.usage == streamed.usage
    for message in (whole.choices[0].message, streamed.choices[0].message):
        [call] = message.tool_calls or []
        assert call.id.startswith("call_")
        assert call.type == "function"
        assert (call.function.name, call.function.arguments) == ("weather", '{"place": "Bonn"}')
        assert not message.content
    assert whole.choices[0].message.to_dict()["reasoning_content"] == "hm"


async def test_several_calls_are_told_apart_in_a_stream() -> None:
    script = calls(ProposedCall("weather", "{}"), ProposedCall("patch", "*** Begin"))
    async with served(script) as (client, _):
        options: Any = {"model": "puppet", "messages": ask(), "tools": [WEATHER, PATCH]}
        whole = await complete(client, **options)
        streamed = await chunks(client, **options)

    deltas: list[Json] = [
        call.to_dict() for chunk in streamed for call in chunk.choices[0].delta.tool_calls or []
    ]

    _, custom = whole.choices[0].message.tool_calls or []
    assert custom.type == "custom"
    assert (custom.custom.name, custom.custom.input) == ("patch", "*** Begin")
    assert [delta["index"] for delta in deltas] == [0, 0, 1, 1]
    assert [delta.get("type") for delta in deltas] == ["function", None, "custom", None]
    assert deltas[0]["function"] == {"name": "weather", "arguments": ""}
    assert deltas[3]["custom"] == {"input": "*** Begin"}


async def test_the_usage_of_a_stream_comes_only_if_it_is_asked_for() -> None:
    async with served(says("a", "b")) as (client, _):
        plain = await chunks(client)
        counted = await chunks(client, stream_options={"include_usage": True})

    assert [choice.delta.content for chunk in plain for choice in chunk.choices] == [
        "",
        "a",
        "b",
        None,
    ]
    assert [chunk.usage for chunk in plain] == [None] * 4
    assert plain[-1].choices[0].finish_reason == "stop"
    assert counted[-1].choices == []
    assert counted[-1].usage is not None
    assert counted[-1].usage.total_tokens == 10
    assert len({chunk.id for chunk in counted}) == 1


@pytest.mark.parametrize(
    ("choice", "mode", "offered"),
    [
        ("auto", "auto", ["weather", "patch"]),
        ("none", "none", ["weather", "patch"]),
        ("required", "required", ["weather", "patch"]),
        ({"type": "function", "function": {"name": "weather"}}, "required", ["weather"]),
        ({"type": "custom", "custom": {"name": "patch"}}, "required", ["patch"]),
        (
            {
                "type": "allowed_tools",
                "allowed_tools": {
                    "mode": "auto",
                    "tools": [{"type": "function", "function": {"name": "weather"}}],
                },
            },
            "auto",
            ["weather"],
        ),
    ],
)
async def test_the_tool_choice_reaches_the_backend(
    choice: Any, mode: str, offered: list[str]
) -> None:
    async with served(says("ok")) as (client, puppet):
        await complete(
            client,
            tools=[WEATHER, PATCH],
            tool_choice=choice,
            parallel_tool_calls=False,
        )

    [request] = puppet.requests
    assert request.tool_choice == mode
    assert [tool.name for tool in request.tools] == offered
    assert not request.is_parallel


async def test_a_schema_reaches_the_backend_and_the_answer_is_parsed() -> None:
    class Sum(BaseModel):
        total: int

    async with served(says('{"total": 42}')) as (client, puppet):
        parsed = await client.chat.completions.parse(
            model="puppet", messages=ask(), response_format=Sum
        )

    assert parsed.choices[0].message.parsed == Sum(total=42)
    output = puppet.requests[0].output
    assert (output.kind, output.name) == ("json_schema", "Sum")
    assert output.schema is not None
    assert output.schema["properties"]["total"]["type"] == "integer"


async def test_options_reach_the_backend() -> None:
    async with served(says("ok")) as (client, puppet):
        await complete(
            client,
            max_tokens=5,
            temperature=0.5,
            top_p=0.5,
            seed=11,
            presence_penalty=1,
            frequency_penalty=-1,
            stop="END",
        )

    [request] = puppet.requests
    assert (request.max_output_tokens, request.temperature, request.top_p) == (5, 0.5, 0.5)
    sampling = request.sampling
    assert (sampling.stop, sampling.seed) == (("END",), 11)
    assert (sampling.presence_penalty, sampling.frequency_penalty) == (1, -1)


async def test_the_text_ends_before_a_stop_text_in_whatever_pieces_it_comes() -> None:
    async with served(says("one EN", "D", " two")) as (client, _):
        cut = await complete(client, stop=["STOP", "END"])
        whole = await complete(client, stop=["ENDED"])

    assert cut.choices[0].message.content == "one "
    assert cut.choices[0].finish_reason == "stop"
    assert whole.choices[0].message.content == "one END two"


async def test_a_cut_answer_says_so() -> None:
    async with served(lambda _: [BackendText("a"), Truncation("max_output_tokens")]) as (client, _):
        completion = await complete(
            client,
        )

    assert completion.choices[0].finish_reason == "length"


def broken(request: BackendRequest) -> Sequence[BackendOutput]:
    raise BackendFailed("the model is ill")


async def test_a_failing_backend_is_an_error_whole_and_streamed() -> None:
    async with served(broken) as (client, _):
        with pytest.raises(InternalServerError, match="the model is ill"):
            await complete(
                client,
            )
        with pytest.raises(APIError, match="the model is ill"):
            await chunks(client)


INVALID: list[tuple[Json, str]] = [
    ({"n": 2}, "n"),
    ({"messages": []}, "messages"),
    ({"messages": [{"role": "wizard", "content": "x"}]}, "messages.0"),
    ({"messages": [{"role": "tool", "tool_call_id": "c", "content": "x"}]}, "messages[0].tool"),
    ({"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]}, "messages.0"),
    ({"functions": [{"name": "x"}]}, "functions"),
    ({"modalities": ["text", "audio"]}, "modalities"),
    ({"max_tokens": 1, "max_completion_tokens": 1}, "max_tokens"),
    ({"tools": [{"type": "function", "function": {}}]}, "tools.0.function.function.name"),
    ({"tool_choice": "required"}, "tool_choice"),
    ({"web_search_options": {}}, "tools[0].type"),
    ({"top_logprobs": 3}, "top_logprobs"),
]


@pytest.mark.parametrize(("options", "param"), INVALID)
async def test_an_invalid_request_is_refused_with_its_parameter(options: Json, param: str) -> None:
    async with served(says("never")) as (client, puppet):
        with pytest.raises(BadRequestError) as refused:
            await complete(client, **options)

    assert str(refused.value.param).startswith(param)
    assert puppet.requests == []


async def test_an_unknown_model_is_not_found() -> None:
    async with served(says("never")) as (client, _):
        with pytest.raises(NotFoundError, match="there is puppet"):
            await complete(client, model="other")


async def test_unknown_parameters_are_named_in_a_header_and_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The names come from the client: none of them can end the line of a header or of a log."""
    async with served(says("ok")) as (client, _):
        with caplog.at_level(logging.WARNING):
            raw_completions: Any = client.chat.completions.with_raw_response
            raw = await raw_completions.create(
                model="puppet",
                messages=ask(),
                extra_body={"top_k": 3, "wild\r\nSet-Cookie": 1, "absent": None},
            )

    warning = raw.headers["toolcrib-warning"]
    assert warning == "ignored parameters: top_k, wild??Set-Cookie"
    assert warning in caplog.text


class Thoughtful(Puppet):
    """A backend that knows how likely its tokens are."""

    has_logprobs = True


async def test_the_probabilities_of_tokens_are_shown_if_the_backend_has_them() -> None:
    likely = TokenLogprob("Yes", -0.1, (TokenLogprob("No", -2.5),))

    def script(request: BackendRequest) -> Sequence[BackendOutput]:
        return [BackendText("Yes", () if request.top_logprobs is None else (likely,))]

    backend = Thoughtful(script)
    async with EmbeddedProvider(backend) as provider:
        client: AsyncOpenAI = provider.client()
        whole = await complete(client, logprobs=True, top_logprobs=1)
        streamed = await chunks(client, logprobs=True, top_logprobs=1)
        without = await complete(client)
    async with served(says("ok")) as (client, _):
        with pytest.raises(BadRequestError, match="probabilities"):
            await complete(client, logprobs=True)

    assert backend.requests[0].top_logprobs == 1
    shown = [choice.logprobs for chunk in streamed for choice in chunk.choices if choice.logprobs]
    for logprobs in (whole.choices[0].logprobs, *shown):
        assert logprobs is not None
        [token] = logprobs.content or []
        assert (token.token, token.logprob) == ("Yes", -0.1)
        assert [each.token for each in token.top_logprobs] == ["No"]
    assert len(shown) == 1
    assert without.choices[0].logprobs is None


async def test_a_web_search_is_run_and_its_pages_are_cited(tmp_path: Any) -> None:
    (tmp_path / "hours.html").write_text("<title>Hours</title><p>Open until nine.</p>")

    def searches(request: BackendRequest) -> Sequence[BackendOutput]:
        results = [turn for turn in request.history if isinstance(turn, BackendCallResult)]
        if not results:
            return [
                BackendText("Let me look."),
                ProposedCall("web_search", json.dumps({"query": "open"})),
            ]
        return [BackendText(f"Until nine [{results[0].marks[0]}].")]

    web = [WebFolder(tmp_path, "https://shop.example")]
    async with served(searches, web=web) as (client, _):
        options: Any = {"model": "puppet", "messages": ask(), "web_search_options": {}}
        whole = await complete(client, **options)
        streamed = await chunks(client, **options)

    deltas: list[Json] = [chunk.choices[0].delta.to_dict() for chunk in streamed]

    message = whole.choices[0].message
    [annotation] = message.annotations or []
    cited = annotation.url_citation
    assert cited.url == "https://shop.example/hours.html"
    assert message.content is not None
    assert message.content.startswith("Let me look.\n\nUntil nine")
    assert cited.url in message.content[cited.start_index : cited.end_index]
    assert "".join(delta.get("content") or "" for delta in deltas) == message.content
    [annotated] = [note for delta in deltas for note in delta.get("annotations", [])]
    assert annotated["url_citation"]["start_index"] == cited.start_index


async def test_stored_completions_can_be_listed_read_changed_and_deleted() -> None:
    async with served(says("ok")) as (client, _):
        chat: Any = client.chat.completions
        unstored = await chat.create(model="puppet", messages=ask())
        first = await chat.create(
            model="puppet", messages=ask("one"), store=True, metadata={"step": "1"}
        )
        stream = await chat.create(model="puppet", messages=ask("two"), store=True, stream=True)
        [second_id] = {chunk.id async for chunk in stream}

        assert [each.id async for each in chat.list()] == [first.id, second_id]
        assert [each.id async for each in chat.list(metadata={"step": "1"})] == [first.id]
        assert [each.id async for each in chat.list(model="other")] == []
        [message] = [each async for each in chat.messages.list(first.id)]
        assert (message.role, message.content) == ("user", "one")
        changed = await chat.update(first.id, metadata={"step": "2"})
        assert changed.metadata == {"step": "2"}
        assert (await chat.retrieve(first.id)).metadata == {"step": "2"}
        assert (await chat.delete(first.id)).deleted
        for gone in (first.id, unstored.id):
            with pytest.raises(NotFoundError):
                await chat.retrieve(gone)


async def test_the_stream_on_the_wire_has_data_lines_and_an_end() -> None:
    async with listening(says("ok")) as place, AsyncClient() as http:
        answer = await http.post(
            f"{place.url}/chat/completions",
            json={"model": "puppet", "messages": ask(), "stream": True},
            headers={"authorization": f"Bearer {SECRET}"},
        )

    assert answer.headers["content-type"].startswith("text/event-stream")
    *lines, end = [line for line in answer.text.split("\n\n") if line]
    assert end == "data: [DONE]"
    assert all(line.startswith("data: {") for line in lines)

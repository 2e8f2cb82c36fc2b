"""Responses over the official client: answers, streams, histories, background, and refusals."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from openai import AsyncOpenAI, BadRequestError, NotFoundError
from openai.types.responses import Response

from tests.embedded.scripted_provider import function, served
from toolcrib.embedded import (
    BackendCall,
    BackendCallResult,
    BackendMessage,
    BackendOutput,
    BackendReasoning,
    BackendRequest,
    BackendText,
    BackendUsage,
    EmbeddedProvider,
    ProposedCall,
    Truncation,
)
from toolcrib.errors import BackendFailed


def echo(request: BackendRequest) -> Sequence[BackendOutput]:
    last = request.history[-1]
    assert isinstance(last, BackendMessage | BackendCallResult)
    return [BackendText("you said "), BackendText(last.text), BackendUsage(3, 4)]


async def test_an_answer_is_a_whole_response_of_the_official_types() -> None:
    """The SDK's own type takes the response strictly, and the usage is the backend's."""
    async with served(echo) as (client, _):
        raw = await client.responses.with_raw_response.create(model="puppet", input="hello")
        response = raw.parse()
        Response.model_validate_json(raw.content, strict=False)
    assert response.status == "completed"
    assert response.output_text == "you said hello"
    assert response.usage is not None
    assert response.usage.total_tokens == 7
    assert response.metadata == {}


async def test_instructions_settings_and_roles_reach_the_backend() -> None:
    """A backend is asked with everything that the request says."""
    async with served(echo) as (client, puppet):
        await client.responses.create(
            model="puppet",
            instructions="be brief",
            input=[
                {"role": "developer", "content": "rule"},
                {"role": "user", "content": [{"type": "input_text", "text": "hi"}]},
            ],
            temperature=0.5,
            top_p=0.9,
            max_output_tokens=77,
        )
    [request] = puppet.requests
    assert request.instructions == "be brief"
    assert request.history == [BackendMessage("developer", "rule"), BackendMessage("user", "hi")]
    assert (request.temperature, request.top_p, request.max_output_tokens) == (0.5, 0.9, 77)


async def test_images_reach_the_backend() -> None:
    """An image is part of what the user says."""
    image = "data:image/png;base64,AAAA"
    parts: Any = [
        {"type": "input_text", "text": "what is this"},
        {"type": "input_image", "image_url": image, "detail": "auto"},
    ]
    async with served(echo) as (client, puppet):
        await client.responses.create(model="puppet", input=[{"role": "user", "content": parts}])
    assert puppet.requests[0].history == [BackendMessage("user", "what is this", (image,))]


async def events_of(client: AsyncOpenAI, **asked: Any) -> list[Any]:
    stream = await client.responses.create(model="puppet", stream=True, **asked)
    return [event async for event in stream]


async def test_a_stream_tells_every_step_in_order() -> None:
    """Numbers count up without a gap, and the last event holds the whole response."""
    async with served(lambda q: [BackendReasoning("hm"), BackendText("a"), BackendText("b")]) as (
        client,
        _,
    ):
        events = await events_of(client, input="x")
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert [event.type for event in events] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.reasoning_text.delta",
        "response.reasoning_text.done",
        "response.output_item.done",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert events[-1].response.output_text == "ab"
    assert events[0].response.output == []


async def test_a_stream_is_a_stream() -> None:
    """Pieces arrive while the backend still thinks, in the process too."""
    go_on = asyncio.Event()

    class Slow:
        name, is_scripted = "puppet", False

        async def propose(self, request: BackendRequest) -> AsyncIterator[BackendOutput]:
            yield BackendText("first")
            await go_on.wait()
            yield BackendText("second")

        async def aclose(self) -> None: ...

    async with EmbeddedProvider(Slow()) as provider:
        stream = await provider.client().responses.create(model="puppet", input="x", stream=True)
        deltas: list[str] = []
        async for event in stream:
            if event.type == "response.output_text.delta":
                deltas.append(event.delta)
                go_on.set()
    assert deltas == ["first", "second"]


async def test_a_function_call_goes_to_the_client_and_its_output_comes_back() -> None:
    """The response ends with the call; the next one knows the call and its output."""

    def script(request: BackendRequest) -> Sequence[BackendOutput]:
        last = request.history[-1]
        if isinstance(last, BackendCallResult):
            return [BackendText(f"it is {last.text}, {last.value}")]
        return [BackendText("let me see"), ProposedCall("weather", '{"city": "Rome"}')]

    async with served(script) as (client, puppet):
        tools: Any = [function("weather")]
        first = await client.responses.create(model="puppet", input="?", tools=tools)
        call = first.output[1]
        assert call.type == "function_call"
        assert (call.name, call.arguments) == ("weather", '{"city": "Rome"}')
        output: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "21"}
        second = await client.responses.create(
            model="puppet", previous_response_id=first.id, input=[output], tools=tools
        )
    assert second.output_text == "it is 21, 21"
    assert puppet.requests[1].history == [
        BackendMessage("user", "?"),
        BackendMessage("assistant", "let me see"),
        BackendCall(call.call_id, "weather", '{"city": "Rome"}'),
        BackendCallResult(call.call_id, "weather", "21", 21),
    ]


async def test_a_conversation_may_be_sent_again_instead_of_kept() -> None:
    """With `store=False` nothing is kept, and the client sends all items itself."""
    async with served(echo) as (client, puppet):
        first = await client.responses.create(model="puppet", input="a", store=False)
        with pytest.raises(NotFoundError):
            await client.responses.retrieve(first.id)
        said: Any = [{"role": "user", "content": "a"}, first.output[0].model_dump()]
        await client.responses.create(
            model="puppet", input=[*said, {"role": "user", "content": "b"}], store=False
        )
    assert puppet.requests[1].history == [
        BackendMessage("user", "a"),
        BackendMessage("assistant", "you said a"),
        BackendMessage("user", "b"),
    ]


async def test_a_kept_response_can_be_had_again_and_deleted() -> None:
    """Retrieve, input items and delete speak of what was kept."""
    async with served(echo) as (client, _):
        first = await client.responses.create(model="puppet", input="a")
        second = await client.responses.create(
            model="puppet", input="b", previous_response_id=first.id
        )
        again = await client.responses.retrieve(second.id)
        assert again.output_text == second.output_text
        items: Any = (await client.responses.input_items.list(second.id, order="asc")).data
        assert [item.role for item in items] == ["user", "assistant", "user"]
        await client.responses.delete(second.id)
        with pytest.raises(NotFoundError, match="not found"):
            await client.responses.retrieve(second.id)


async def test_a_background_response_is_asked_for_until_it_is_done() -> None:
    """It is answered at once, can be retrieved, and its events can be had again after a number."""
    async with served(echo) as (client, _):
        begun = await client.responses.create(model="puppet", input="a", background=True)
        assert begun.status in ("queued", "in_progress")
        whole = await client.responses.retrieve(begun.id, stream=True)
        assert [event.type async for event in whole][-1] == "response.completed"
        found = await client.responses.retrieve(begun.id)
        assert (found.status, found.output_text) == ("completed", "you said a")
        stream = await client.responses.retrieve(begun.id, stream=True, starting_after=3)
        events = [event async for event in stream]
    assert events[0].sequence_number == 4
    assert events[-1].type == "response.completed"


async def test_a_background_response_can_be_cancelled() -> None:
    """Cancelling stops the backend; a response that is not in the background is refused."""

    class Endless:
        name, is_scripted = "puppet", False

        async def propose(self, request: BackendRequest) -> AsyncIterator[BackendOutput]:
            yield BackendText("a")
            await asyncio.Event().wait()

        async def aclose(self) -> None: ...

    async with EmbeddedProvider(Endless()) as provider:
        client = provider.client()
        begun = await client.responses.create(model="puppet", input="a", background=True)
        cancelled = await client.responses.cancel(begun.id)
        assert cancelled.status == "cancelled"
        assert (await client.responses.retrieve(begun.id)).status == "cancelled"


async def test_a_response_that_is_not_in_the_background_cannot_be_cancelled() -> None:
    """It is over when the client has it."""
    async with served(echo) as (client, _):
        done = await client.responses.create(model="puppet", input="a")
        with pytest.raises(BadRequestError, match="background"):
            await client.responses.cancel(done.id)


async def test_a_backend_that_fails_makes_a_response_that_says_so() -> None:
    """The message is the backend's, and the status is failed."""

    def fails(request: BackendRequest) -> Sequence[BackendOutput]:
        raise BackendFailed("the model is away")

    async with served(fails) as (client, _):
        response = await client.responses.create(model="puppet", input="a")
    assert response.status == "failed"
    assert response.error is not None
    assert response.error.message == "the model is away"


async def test_what_goes_wrong_inside_is_not_shown() -> None:
    """A fault of the program is logged, and the client learns only that there was one."""

    def breaks(request: BackendRequest) -> Sequence[BackendOutput]:
        raise RuntimeError("secret path")

    async with served(breaks) as (client, _):
        response = await client.responses.create(model="puppet", input="a")
    assert response.error is not None
    assert "secret" not in response.error.message


async def test_an_answer_that_is_cut_is_incomplete() -> None:
    """The reason is told, and the text that there is."""
    async with served(lambda q: [BackendText("half"), Truncation("max_output_tokens")]) as (
        client,
        _,
    ):
        response = await client.responses.create(model="puppet", input="a")
    assert response.status == "incomplete"
    assert response.incomplete_details is not None
    assert response.incomplete_details.reason == "max_output_tokens"
    assert response.output_text == "half"


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"input": []}, "previous_response_id"),
        ({"input": [{"type": "nonsense"}]}, "Unknown type of item: 'nonsense'"),
        ({"input": [{"role": "nobody", "content": "x"}]}, "Unknown role"),
        ({"input": [{"role": "user", "content": [{"type": "video"}]}]}, "Unknown type of part"),
        ({"input": "x", "temperature": 7}, "temperature"),
        ({"input": "x", "tool_choice": "required"}, "no tools"),
        ({"input": "x", "tools": [{"type": "computer"}]}, "no tool of type .computer."),
        ({"input": "x", "tools": [function("a"), function("a")]}, "Two tools"),
        ({"input": "x", "text": {"format": {"type": "json_schema", "name": "a"}}}, "schema"),
        ({"input": "x", "background": True, "store": False}, "must be stored"),
        ({"input": "x", "conversation": "conv_1"}, "previous_response_id"),
        ({"input": "x", "extra_body": {"messages": []}}, "send 'input'"),
        ({"input": "x", "extra_body": {"response_format": {}}}, "text.format"),
        ({"input": "x", "extra_body": {"stop": ["."]}}, "no stop sequences"),
        (
            {
                "input": "x",
                "moderation": {"model": "m", "policy": {"output": {"mode": "block"}}},
            },
            "No content is blocked here",
        ),
        ({"input": "x", "top_logprobs": 2}, "no token probabilities"),
        (
            {"input": [{"type": "function_call_output", "call_id": "c", "output": "1"}]},
            "No tool call found",
        ),
    ],
)
async def test_a_request_that_is_wrong_is_refused_by_name(
    asked: dict[str, Any], message: str
) -> None:
    """Bad input gets a clear error, before the backend is asked."""
    async with served(echo) as (client, puppet):
        with pytest.raises(BadRequestError, match=message):
            await client.responses.create(model="puppet", **asked)
    assert puppet.requests == []


async def test_an_unknown_model_is_refused_with_those_there_are() -> None:
    """The client learns which models it may ask for."""
    async with served(echo) as (client, _):
        with pytest.raises(NotFoundError, match="there is puppet"):
            await client.responses.create(model="gpt", input="x")
        models = [model.id async for model in client.models.list()]
        assert models == ["puppet"]
        assert (await client.models.retrieve("puppet")).owned_by == "toolcrib"
        with pytest.raises(NotFoundError):
            await client.models.retrieve("gpt")


async def test_closing_a_provider_closes_its_backends() -> None:
    """Whoever made connections ends them."""
    async with served(echo) as (_, puppet):
        assert not puppet.is_closed
    assert puppet.is_closed

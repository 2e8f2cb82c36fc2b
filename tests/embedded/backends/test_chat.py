"""The chat backend, before a real server on loopback that replays what real ones send."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any

import pytest
from openai import AsyncOpenAI

from tests.embedded.backends.chat_server import ChatServer, chat_server, chunk, usage
from tests.embedded.scripted_provider import function
from tests.embedded.sdk_types import check_event, check_response
from toolcrib.embedded import (
    BackendCall,
    BackendCallResult,
    BackendMessage,
    BackendOutput,
    BackendReasoning,
    BackendRequest,
    BackendText,
    BackendTool,
    BackendUsage,
    EmbeddedProvider,
    OutputFormat,
    ProposedCall,
    Truncation,
)
from toolcrib.embedded.backends.chat import FILES, SOURCES, ChatBackend
from toolcrib.errors import BackendFailed, UsageError

HELLO = BackendMessage("user", "hello")
CITY = {"type": "object", "properties": {"city": {"type": "string"}}}
WEATHER = BackendTool("weather", "The weather.", CITY)


@pytest.fixture
def chat() -> Iterator[ChatServer]:
    with chat_server() as server:
        yield server


@pytest.fixture
async def backend(chat: ChatServer) -> AsyncIterator[ChatBackend]:
    made = ChatBackend("m", base_url=chat.base_url, name="mine", retries=0)
    yield made
    await made.aclose()


async def proposed(
    backend: ChatBackend, request: BackendRequest | None = None
) -> list[BackendOutput]:
    asked = request or BackendRequest("mine", [HELLO], tools=[WEATHER])
    return [piece async for piece in backend.propose(asked)]


def fragment(index: int | None, name: str | None, arguments: str, **more: Any) -> dict[str, Any]:
    call: dict[str, Any] = {"function": {"name": name, "arguments": arguments}, **more}
    if index is not None:
        call["index"] = index
    return {"tool_calls": [call]}


class TestWhatComesBack:
    """Streams of real servers, in all their forms."""

    async def test_text_comes_in_pieces_with_its_usage_at_the_end(
        self, chat: ChatServer, backend: ChatBackend
    ) -> None:
        """Deltas are text, and a chunk without choices tells the tokens."""
        first = chunk({"role": "assistant", "content": None})
        end = chunk({}, "stop")
        chat.plays(first, chunk({"content": "He"}), chunk({"content": "llo"}), end, usage(11, 2))
        assert await proposed(backend) == [
            BackendText("He"),
            BackendText("llo"),
            BackendUsage(11, 2),
        ]

    @pytest.mark.parametrize("key", ["reasoning_content", "reasoning"])
    async def test_reasoning_is_thought(
        self, chat: ChatServer, backend: ChatBackend, key: str
    ) -> None:
        """Both names that servers use for it are heard, and it is never said."""
        chat.says({key: "hm"}, {key: ""}, {"content": "yes"})
        assert await proposed(backend) == [BackendReasoning("hm"), BackendText("yes")]

    async def test_calls_are_put_together_from_fragments(
        self, chat: ChatServer, backend: ChatBackend
    ) -> None:
        """Fragments of several calls may come interleaved; each has its index."""
        chat.says(
            fragment(0, "weather", "", id="a", type="function"),
            fragment(1, "weather", "", id="b", type="function"),
            fragment(0, None, '{"city": '),
            fragment(1, None, '{"city": "Oslo"}'),
            fragment(0, None, '"Rome"}'),
            reason="tool_calls",
        )
        assert await proposed(backend) == [
            ProposedCall("weather", '{"city": "Rome"}'),
            ProposedCall("weather", '{"city": "Oslo"}'),
        ]

    async def test_calls_without_an_index_are_told_apart_by_their_ids(
        self, chat: ChatServer, backend: ChatBackend
    ) -> None:
        """Some servers leave the index out and send each call whole, one chunk after the other."""
        chat.says(
            fragment(None, "weather", '{"city": "Rome"}', id="a"),
            fragment(None, "weather", '{"city": "Oslo"}', id="b"),
            reason="tool_calls",
        )
        assert await proposed(backend) == [
            ProposedCall("weather", '{"city": "Rome"}'),
            ProposedCall("weather", '{"city": "Oslo"}'),
        ]

    async def test_a_call_without_arguments_has_an_empty_object(
        self, chat: ChatServer, backend: ChatBackend
    ) -> None:
        """Whoever runs it gets JSON."""
        chat.says(fragment(0, "weather", "", id="a"), reason="tool_calls")
        assert await proposed(backend) == [ProposedCall("weather", "{}")]

    @pytest.mark.parametrize(
        ("reason", "told"), [("length", "max_output_tokens"), ("content_filter", "content_filter")]
    )
    async def test_an_answer_that_was_cut_says_so(
        self, chat: ChatServer, backend: ChatBackend, reason: str, told: Any
    ) -> None:
        """Half an answer is never taken for a whole one."""
        chat.says({"content": "half"}, reason=reason)
        assert await proposed(backend) == [BackendText("half"), Truncation(told)]

    async def test_an_unknown_tool_keeps_its_name(
        self, chat: ChatServer, backend: ChatBackend
    ) -> None:
        """A model that makes up a tool is told so by whoever runs tools; it is not hidden here."""
        chat.says(fragment(0, "fly", "{}", id="a"), reason="tool_calls")
        assert await proposed(backend) == [ProposedCall("fly", "{}")]


class TestWhatGoesWrong:
    """Every failure is told in words, and none holds the key."""

    @pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 503])
    async def test_a_refusal_says_why(self, chat: ChatServer, status: int) -> None:
        """The server's own message is passed on."""
        chat.status = status
        chat.body = json.dumps({"error": {"message": "the context is too long"}}).encode()
        backend = ChatBackend("m", base_url=chat.base_url, api_key="sk-very-secret", retries=0)
        with pytest.raises(BackendFailed, match=r"'m' failed: .*context is too long") as failed:
            await proposed(backend)
        assert "very-secret" not in str(failed.value)
        assert chat.authorization == ["Bearer sk-very-secret"]
        await backend.aclose()

    async def test_nobody_there(self) -> None:
        """A server that does not run is named by its address."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
            backend = ChatBackend("m", base_url=url, retries=0)
            with pytest.raises(BackendFailed, match=f"'m' failed: Connection error.*{url}"):
                await proposed(backend)
        await backend.aclose()

    async def test_a_stream_that_breaks_off(self, chat: ChatServer, backend: ChatBackend) -> None:
        """What came is told, and then that there was more to come."""
        chat.says({"content": "half"}, reason=None, ends=False)
        chat.is_cut = True
        proposal = backend.propose(BackendRequest("mine", [HELLO]))
        assert await anext(proposal) == BackendText("half")
        with pytest.raises(BackendFailed, match="broke off"):
            await anext(proposal)

    async def test_a_stream_that_ends_without_an_end(
        self, chat: ChatServer, backend: ChatBackend
    ) -> None:
        """A server that stops politely in the middle has not answered either."""
        chat.says({"content": "half"}, reason=None, ends=False)
        with pytest.raises(BackendFailed, match="broke off"):
            await proposed(backend)

    async def test_an_error_within_the_stream(self, chat: ChatServer, backend: ChatBackend) -> None:
        """Servers that fail late say it in an event."""
        chat.plays(chunk({"content": "ha"}), {"error": {"message": "out of memory", "code": 500}})
        with pytest.raises(BackendFailed, match="out of memory"):
            await proposed(backend)

    async def test_lines_that_are_no_json(self, chat: ChatServer, backend: ChatBackend) -> None:
        """What cannot be read is a failure of the model's, not of the provider's."""
        chat.body = b"data: {nonsense\n\n"
        with pytest.raises(BackendFailed, match="cannot be read"):
            await proposed(backend)

    async def test_a_failure_fails_the_response(
        self, chat: ChatServer, backend: ChatBackend
    ) -> None:
        """The client of the provider sees a failed response with the reason."""
        chat.status, chat.body = 500, b'{"error": {"message": "no memory left"}}'
        async with EmbeddedProvider(backend) as provider:
            response = await provider.client().responses.create(model="mine", input="x")
        assert response.status == "failed"
        assert response.error is not None
        assert "no memory left" in response.error.message

    def test_it_needs_one_way_to_a_server(self) -> None:
        """An address or a client, not both and not neither."""
        with pytest.raises(UsageError, match="base_url"):
            ChatBackend("m")
        with pytest.raises(UsageError, match="base_url"):
            ChatBackend("m", base_url="http://x", client=AsyncOpenAI(api_key="none"))


class TestWhatIsAsked:
    """A question in the words of chat endpoints."""

    async def asked(
        self, chat: ChatServer, backend: ChatBackend, request: BackendRequest
    ) -> dict[str, Any]:
        chat.says({"content": "ok"})
        await proposed(backend, request)
        return chat.requests[-1]

    async def test_a_plain_question(self, chat: ChatServer, backend: ChatBackend) -> None:
        """Nothing is sent that was not asked for."""
        assert await self.asked(chat, backend, BackendRequest("mine", [HELLO])) == {
            "model": "m",
            "messages": [{"role": "user", "content": "hello"}],
            "stream": True,
            "stream_options": {"include_usage": True},
        }

    async def test_settings(self, chat: ChatServer, backend: ChatBackend) -> None:
        """Limits and temperatures are passed on, and so is that calls come one at a time."""
        request = BackendRequest(
            "mine",
            [HELLO],
            tools=[WEATHER],
            tool_choice="required",
            is_parallel=False,
            max_output_tokens=9,
            temperature=0.0,
            top_p=0.5,
        )
        sent = await self.asked(chat, backend, request)
        assert (sent["max_tokens"], sent["temperature"], sent["top_p"]) == (9, 0.0, 0.5)
        assert (sent["tool_choice"], sent["parallel_tool_calls"]) == ("required", False)

    async def test_no_tools_when_none_may_be_called(
        self, chat: ChatServer, backend: ChatBackend
    ) -> None:
        """With the choice `none` the tools are not even named."""
        request = BackendRequest("mine", [HELLO], tools=[WEATHER], tool_choice="none")
        assert "tools" not in await self.asked(chat, backend, request)

    async def test_the_whole_conversation(self, chat: ChatServer, backend: ChatBackend) -> None:
        """Calls belong to the message before them, answers to their calls, rules to the system."""
        turns = [
            BackendMessage("developer", "rule"),
            BackendMessage("user", "look", ("data:image/png;base64,AAAA",)),
            BackendMessage("assistant", "I look."),
            BackendCall("1", "weather", '{"city": "Rome"}'),
            BackendCall("2", "weather", '{"city": "Oslo"}'),
            BackendCallResult("1", "weather", "warm", {"sun": True}),
            BackendCallResult("2", "weather", "cold"),
            BackendCall("3", "weather", "{}"),
        ]
        request = BackendRequest("mine", turns, instructions="Be brief.", tools=[WEATHER])
        sent = await self.asked(chat, backend, request)
        image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}

        def call(call_id: str, arguments: str) -> dict[str, Any]:
            return {
                "id": call_id,
                "type": "function",
                "function": {"name": "weather", "arguments": arguments},
            }

        assert sent["messages"] == [
            {"role": "system", "content": "Be brief."},
            {"role": "system", "content": "rule"},
            {"role": "user", "content": [{"type": "text", "text": "look"}, image]},
            {
                "role": "assistant",
                "content": "I look.",
                "tool_calls": [call("1", '{"city": "Rome"}'), call("2", '{"city": "Oslo"}')],
            },
            {"role": "tool", "tool_call_id": "1", "content": "warm"},
            {"role": "tool", "tool_call_id": "2", "content": "cold"},
            {"role": "assistant", "content": "", "tool_calls": [call("3", "{}")]},
        ]

    @pytest.mark.parametrize(
        ("tool", "rules"),
        [
            (WEATHER, "Be brief."),
            (replace(WEATHER, has_sources=True), f"Be brief.\n\n{SOURCES}"),
            (replace(WEATHER, makes_files=True), f"Be brief.\n\n{FILES}"),
        ],
    )
    async def test_rules_of_citing_come_with_a_tool_that_needs_them(
        self, chat: ChatServer, backend: ChatBackend, tool: BackendTool, rules: str
    ) -> None:
        """N11: a tool of the user's own adds nothing to what the host tells the model."""
        request = BackendRequest("mine", [HELLO], instructions="Be brief.", tools=[tool])
        sent = await self.asked(chat, backend, request)

        assert sent["messages"][0] == {"role": "system", "content": rules}

    async def test_names_that_the_wire_does_not_take(
        self, chat: ChatServer, backend: ChatBackend
    ) -> None:
        """Names are made safe and short, no two the same, and mapped back in what comes."""
        odd, twin, long = "docs.read file", "docs_read_file", "x" * 80
        tools = [BackendTool(name, "", CITY) for name in (odd, twin, long, long + "y")]
        chat.says(fragment(0, "docs_read_file_2", "{}", id="a"), reason="tool_calls")
        request = BackendRequest("mine", [HELLO, BackendCall("1", odd, "{}")], tools=tools)
        assert await proposed(backend, request) == [ProposedCall(twin, "{}")]
        sent = chat.requests[-1]
        names = [tool["function"]["name"] for tool in sent["tools"]]
        assert names == ["docs_read_file", "docs_read_file_2", "x" * 64, "x" * 62 + "_2"]
        assert sent["messages"][-1]["tool_calls"][0]["function"]["name"] == "docs_read_file"

    @pytest.mark.parametrize(
        ("output", "sent"),
        [
            (OutputFormat("json_object"), {"type": "json_object"}),
            (
                OutputFormat("json_schema", "city", CITY),
                {
                    "type": "json_schema",
                    "json_schema": {"name": "city", "schema": CITY, "strict": True},
                },
            ),
        ],
    )
    async def test_the_form_of_the_answer(
        self, chat: ChatServer, backend: ChatBackend, output: OutputFormat, sent: Any
    ) -> None:
        """A form that was asked for is asked for."""
        request = BackendRequest("mine", [HELLO], output=output)
        assert (await self.asked(chat, backend, request))["response_format"] == sent


async def test_a_whole_loop_through_the_provider(chat: ChatServer, backend: ChatBackend) -> None:
    """The model's call reaches the client, its output the model, and the usage is the model's."""
    tools: Any = [function("weather")]
    async with EmbeddedProvider(backend) as provider:
        client = provider.client()
        arguments = '{"city": "Rome"}'
        call_chunk = chunk(fragment(0, "weather", arguments, id="a"))
        chat.plays(call_chunk, chunk({}, "tool_calls"), usage(5, 3))
        first = await client.responses.create(model="mine", input="Rome?", tools=tools)
        [call] = first.output
        chat.says({"content": "21 degrees"})
        told = await client.responses.create(
            model="mine",
            previous_response_id=first.id,
            tools=tools,
            input=[{"type": "function_call_output", "call_id": call.call_id, "output": "21"}],
        )
    assert first.usage.total_tokens == 8
    assert told.output_text == "21 degrees"
    assert told.metadata == {}
    answer = {"role": "tool", "tool_call_id": call.call_id, "content": "21"}
    assert chat.requests[-1]["messages"][-1] == answer


async def test_probabilities_of_tokens_come_through(chat: ChatServer) -> None:
    """Asked for, they are in the deltas and in the message, with the bytes of a split character."""
    heart = "❤".encode()
    entries = [
        {"token": "A", "logprob": -0.1, "bytes": [65], "top_logprobs": []},
        {
            "token": "\\xe2\\x9d",
            "logprob": -0.5,
            "bytes": list(heart[:2]),
            "top_logprobs": [{"token": "B", "logprob": -2.0, "bytes": None}],
        },
    ]
    piece = chunk({"content": "A❤"})
    piece["choices"][0]["logprobs"] = {"content": entries, "refusal": None}
    chat.plays(piece, chunk({"content": "!"}), chunk({}, "stop"))
    backend = ChatBackend("m", base_url=chat.base_url, retries=0)
    async with EmbeddedProvider(backend) as provider:
        client = provider.client()
        asked: Any = {
            "model": "m",
            "input": "x",
            "top_logprobs": 1,
            "include": ["message.output_text.logprobs"],
        }
        response = await client.responses.create(**asked)
        stream = await client.responses.create(**asked, stream=True)
        events = [json.loads(event.to_json()) async for event in stream]
        await client.responses.create(model="m", input="x")
    body = json.loads(response.to_json())
    check_response(body)
    for event in events:
        check_event(event)
    [first, second] = body["output"][0]["content"][0]["logprobs"]
    assert (first["token"], first["logprob"], first["bytes"]) == ("A", -0.1, [65])
    assert second["bytes"] == list(heart[:2])
    assert second["top_logprobs"] == [{"token": "B", "logprob": -2.0, "bytes": [66]}]
    deltas = [event for event in events if event["type"] == "response.output_text.delta"]
    assert [len(event["logprobs"]) for event in deltas] == [2, 0]
    assert body["top_logprobs"] == 1
    assert body["metadata"] == {}
    with_them, _, without = chat.requests
    assert (with_them["logprobs"], with_them["top_logprobs"]) == (True, 1)
    assert "logprobs" not in without


async def test_an_endpoint_without_probabilities_is_named(chat: ChatServer) -> None:
    """An empty list is not taken for an answer."""
    chat.says({"content": "hi"})
    backend = ChatBackend("m", base_url=chat.base_url, retries=0)
    async with EmbeddedProvider(backend) as provider:
        response = await provider.client().responses.create(
            model="m", input="x", include=["message.output_text.logprobs"]
        )
    assert response.metadata == {"toolcrib_warning": "the model reported no token probabilities"}

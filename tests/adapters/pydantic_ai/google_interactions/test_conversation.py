"""How an interaction is asked for, gone on with, and given up."""

import json
from base64 import b64encode
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai.messages import (
    BinaryContent,
    DocumentUrl,
    ModelRequest,
    ModelResponse,
    NativeToolCallPart,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UploadedFile,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.native_tools import MCPServerTool
from pydantic_ai.providers.google import GoogleProvider

from tests.adapters.openai.loopback_adapter import add, ask
from tests.adapters.pydantic_ai.codecs.loopback_server import Reply
from tests.adapters.pydantic_ai.handwritten_scripts import Act, interaction, output, scripted
from tests.adapters.pydantic_ai.recording_server import Line, stage
from tests.adapters.pydantic_ai.recordings import INTERACTIONS
from tests.adapters.pydantic_ai.script_replay import speaker
from tests.adapters.pydantic_ai.wire.traffic import Json
from toolcrib import PromptEvaluationError, PromptResponse
from toolcrib.adapters.model_client import Retry
from toolcrib.adapters.pydantic_ai import GoogleInteractionsModel, PydanticAIAdapter
from toolcrib.adapters.pydantic_ai.models import provider_of
from toolcrib.tools.web_search import web_search_tool

both_forms = pytest.mark.parametrize("stream", [False, True], ids=["blocking", "streamed"])

THOUGHT: Json = {
    "type": "thought",
    "signature": "dGhpbms=",
    "summary": [{"type": "text", "text": "Hm."}],
}
SEARCH: Json = {
    "type": "google_search_call",
    "id": "s1",
    "signature": "c2ln",
    "arguments": {"queries": ["a"]},
    "search_type": "web_search",
}
FOUND: Json = {
    "type": "google_search_result",
    "call_id": "s1",
    "signature": "c2ln",
    "result": [{"search_suggestions": "<p>"}],
    "is_error": False,
}
RAN: Json = {"type": "code_execution_call", "id": "x1", "arguments": {"code": "1"}}
PRINTED: Json = {
    "type": "code_execution_result",
    "call_id": "x1",
    "result": [{"type": "text", "text": "1"}],
}
SERVED: Json = {
    "type": "mcp_server_tool_call",
    "id": "m1",
    "server_name": "wiki",
    "name": "ask",
    "arguments": {"q": 1},
}
ASKED: Json = {
    "type": "function_call",
    "id": "f1",
    "name": "add",
    "arguments": {"a": 1, "b": 2},
    "signature": "Zg==",
}


@dataclass(frozen=True, slots=True)
class Said:
    """A reply that is what it is, in whatever form it was asked for."""

    reply: Reply

    @property
    def blocking(self) -> Reply:
        return self.reply

    @property
    def streamed(self) -> Reply:
        return self.reply


async def evaluated(
    *script: Line, stream: bool = False, attempts: int = 1, output: Any = None, **options: Any
) -> tuple[PromptResponse[Any], list[Json]]:
    with stage() as server:
        server.play(script)
        async with speaker(server.url, INTERACTIONS) as model:
            retry = Retry(attempts=attempts, first_seconds=0.001)
            adapter = PydanticAIAdapter(model, retry=retry)
            prompt = ask(add, output=output, hosted=[web_search_tool()])
            response = await adapter.evaluate_async(prompt, stream=stream, **options)
        return response, server.asked


def refusal(status: int) -> Said:
    body = {"error": {"code": status, "message": "no", "status": "NO"}}
    return Said(Reply(json.dumps(body).encode(), status=status))


def test_it_is_a_model_of_googles() -> None:
    """H42: what can be asked of it is what can be asked of Gemini."""
    model = GoogleInteractionsModel(
        "gemini-3-flash-preview", provider=GoogleProvider(api_key="x", base_url="http://localhost")
    )

    assert provider_of(model) == "google"


@both_forms
def test_steps_go_back_as_they_came(stream: bool, act: Act) -> None:
    """E2: a call of ours is answered with the whole conversation, every step of the provider's
    verbatim, because signatures bind them.
    """
    steps = [THOUGHT, SEARCH, FOUND, RAN, PRINTED, SERVED, output("First: "), ASKED]
    first = interaction(*steps, status="requires_action")
    script = scripted(INTERACTIONS, first, interaction(output("Three.")))

    replayed = act(script, stream=stream)

    assert [each.text for each in replayed.responses] == ["Three."]
    sent = replayed.asked[1]["input"]
    assert sent[0]["type"] == "user_input"
    assert sent[1:-1] == steps
    assert sent[-1] == {"type": "function_result", "call_id": "f1", "name": "add", "result": "3"}
    assert [request["store"] for request in replayed.asked] == [False, False]


async def test_tools_and_limits_are_declared() -> None:
    """What is offered and set is what is sent."""
    (done,) = scripted(INTERACTIONS, interaction(output("Hi.")))

    _, (asked,) = await evaluated(
        done, tool_choice="add", settings={"max_tokens": 50, "temperature": 0.5}
    )

    assert [tool["type"] for tool in asked["tools"]] == ["function", "google_search"]
    assert asked["generation_config"] == {
        "max_output_tokens": 50,
        "temperature": 0.5,
        "tool_choice": {"allowed_tools": {"mode": "any", "tools": ["add"]}},
    }


class City(BaseModel):
    name: str


async def test_an_answer_has_the_form_that_was_asked_for() -> None:
    """A structured answer is asked for by its schema, and read."""
    (done,) = scripted(INTERACTIONS, interaction(output('{"name": "Oslo"}')))

    response, (asked,) = await evaluated(done, output=City)

    assert response.output == City(name="Oslo")
    form = asked["response_format"]
    assert (form["type"], form["mime_type"]) == ("text", "application/json")
    assert form["schema"]["properties"].keys() == {"name"}


@both_forms
@pytest.mark.parametrize("status", ["incomplete", "failed", "cancelled", "budget_exceeded"])
def test_what_did_not_end_well_is_no_answer(stream: bool, status: str, act: Act) -> None:
    """E5: a response that is cut off or failed raises, and what ran before is recorded."""
    script = scripted(INTERACTIONS, interaction(SEARCH, FOUND, output("So"), status=status))

    replayed = act(script, stream=stream)

    (error,) = replayed.errors
    assert error.phase == "response"
    assert status in str(error)
    assert [event.call_id for event in replayed.provider_run] == ["s1"]


@both_forms
async def test_retries_are_the_adapters(stream: bool) -> None:
    """The SDK does not try again on its own, so that a deadline binds."""
    (done,) = scripted(INTERACTIONS, interaction(output("Hi.")))

    response, asked = await evaluated(refusal(503), done, stream=stream, attempts=2)

    assert (response.text, len(asked)) == ("Hi.", 2)
    with pytest.raises(PromptEvaluationError) as caught:
        await evaluated(refusal(503), refusal(503), done, stream=stream, attempts=2)
    assert caught.value.phase == "request"
    assert "503" in str(caught.value)


async def test_a_request_that_is_refused_is_not_made_again() -> None:
    """The error says what the provider says."""
    with pytest.raises(PromptEvaluationError, match="400"):
        await evaluated(refusal(400), refusal(400), attempts=2)


async def test_an_error_within_a_stream_is_one() -> None:
    """It is told in the provider's words."""
    (cut,) = scripted(INTERACTIONS, interaction(output("Hi.")))
    told = {"event_type": "error", "error": {"code": "overloaded", "message": "come back later"}}
    cut.events[-1:] = [told]

    with pytest.raises(PromptEvaluationError, match="come back later"):
        await evaluated(cut, stream=True)


async def test_a_stream_that_goes_on_elsewhere_is_one_answer() -> None:
    """Where the provider stops in between, the SDK goes on, and steps are counted anew."""
    first, second = scripted(
        INTERACTIONS,
        interaction(output("One, "), status="requires_continuation"),
        interaction(output("two.")),
    )
    first.events[-1]["interaction"]["continuation_token"] = "go-on"

    response, asked = await evaluated(first, second, stream=True)

    assert (response.text, len(asked)) == ("One, two.", 2)
    assert response.usage.output_tokens == 10


async def test_what_a_conversation_may_hold() -> None:
    """Pictures, documents and files by their ids; of other providers only what was said."""
    picture = BinaryContent(b"\x89PNG", media_type="image/png")
    elsewhere = DocumentUrl("https://example.org/a.pdf")
    kept = UploadedFile("files/1", provider_name="google", media_type="audio/wav")
    foreign = [
        ThinkingPart("Hm.", signature="x", provider_name="openai"),
        NativeToolCallPart("web_search", {"query": "a"}, "ws_1", provider_name="openai"),
        TextPart("Said."),
        ToolCallPart("add", {"a": 1, "b": 2}, "call_1"),
    ]
    messages = [
        ModelRequest([SystemPromptPart("Be brief."), UserPromptPart([picture, elsewhere, kept])]),
        ModelResponse(foreign, provider_name="openai"),
        ModelRequest([ToolReturnPart("add", "no", "call_1", outcome="failed")]),
    ]
    (done,) = scripted(INTERACTIONS, interaction(output("Hi.")))
    server = MCPServerTool(
        id="wiki", url="https://w.org", authorization_token="t", headers={"a": "b"}
    )

    with stage() as played:
        played.play([done])
        async with speaker(played.url, INTERACTIONS) as model:
            await model.request(messages, None, ModelRequestParameters(native_tools=[server]))

    (asked,) = played.asked
    assert asked["system_instruction"] == "Be brief."
    assert asked["input"] == [
        {
            "type": "user_input",
            "content": [
                {"type": "image", "data": b64encode(b"\x89PNG").decode(), "mime_type": "image/png"},
                {
                    "type": "document",
                    "uri": "https://example.org/a.pdf",
                    "mime_type": "application/pdf",
                },
                {"type": "audio", "uri": "files/1", "mime_type": "audio/wav"},
            ],
        },
        {"type": "model_output", "content": [{"type": "text", "text": "Said."}]},
        {"type": "function_call", "id": "call_1", "name": "add", "arguments": {"a": 1, "b": 2}},
        {
            "type": "function_result",
            "call_id": "call_1",
            "name": "add",
            "result": '{"error":"no"}',
            "is_error": True,
        },
    ]
    assert asked["tools"] == [
        {
            "type": "mcp_server",
            "name": "wiki",
            "url": "https://w.org",
            "headers": {"a": "b", "Authorization": "t"},
        }
    ]

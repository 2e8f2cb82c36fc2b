"""Typed answers: the model is held to the schema, or told of it, and what it wraps is unwrapped."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic_ai.messages import ModelResponse, NativeToolCallPart, NativeToolReturnPart, TextPart
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.profiles import ModelProfile

from tests.adapters.pydantic_ai.provider_dialects import ANTHROPIC, GOOGLE, SPEECHES, Speech
from tests.adapters.pydantic_ai.scripted_adapter import Script, add, ask, bench, wire_bench
from toolcrib import PromptEvaluationError
from toolcrib.adapters.pydantic_ai import PydanticAIAdapter
from toolcrib.tools.web_search import web_search_tool

WITHOUT_SCHEMAS = {"profile": ModelProfile(supports_json_schema_output=False)}


@dataclass
class Sum:
    total: int


def schema_sent(provider: str, body: dict[str, Any]) -> dict[str, Any] | None:
    """The schema that a request holds the answer to, in each provider's own place."""
    match provider:
        case "anthropic":
            return body.get("output_config", {}).get("format", {}).get("schema")
        case "google":
            config = body.get("generationConfig", {})
            return config.get("responseJsonSchema") or config.get("responseSchema")
        case "openai-responses":
            return body.get("text", {}).get("format", {}).get("schema")
        case _:
            return body.get("response_format", {}).get("json_schema", {}).get("schema")


@pytest.mark.parametrize("stream", [False, True], ids=["blocking", "streamed"])
@pytest.mark.parametrize("provider", SPEECHES)
def test_a_typed_answer_is_asked_for_in_each_providers_own_way(provider: str, stream: bool) -> None:
    """C21: the schema goes with the tools in one request, and the answer is a value."""
    speech: Speech = SPEECHES[provider]
    with wire_bench(speech, speech.says('{"total": 7}')) as (adapter, server):
        found = adapter.evaluate(ask(add, output=Sum), stream=stream)

    sent = schema_sent(provider, server.bodies[0])
    assert found.output == Sum(7)
    assert sent is not None
    assert sent["properties"]["total"]["type"] == "integer"
    assert "add" in json.dumps(server.bodies[0]["tools"])


def test_a_model_without_schemas_is_told_of_it() -> None:
    """Where a model cannot be held to a schema, it reads it among its instructions."""
    with bench('{"total": 7}', model_options=WITHOUT_SCHEMAS) as (adapter, script):
        found = adapter.evaluate(ask(output=Sum))

    assert found.output == Sum(7)
    assert '"total"' in (script.infos[0].instructions or "")


def test_models_that_take_each_others_place_are_asked_what_all_of_them_can() -> None:
    """A schema is sent only when every model may be held to it."""
    script = Script('{"total": 7}')
    adapter = PydanticAIAdapter(FallbackModel(script.model(), script.model(**WITHOUT_SCHEMAS)))
    found = adapter.evaluate(ask(output=Sum))
    adapter.close()

    assert found.output == Sum(7)
    assert '"total"' in (script.infos[0].instructions or "")


@pytest.mark.parametrize(
    "text",
    [
        '```json\n{"total": 7}\n```',
        '```\n{"total": 7}\n```',
        'Here you are:\n\n```json\n{\n  "total": 7\n}\n```\nAnything else?',
        '  {"total": 7}\n',
    ],
    ids=["fence", "plain_fence", "chatter", "space"],
)
def test_a_code_fence_around_the_answer_is_no_fault(text: str) -> None:
    """Models that are only told of a schema like to wrap what they write."""
    with bench(text, model_options=WITHOUT_SCHEMAS) as (adapter, _):
        found = adapter.evaluate(ask(output=Sum))

    assert (found.output, found.text) == (Sum(7), text)


@pytest.mark.parametrize(
    "text",
    [
        '{"total": "secret stuff"}',
        "secret stuff",
        '```json\n{"total": 1}\n```\n```json\n{"total": "secret stuff"}\n```',
    ],
    ids=["type", "prose", "two_fences"],
)
def test_a_typed_answer_that_does_not_fit_is_told(text: str) -> None:
    """The error is in phase parse, with an id to find it by, and does not repeat the answer. Of
    two answers neither is chosen.
    """
    answer = ModelResponse([TextPart(text)], provider_response_id="resp_1")
    with (
        bench(answer) as (adapter, _),
        pytest.raises(PromptEvaluationError, match="the answer does not fit Sum") as caught,
    ):
        adapter.evaluate(ask(output=Sum), output_retries=0)

    assert (caught.value.phase, caught.value.request_id) == ("parse", "resp_1")
    assert "secret stuff" not in str(caught.value)


def test_an_answer_in_pieces_is_put_together() -> None:
    """Some providers begin a new text wherever a source is cited: the JSON is all of them."""
    pieces = [TextPart('{"to'), TextPart('tal"'), TextPart(": 7}")]
    with bench(pieces) as (adapter, _):
        found = adapter.evaluate(ask(output=Sum))

    assert found.output == Sum(7)


def test_of_several_whole_answers_the_last_counts() -> None:
    """Each text is under the schema, so two of them are two answers and not one."""
    with bench([TextPart('{"total": 1}'), TextPart('{"total": 7}')]) as (adapter, _):
        found = adapter.evaluate(ask(output=Sum))

    assert found.output == Sum(7)


def test_what_was_said_before_a_search_is_not_part_of_the_answer() -> None:
    """A model that announces its search does not break the JSON that follows."""
    parts = [
        TextPart("I will look it up."),
        NativeToolCallPart("web_search", {"query": "x"}, "srvtoolu_1", provider_name="anthropic"),
        NativeToolReturnPart("web_search", [], "srvtoolu_1", provider_name="anthropic"),
        TextPart('{"to'),
        TextPart('tal": 7}'),
    ]
    with bench(parts, provider="anthropic") as (adapter, _):
        found = adapter.evaluate(ask(output=Sum, hosted=[web_search_tool()]))

    assert found.output == Sum(7)


def test_older_models_are_told_where_tools_and_schemas_exclude_each_other() -> None:
    """Gemini before 3 takes tools or a schema: with tools it is told of the schema."""
    from pydantic_ai.models.google import GoogleModel

    class Older(type(GOOGLE)):
        def model(self, url: str) -> Any:
            model = super().model(url)
            assert isinstance(model, GoogleModel)
            return GoogleModel("gemini-2.5-flash", provider=model.provider or "google")

    with wire_bench(Older(), GOOGLE.says('{"total": 7}')) as (adapter, server):
        found = adapter.evaluate(ask(add, output=Sum))

    assert found.output == Sum(7)
    assert schema_sent("google", server.bodies[0]) is None
    assert "total" in json.dumps(server.bodies[0]["systemInstruction"])


def test_a_schema_and_the_providers_own_tools_go_together() -> None:
    """C21, N18: on Anthropic a search and a schema are asked for in one request."""
    with wire_bench(ANTHROPIC, ANTHROPIC.says('{"total": 7}')) as (adapter, server):
        found = adapter.evaluate(ask(output=Sum, hosted=[web_search_tool()]))

    (body,) = server.bodies
    assert found.output == Sum(7)
    assert schema_sent("anthropic", body) is not None
    assert [entry["name"] for entry in body["tools"]] == ["web_search"]

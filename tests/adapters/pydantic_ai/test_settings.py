"""Settings and keys of a model: what is sent, what is refused, and what is shown nowhere."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.models import infer_model
from pydantic_ai.models.bedrock import BedrockConverseModel
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.providers.bedrock import BedrockProvider
from pydantic_ai.settings import ModelSettings

from tests.adapters.pydantic_ai.provider_dialects import ANTHROPIC, KEY, SPEECHES
from tests.adapters.pydantic_ai.scripted_adapter import Script, add, ask, bench, call, wire_bench
from tests.adapters.pydantic_ai.wire.traffic import Json
from toolcrib.adapters.options import Usage
from toolcrib.adapters.pydantic_ai import PydanticAIAdapter
from toolcrib.adapters.pydantic_ai.models import keys_of
from toolcrib.errors import UsageError


@pytest.mark.parametrize(
    "setting",
    [
        "first_event_timeout",
        "max_retries",
        "openai_background",
        "openai_conversation_id",
        "openai_previous_response_id",
        "request_timeout",
        "tool_choice",
    ],
)
def test_settings_do_not_override_what_the_adapter_decides(setting: str) -> None:
    """A setting that would break the loop is refused, with what to use instead."""
    with (
        bench() as (adapter, script),
        pytest.raises(UsageError, match=f"may not hold '{setting}': "),
    ):
        adapter.evaluate(ask(), settings={setting: 1})

    assert script.asked == []


@pytest.mark.parametrize(
    "own",
    [ModelSettings(tool_choice="required"), ModelSettings(request_timeout=5)],
    ids=["choice", "time"],
)
@pytest.mark.parametrize("is_wrapped", [False, True], ids=["plain", "fallback"])
def test_settings_of_the_models_own_do_not_either(own: ModelSettings, is_wrapped: bool) -> None:
    """A choice that is forced for ever, or a limit that only agents keep to, is told."""
    script = Script("Fine.")
    model = script.model(settings=own)
    adapter = PydanticAIAdapter(FallbackModel(model) if is_wrapped else model)
    with pytest.raises(UsageError, match="the model's own settings have"):
        adapter.evaluate(ask(add))
    adapter.close()

    assert script.asked == []


def test_settings_reach_the_model_with_its_own() -> None:
    """What the caller sets goes into every request; the model's own stay where nobody says more."""
    own = ModelSettings(temperature=0.5, top_p=0.5)
    steps = [call("add", {"a": 1, "b": 2}), "Fine."]
    with bench(*steps, model_options={"settings": own}) as (adapter, script):
        adapter.evaluate(ask(add), settings={"temperature": 0.1, "max_tokens": 99})

    for info in script.infos:
        assert {**(info.model_settings or {})} == {
            "temperature": 0.1,
            "top_p": 0.5,
            "max_tokens": 99,
            "max_retries": 0,
        }


def test_a_wrapper_does_not_hide_which_settings_a_model_has() -> None:
    """Bedrock has no setting for retries; behind a wrapper it is not sent one either."""
    bedrock = BedrockProvider(
        base_url="http://127.0.0.1:9",
        region_name="us-east-1",
        aws_access_key_id="x",
        aws_secret_access_key=KEY,
    )
    model = BedrockConverseModel("us.amazon.nova-2-lite-v1:0", provider=bedrock)
    seen: list[Any] = []

    class Watched(WrapperModel):
        async def request(
            self, messages: Any, model_settings: Any, model_request_parameters: Any
        ) -> ModelResponse:
            seen.append(dict(model_settings))
            return ModelResponse([TextPart("Fine.")])

    adapter = PydanticAIAdapter(Watched(model))
    adapter.evaluate(ask())
    adapter.close()

    assert seen == [{}]
    assert keys_of(model) == [KEY]


@pytest.mark.parametrize("provider", SPEECHES)
def test_the_keys_of_a_model_are_found(provider: str) -> None:
    """Every SDK keeps them somewhere else; behind wrappers and fallbacks there may be several."""
    model = SPEECHES[provider].model("http://127.0.0.1:9")
    others = FallbackModel(WrapperModel(model), ANTHROPIC.model("http://127.0.0.1:9"))

    assert keys_of(model) == [KEY]
    assert keys_of(others) == [KEY]


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("mistral:mistral-large-latest", "MISTRAL_API_KEY"),
        ("openrouter:openai/gpt-5", "OPENROUTER_API_KEY"),
        ("xai:grok-4", "XAI_API_KEY"),
    ],
)
def test_keys_from_the_environment_are_found_too(
    name: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever a key came from, an error must not repeat it."""
    monkeypatch.setenv(variable, KEY)

    assert keys_of(infer_model(name)) == [KEY]


def test_a_client_that_fails_when_it_is_looked_at_has_no_keys() -> None:
    """Looking for keys breaks nothing: where none is found, there is none to hide."""

    class Shy(FunctionModel):
        @property
        def provider(self) -> None:
            raise RuntimeError("no credentials")

    assert keys_of(Shy(lambda messages, info: ModelResponse([]))) == []


@pytest.mark.parametrize("provider", SPEECHES)
@pytest.mark.parametrize("stream", [False, True], ids=["blocking", "streamed"])
def test_tokens_are_counted_alike_everywhere(provider: str, stream: bool) -> None:
    """E7: input with what came from a cache, output with what was thought, on every provider."""
    speech = SPEECHES[provider]
    answer = speech.says("Fine.")
    counted(provider, answer)
    with wire_bench(speech, answer) as (adapter, _):
        found = adapter.evaluate(ask(), stream=stream)

    assert found.usage == Usage(1, 14, 8, 4, 3)


def counted(provider: str, answer: Json) -> None:
    """Let an answer tell of 14 tokens in, 4 of them cached, and 8 out, 3 of them thought."""
    match provider:
        case "anthropic":
            usage = {"cache_read_input_tokens": 4, "output_tokens": 8}
            answer["usage"] |= {**usage, "output_tokens_details": {"thinking_tokens": 3}}
        case "google":
            usage = {"promptTokenCount": 14, "thoughtsTokenCount": 3, "totalTokenCount": 22}
            answer["usageMetadata"] |= {**usage, "cachedContentTokenCount": 4}
        case "openai-responses":
            answer["usage"] |= {"input_tokens": 14, "output_tokens": 8, "total_tokens": 22}
            answer["usage"]["input_tokens_details"] = {"cached_tokens": 4}
            answer["usage"]["output_tokens_details"] = {"reasoning_tokens": 3}
        case _:
            answer["usage"] |= {"prompt_tokens": 14, "completion_tokens": 8, "total_tokens": 22}
            answer["usage"]["prompt_tokens_details"] = {"cached_tokens": 4}
            answer["usage"]["completion_tokens_details"] = {"reasoning_tokens": 3}

"""What the matrix promises is in the request that leaves the machine, sent by the real SDKs."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from pydantic import TypeAdapter
from pydantic_ai.exceptions import ModelHTTPError, UserError
from pydantic_ai.messages import ModelMessage, ModelRequest, UserPromptPart
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.native_tools import NATIVE_TOOL_TYPES, AbstractNativeTool
from pydantic_ai.settings import ModelSettings

from tests.adapters.pydantic_ai.codecs.loopback_server import Loopback, loopback, model_at
from tests.adapters.pydantic_ai.codecs.test_matrix import HOSTED, contribution, native
from tests.adapters.support.option_samples import Sample
from toolcrib.adapters.codec import Contribution
from toolcrib.adapters.support import MATRIX, options_of, supports

MODELS = {
    "anthropic": "claude-sonnet-5",
    "bedrock": "us.amazon.nova-2-lite-v1:0",
    "google": "gemini-3-flash-preview",
    "google-vertex": "gemini-3-flash-preview",
    "groq": "groq/compound",
    "openai-chat": "gpt-4o-search-preview",
    "openai-responses": "gpt-5.4",
    "openrouter": "openai/gpt-5",
}
NATIVE_TOOLS: TypeAdapter[AbstractNativeTool] = TypeAdapter(AbstractNativeTool)
IMAGES = {"google": "gemini-3-pro-image", "google-vertex": "gemini-3-pro-image"}


def plain_of(kind: str) -> Any:
    """A configuration of this kind that asks for nothing special."""
    return next(each.plain for each in HOSTED if each.kind == kind and each.plain is not None)


def asked_for(provider: str) -> list[tuple[str, Any, Any]]:
    """Kind, configuration and a plainer one, for every option that the provider has."""
    return [
        (sample.kind, sample.config, sample.plain)
        for sample in HOSTED
        if sample.plain is not None and supports(provider, sample.kind, options_of(sample.config))
    ]


class Sender:
    """Sends requests of one provider's models to the server, and reads what it got."""

    def __init__(self, server: Loopback, provider: str, models: dict[str, Model]) -> None:
        self._server = server
        self._provider = provider
        self._models = models

    async def sent(self, kind: str, config: Any) -> dict[str, Any]:
        made = contribution(kind, config, self._provider)
        return await self.sent_with(kind, made)

    async def sent_with(self, kind: str, made: Contribution) -> dict[str, Any]:
        model = self._models.get(kind, self._models[""])
        tools = [
            NATIVE_TOOLS.validate_python({**each, "kind": each["type"]}) for each in made.tools
        ]
        messages: list[ModelMessage] = [ModelRequest([UserPromptPart("hello")])]
        settings: Any = {"max_tokens": 100, **made.body}
        with pytest.raises(ModelHTTPError):
            await model.request(
                messages, ModelSettings(**settings), ModelRequestParameters(native_tools=tools)
            )
        return self._server.asked.pop()


@asynccontextmanager
async def sending(provider: str) -> AsyncGenerator[Sender]:
    name = MODELS[provider]
    drawing = IMAGES.get(provider, name)
    with loopback() as server:
        async with (
            model_at(server.url, provider, name) as model,
            model_at(server.url, provider, drawing) as other,
        ):
            yield Sender(server, provider, {"": model, "image_generation": other})


@pytest.mark.parametrize("provider", MODELS)
async def test_an_option_that_is_a_yes_changes_the_request(provider: str) -> None:
    """H35, H36, H37: pydantic-ai and the SDK really send it."""
    async with sending(provider) as sender:
        for kind, config, plain in asked_for(provider):
            assert await sender.sent(kind, config) != await sender.sent(kind, plain), config


@pytest.mark.parametrize("provider", MODELS)
async def test_a_kind_that_is_a_yes_changes_the_request(provider: str) -> None:
    """N14: a model of the provider takes the tool, and the request says so."""
    async with sending(provider) as sender:
        bare = await sender.sent_with("", Contribution(()))
        for kind in {sample.kind for sample in HOSTED}:
            # Compound models search and image models draw by themselves.
            is_built_in = (provider, kind) == ("groq", "web_search") or (
                provider in IMAGES and kind == "image_generation"
            )
            if supports(provider, kind) and not is_built_in:
                assert await sender.sent(kind, plain_of(kind)) != bare, kind


def _restricted() -> list[tuple[str, Sample]]:
    """Options that pydantic-ai itself refuses rather than drops."""
    options = ("domain_filter.allowed", "domain_filter.blocked", "allow_live_access", "max_uses")
    return [
        (provider, sample)
        for provider in MODELS
        for sample in HOSTED
        if sample.option in options
        and MATRIX[sample.kind].cell(provider).is_supported
        and not MATRIX[sample.kind].cell(provider, sample.option).is_supported
    ]


@pytest.mark.parametrize(("provider", "sample"), _restricted(), ids=str)
async def test_a_restriction_that_is_a_no_is_one_for_pydantic_ai_too(
    provider: str, sample: Sample
) -> None:
    """A cell that pydantic-ai has learned meanwhile must not stay a no."""
    fields = {
        "domain_filter.allowed": {"allowed_domains": ["a.org"]},
        "domain_filter.blocked": {"blocked_domains": ["b.org"]},
        "allow_live_access": {"external_web_access": False},
        "max_uses": {"max_uses": 3},
    }
    tool = native({"type": sample.kind, **fields[sample.option]})

    async with model_at("http://127.0.0.1:9", provider, MODELS[provider]) as model:
        with pytest.raises(UserError, match="not supported by this model"):
            model.prepare_request(None, ModelRequestParameters(native_tools=[tool]))


FILES = {"type": "file_search", "file_store_ids": ["s"]}
SERVER = {"type": "mcp_server", "id": "s", "url": "https://a.org/"}
CODE = {"type": "code_execution"}
DRAWING = {"type": "image_generation"}
UPLOAD = {"files": [{"file_id": "f", "provider_name": "google"}]}
PLACE = {"user_location": {"country": "GB", "city": "London"}}


@pytest.mark.parametrize(
    ("provider", "plain", "option"),
    [
        ("openai-responses", FILES, {"max_num_results": 5}),
        ("google", FILES, {"max_num_results": 5}),
        ("google", CODE, UPLOAD),
        ("google", {"type": "web_search"}, PLACE),
        ("groq", {"type": "web_search"}, PLACE),
        ("google", {"type": "web_fetch"}, {"max_content_tokens": 5, "enable_citations": True}),
        ("anthropic", SERVER, {"description": "A server."}),
        ("anthropic", SERVER, {"headers": {"X-Team": "blue"}}),
        ("google", DRAWING, {"quality": "low", "background": "opaque", "output_format": "jpeg"}),
        ("openai-responses", {"type": "web_search"}, {"user_location": {}}),
        ("anthropic", {"type": "web_search"}, {"user_location": {}}),
    ],
)
async def test_what_pydantic_ai_drops_is_a_no(
    provider: str, plain: dict[str, Any], option: dict[str, Any]
) -> None:
    """These cells are a no because the option never arrives; once it does, they must change."""
    async with sending(provider) as sender:
        kind = plain["type"]
        with_option = await sender.sent_with(kind, Contribution(({**plain, **option},)))
        assert with_option == await sender.sent_with(kind, Contribution((plain,)))


def test_xai_is_told_every_option_that_is_a_yes() -> None:
    """H35: xAI's SDK speaks gRPC, so its messages are compared before they are sent."""
    from pydantic_ai.models.xai import _get_native_tools  # pyright: ignore[reportPrivateUsage]

    def read(entry: Mapping[str, Any]) -> Any:
        """As the adapter reads it: dates are text in an entry."""
        fields = {name: value for name, value in entry.items() if name != "type"}
        return TypeAdapter[Any](NATIVE_TOOL_TYPES[entry["type"]]).validate_python(fields)

    def told(kind: str, config: Any) -> Any:
        tools = [read(each) for each in contribution(kind, config, "xai").tools]
        return _get_native_tools(ModelRequestParameters(native_tools=tools))

    for kind, config, plain in asked_for("xai"):
        assert told(kind, config) != told(kind, plain), config

"""Scripts played to real SDKs on the loopback interface, and what the adapter makes of them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from pydantic_ai.models import Model
from pydantic_ai.providers.google import GoogleProvider

from tests.adapters.openai.loopback_adapter import add, ask, happened
from tests.adapters.pydantic_ai.codecs.loopback_server import model_at
from tests.adapters.pydantic_ai.recording_server import Stage
from tests.adapters.pydantic_ai.recordings import INTERACTIONS, Recorded
from tests.adapters.pydantic_ai.wire.traffic import Json
from toolcrib import Event, PromptEvaluationError, PromptResponse, Session, ToolInvoked
from toolcrib.adapters.model_client import Retry
from toolcrib.adapters.pydantic_ai import PydanticAIAdapter
from toolcrib.adapters.pydantic_ai.google_interactions import GoogleInteractionsModel
from toolcrib.adapters.pydantic_ai.models import provider_of
from toolcrib.adapters.support import options_of, supports
from toolcrib.ledger.prompt_events import ModelResponded
from toolcrib.tools.code_interpreter import code_interpreter_tool
from toolcrib.tools.file_search import FileSearchConfig, file_search_tool
from toolcrib.tools.image_generation import image_generation_tool
from toolcrib.tools.mcp import McpConfig, mcp_tool
from toolcrib.tools.tool_search import tool_search_tool
from toolcrib.tools.web_fetch import web_fetch_tool
from toolcrib.tools.web_search import web_search_tool

ABLE = {
    "anthropic": "claude-sonnet-5",
    "bedrock": "us.amazon.nova-2-lite-v1:0",
    "google": "gemini-3-flash-preview",
    INTERACTIONS: "gemini-3-flash-preview",
    "google-vertex": "gemini-3-flash-preview",
    "groq": "groq/compound",
    "openai-chat": "gpt-4o-search-preview",
    "openai-responses": "gpt-5.4",
}
"""Models that take what their provider offers."""
SERVER = "deepwiki"
"""The remote server that recordings call."""


@dataclass(slots=True)
class Replayed:
    """What became of a script: the responses, and the session in which they were heard."""

    session: Session
    asked: list[Json]
    responses: list[PromptResponse[Any]] = field(default_factory=list[PromptResponse[Any]])
    errors: list[PromptEvaluationError] = field(default_factory=list[PromptEvaluationError])
    heard: list[Event] = field(default_factory=list[Event])
    """What was announced meanwhile."""

    @property
    def invoked(self) -> list[ToolInvoked]:
        return happened(self.session, ToolInvoked)

    @property
    def provider_run(self) -> list[ToolInvoked]:
        return [event for event in self.invoked if event.origin == "provider"]

    @property
    def steps(self) -> list[ModelResponded]:
        return happened(self.session, ModelResponded)


class Theatre:
    """Where scripts are played: a stage, and one model of each provider, because to make one takes
    longer than to play most scripts.
    """

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._models: dict[str, Model] = {}
        self._open = AsyncExitStack()

    async def play(self, script: Sequence[Recorded], *, stream: bool, is_offered: bool) -> Replayed:
        """Evaluate prompts until the script, of one provider, is over."""
        provider, wire = script[0].provider, script[0].wire
        # Whoever is asked for more than was recorded has said everything it had to say.
        done = wire.done()
        self._stage.play([*script, Recorded(provider, wire, done, wire.events_of(done))])
        model = await self._model(provider)
        adapter = PydanticAIAdapter(model, retry=Retry(attempts=1))
        hosted = everything(provider_of(model)) if is_offered else []
        found = await _play(adapter, self._stage, hosted, stream=stream)
        assert set(self._stage.is_streamed) == {stream}
        assert found.session.verify() is not None
        return found

    async def _model(self, provider: str) -> Model:
        if provider not in self._models:
            made = speaker(self._stage.url, provider)
            self._models[provider] = await self._open.enter_async_context(made)
        return self._models[provider]

    async def close(self) -> None:
        """Close all connections."""
        await self._open.aclose()


@asynccontextmanager
async def speaker(url: str, provider: str) -> AsyncGenerator[Model]:
    """A model that speaks to the stage as it would to its provider."""
    if provider != INTERACTIONS:
        async with model_at(url, provider, ABLE[provider]) as model:
            yield model
        return
    google = GoogleProvider(api_key="x", base_url=url)
    async with GoogleInteractionsModel(ABLE[provider], provider=google) as model:
        yield model


async def _play(
    adapter: PydanticAIAdapter, stage: Stage, hosted: list[Any], *, stream: bool
) -> Replayed:
    prompt = ask(add, hosted=hosted)
    found = Replayed(Session(), stage.asked)
    found.session.bus.subscribe(Event, found.heard.append)
    # Without a limit, Anthropic's model asks for a stream even where none is wanted.
    options: dict[str, Any] = {"stream": stream, "settings": {"max_tokens": 4096}}
    while len(stage.script) > 1:
        left = len(stage.script)
        try:
            response = await adapter.evaluate_async(prompt, session=found.session, **options)
            found.responses.append(response)
        except PromptEvaluationError as error:
            found.errors.append(error)
            if len(stage.script) == left:
                raise
    return found


def everything(provider: str) -> list[Any]:
    """Every kind of tool that the provider runs, as far as it needs nothing from outside."""
    server = McpConfig(
        server_label=SERVER, server_url="https://mcp.example.org/", require_approval="never"
    )
    made = [
        code_interpreter_tool(),
        file_search_tool(FileSearchConfig(vector_store_ids=("store",))),
        mcp_tool(server),
        tool_search_tool(),
        web_fetch_tool(),
        web_search_tool(),
    ]
    # On the others a picture is what another model makes.
    made += [image_generation_tool()] if provider == "openai-responses" else []
    return [tool for tool in made if supports(provider, tool.kind, options_of(tool.config))]

"""The adapter itself: which model it takes, whose rules hold, loops, threads, and closing."""

from __future__ import annotations

import asyncio
import importlib
import re
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models import Model
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.instrumented import InstrumentedModel
from pydantic_ai.models.wrapper import WrapperModel

from tests.adapters.pydantic_ai.faulty_server import Server
from tests.adapters.pydantic_ai.provider_dialects import ANTHROPIC, GOOGLE, KEY, SPEECHES
from tests.adapters.pydantic_ai.scripted_adapter import ask, bench, call, happened, scripted
from tests.helpers.patience import PATIENCE
from toolcrib import PromptEvaluationError, PromptResponse, Session, tool
from toolcrib.adapters.pydantic_ai import PydanticAIAdapter
from toolcrib.errors import UsageError
from toolcrib.extras import install_command
from toolcrib.ledger.prompt_events import PromptStarted

NAMES = {
    "anthropic": "ANTHROPIC_API_KEY",
    "google": "GOOGLE_API_KEY",
    "groq": "GROQ_API_KEY",
    "mistral": "MISTRAL_API_KEY",
    "openai": "OPENAI_API_KEY",
    "openai-chat": "OPENAI_API_KEY",
    "openrouter": "OPENROUTER_API_KEY",
    "xai": "XAI_API_KEY",
}


def started(session: Session) -> PromptStarted:
    (found,) = happened(session, PromptStarted)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_key_says_what_to_set(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The provider's own exception does not reach the user, and nothing was sent."""
    for variable in (*NAMES.values(), "GEMINI_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    session = Session()
    adapter = PydanticAIAdapter(f"{name}:some-model")

    with pytest.raises(UsageError, match=NAMES[name]):
        adapter.evaluate(ask(), session=session)
    adapter.close()

    assert session.turn == 0


def test_a_misspelt_name_is_told() -> None:
    """A name that means no model is a mistake, and the nearest one may be told."""
    adapter = PydanticAIAdapter("antropic:claude-sonnet-5")
    with pytest.raises(UsageError, match="cannot make a model from the name 'antropic:claude"):
        adapter.evaluate(ask())
    adapter.close()


@pytest.mark.parametrize("model", [None, "", 7, object()])
def test_what_is_no_model_is_refused_when_the_adapter_is_made(model: Any) -> None:
    """A slip is told where it was made."""
    with pytest.raises(UsageError, match="model must be a pydantic-ai model or the name of one"):
        PydanticAIAdapter(model)


def test_a_missing_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """pydantic-ai is an extra: the adapter can be imported and made without it."""
    for name in [each for each in sys.modules if each.partition(".")[0] == "pydantic_ai"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pydantic_ai", None)
    adapter = PydanticAIAdapter("anthropic:claude-sonnet-5")

    with pytest.raises(UsageError, match=re.escape(install_command("pydantic-ai"))):
        adapter.evaluate(ask())
    adapter.close()


def test_the_package_has_the_adapter_and_nothing_that_is_not_there() -> None:
    """Imported when it is asked for, and a misspelt name is a missing attribute."""
    package: Any = importlib.import_module("toolcrib.adapters.pydantic_ai")

    assert package.PydanticAIAdapter is PydanticAIAdapter
    with pytest.raises(AttributeError, match="no attribute 'PydanticAiAdapter'"):
        _ = package.PydanticAiAdapter


def test_a_misspelt_choice_is_refused_when_the_adapter_is_made() -> None:
    """Else tools would be dropped where nobody meant it."""
    choice: Any = "dorp"
    with pytest.raises(UsageError, match="on_unsupported must be one of raise, drop, not 'dorp'"):
        PydanticAIAdapter("test", on_unsupported=choice)


@pytest.mark.parametrize("option", ["goverance", "budgets", "tool_choise"])
def test_a_misspelt_option_is_refused_before_anything_happens(option: str) -> None:
    """A policy or a limit that binds nothing must not look as if it did."""
    session = Session()
    options: dict[str, Any] = {option: None}
    with (
        bench() as (adapter, script),
        pytest.raises(UsageError, match=rf"no option '{option}'; .* governance, tool_choice"),
    ):
        adapter.evaluate(ask(), session=session, **options)

    assert (script.asked, session.turn) == ([], 0)


@pytest.mark.parametrize("provider", SPEECHES)
def test_the_provider_follows_from_the_model(provider: str) -> None:
    """H42: a column of the support matrix, also behind wrappers and among equals."""
    speech = SPEECHES[provider]
    with Server(speech.encode, *[speech.says("Fine.")] * 4) as server:
        plain = speech.model(server.url)
        equals = FallbackModel(plain, speech.model(server.url))
        for model in (plain, InstrumentedModel(plain), WrapperModel(plain), equals):
            session = Session()
            adapter = PydanticAIAdapter(model)
            adapter.evaluate(ask(), session=session)
            adapter.close()

            assert started(session).adapter == provider


async def test_models_of_several_providers_need_to_be_told_whose_rules_hold() -> None:
    """H42: what one of them can do the other may not; nothing is sent before that is settled."""
    with (
        Server(ANTHROPIC.encode, ANTHROPIC.says("Fine.")) as server,
        Server(GOOGLE.encode) as other,
    ):
        both = FallbackModel(ANTHROPIC.model(server.url), GOOGLE.model(other.url))
        with pytest.raises(UsageError, match=r"\(anthropic, google\).* pass provider="):
            await PydanticAIAdapter(both).evaluate_async(ask())
        session = Session()
        found = await PydanticAIAdapter(both, provider="google").evaluate_async(
            ask(), session=session
        )

    assert (found.text, started(session).adapter) == ("Fine.", "google")
    assert (len(server.requests), other.requests) == (1, [])


async def test_the_blocking_call_says_what_to_await_in_a_loop() -> None:
    """Blocking a running loop would stop everything in it, the answer included."""
    with bench() as (adapter, script):
        with pytest.raises(UsageError, match="await evaluate_async instead"):
            adapter.evaluate(ask())
        with pytest.raises(UsageError, match="await resume_async instead"):
            adapter.resume(ask(), session=Session())

    assert script.asked == []


@pytest.mark.parametrize("is_named", [True, False], ids=["by_name", "given"])
def test_one_adapter_serves_several_loops_and_threads(
    is_named: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Connections belong to a loop: a model by name is made in each, a given one is renewed."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    with Server(ANTHROPIC.encode, *[ANTHROPIC.says("Fine.")] * 7) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        model = "anthropic:claude-sonnet-5" if is_named else ANTHROPIC.model(server.url)
        adapter = PydanticAIAdapter(model)

        async def once() -> str:
            found = await adapter.evaluate_async(ask())
            await adapter.aclose()
            return found.text

        texts = [asyncio.run(once()), adapter.evaluate(ask()).text, asyncio.run(once())]
        with ThreadPoolExecutor(4) as pool:
            others = [pool.submit(adapter.evaluate, ask()) for _ in range(4)]
        texts += [each.result().text for each in others]
        adapter.close()

    assert texts == ["Fine."] * 7


def test_a_model_that_was_given_has_connections_in_every_loop() -> None:
    """A client that was made in a loop that is gone is no use in the next one."""
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    with Server(ANTHROPIC.encode, *[ANTHROPIC.says("Fine.")] * 2) as server:
        provider = AnthropicProvider(api_key=KEY, base_url=server.url)
        adapter = PydanticAIAdapter(AnthropicModel("claude-sonnet-5", provider=provider))

        async def once() -> Any:
            await adapter.evaluate_async(ask())
            connections: Any = provider.client._client  # pyright: ignore[reportPrivateUsage]
            return connections

        first, second = asyncio.run(once()), asyncio.run(once())

    assert first is not second
    asyncio.run(second.aclose())


def portals() -> list[threading.Thread]:
    """The threads that blocking calls wait for."""
    return [thread for thread in threading.enumerate() if thread.name == "toolcrib-portal"]


def test_closing_ends_what_was_made_and_leaves_the_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever made a model closes it; no thread is left behind."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    before = set(portals())
    with Server(ANTHROPIC.encode, *[ANTHROPIC.says("Fine.")] * 3) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        made = PydanticAIAdapter("anthropic:claude-sonnet-5")
        made.evaluate(ask())
        made.close()
        given = ANTHROPIC.model(server.url)
        for _ in range(2):
            adapter = PydanticAIAdapter(given)
            assert adapter.evaluate(ask()).text == "Fine."
            adapter.close()

    # Adapters of other tests may still have theirs.
    assert set(portals()) <= before


async def test_evaluations_run_side_by_side() -> None:
    """Two prompts on one adapter do not wait for each other, nor mix."""
    met = asyncio.Barrier(2)

    async def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        await met.wait()
        prompt: Any = messages[0].parts[0]
        return ModelResponse([TextPart(prompt.content[0])])

    adapter = PydanticAIAdapter(FunctionModel(respond))
    work = [adapter.evaluate_async(ask(text=text)) for text in ("One?", "Two?")]
    found: list[PromptResponse[Any]] = await asyncio.wait_for(asyncio.gather(*work), PATIENCE)

    assert [each.text for each in found] == ["## Task\n\nOne?", "## Task\n\nTwo?"]


async def test_a_cancelled_evaluation_stops() -> None:
    """Cancellation goes through to the tools, and nothing more is asked."""
    begun = asyncio.Event()

    @tool
    async def forever() -> str:
        """Never return."""
        begun.set()
        await asyncio.Event().wait()
        return ""

    session = Session()
    with bench(call("forever")) as (adapter, script):
        work = asyncio.create_task(adapter.evaluate_async(ask(forever), session=session))
        await begun.wait()
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work

    assert [entry.what for entry in session.transcript()] == ["cancelled"]
    assert len(script.asked) == 1


def test_a_model_that_cannot_stream_says_so() -> None:
    """What a model does not have is told in phase render, because nothing was sent."""

    async def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse([TextPart("Fine.")])

    class Whole(FunctionModel):
        """Has what every model has, and that is no stream."""

        request_stream = Model.request_stream

    adapter = PydanticAIAdapter(Whole(respond))
    with pytest.raises(PromptEvaluationError, match="Streamed requests not supported") as caught:
        adapter.evaluate(ask(), stream=True)
    found = adapter.evaluate(ask())
    adapter.close()

    assert (caught.value.phase, found.text) == ("render", "Fine.")


def test_an_adapter_says_what_it_is() -> None:
    """The adapter's name and its model's, for whoever is given one."""
    adapter = PydanticAIAdapter(scripted(model_name="some-model"))

    assert (adapter.name, adapter.model) == ("pydantic-ai", "some-model")
    assert PydanticAIAdapter("anthropic:claude-sonnet-5").model == "anthropic:claude-sonnet-5"

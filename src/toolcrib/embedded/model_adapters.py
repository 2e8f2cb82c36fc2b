"""The short ways to adapters for a chat endpoint and for a written scenario."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolcrib.embedded.adapter import EmbeddedAdapter

if TYPE_CHECKING:
    import os


def chat_endpoint(
    url: str, model: str, *, api_key: str = "none", seconds: float = 600.0
) -> EmbeddedAdapter:
    """An adapter for a chat endpoint in the manner of OpenAI's: Ollama, vLLM, LM Studio, llama.cpp.

    `url` is the base address, such as `http://localhost:11434/v1`, and `seconds` the time that one
    answer may take.
    """
    from toolcrib.embedded.backends.chat import ChatBackend
    from toolcrib.embedded.provider import EmbeddedProvider

    backend = ChatBackend(model, base_url=url, api_key=api_key, seconds=seconds)
    return EmbeddedAdapter(EmbeddedProvider(backend))


def scripted_model(scenario: str | os.PathLike[str]) -> EmbeddedAdapter:
    """An adapter for a model that follows a scenario file: it needs no key and no network."""
    from toolcrib.embedded.backends.scenarios.backend import ScriptedBackend
    from toolcrib.embedded.backends.scenarios.scenario import load_scenario
    from toolcrib.embedded.provider import EmbeddedProvider

    return EmbeddedAdapter(EmbeddedProvider(ScriptedBackend(load_scenario(scenario))))

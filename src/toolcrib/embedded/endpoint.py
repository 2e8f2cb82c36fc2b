"""The short way to an adapter for any chat endpoint."""

from __future__ import annotations

from toolcrib.embedded.adapter import EmbeddedAdapter


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

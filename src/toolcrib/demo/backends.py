"""The model of the demo: a scenario, llama.cpp, a chat endpoint, or OpenAI."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from toolcrib.demo.story import SCENARIO, SITE_URL
from toolcrib.errors import UsageError

if TYPE_CHECKING:
    from toolcrib.embedded.backend import ModelBackend

DemoBackendName = Literal["scripted", "llama", "chat", "openai"]


@dataclass(frozen=True, slots=True)
class BackendChoice:
    """The chosen backend. `base_url` is the address of a chat endpoint."""

    backend: DemoBackendName
    model: str | None = None
    base_url: str | None = None

    @property
    def told(self) -> str:
        """A description for the screen."""
        match self.backend:
            case "scripted":
                return "a written scenario (no model); its facts come from the tools of this run"
            case "llama":
                return f"the model {self.model or 'qwen2.5-coder-1.5b'} in this process"
            case "chat":
                return f"the model {self.model} at {self.base_url}"
            case "openai":
                return f"OpenAI's {self.model}"

    @property
    def provider(self) -> str:
        """Where the tools of the provider run."""
        return "OpenAI" if self.backend == "openai" else "embedded"


@dataclass(frozen=True, slots=True)
class ModelAccess:
    """A client of the OpenAI SDK, and the model name."""

    client: Any
    model: str


@asynccontextmanager
async def open_model(choice: BackendChoice, data: Path, site: Path) -> AsyncGenerator[ModelAccess]:
    """Open access to the chosen model. An embedded provider searches the pages of `site`. Raises
    `UsageError`.
    """
    if choice.backend == "openai":
        from openai import AsyncOpenAI

        async with AsyncOpenAI() as client:
            yield ModelAccess(client, choice.model or "gpt-5-mini")
        return
    from toolcrib.embedded import EmbeddedProvider
    from toolcrib.embedded.search.embedder import MiniLmEmbedder
    from toolcrib.embedded.web.folder import WebFolder

    backend = _backend(choice)
    embedder = MiniLmEmbedder() if MiniLmEmbedder.is_installed() else None
    web = [WebFolder(site, SITE_URL)]
    provider = EmbeddedProvider(backend, data=data, web=web, embedder=embedder)
    async with provider, provider.client() as client:
        yield ModelAccess(client, backend.name)


def _backend(choice: BackendChoice) -> ModelBackend:
    if choice.backend == "llama":
        from toolcrib.embedded.backends.llama.backend import LlamaBackend

        return LlamaBackend(choice.model) if choice.model else LlamaBackend()
    if choice.backend == "chat":
        from toolcrib.embedded.backends.chat import ChatBackend

        if choice.model is None or choice.base_url is None:
            raise UsageError("a chat endpoint needs --base-url and --model")
        key = os.environ.get("OPENAI_API_KEY", "none")
        return ChatBackend(choice.model, base_url=choice.base_url, api_key=key)
    from toolcrib.embedded.backends.scenarios.backend import ScriptedBackend

    return ScriptedBackend.from_file(SCENARIO)


def choose_backend(backend: str | None, model: str | None, base_url: str | None) -> BackendChoice:
    """Choose the backend from the options and the environment. Raises `UsageError`."""
    if base_url is not None:
        return BackendChoice("chat", model, base_url)
    if backend is None and os.environ.get("OPENAI_API_KEY") and model is not None:
        return BackendChoice("openai", model)
    if backend not in (None, "scripted", "llama", "openai"):
        raise UsageError(f"unknown backend {backend!r}; there are scripted, llama and openai")
    if backend == "openai" and not os.environ.get("OPENAI_API_KEY"):
        raise UsageError("OpenAI needs OPENAI_API_KEY")
    match backend:
        case "llama":
            return BackendChoice("llama", model)
        case "openai":
            return BackendChoice("openai", model)
        case _:
            return BackendChoice("scripted")

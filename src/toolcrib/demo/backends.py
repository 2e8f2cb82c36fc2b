"""Who answers: the scenario, a model in this process, a model elsewhere, or OpenAI."""

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
    from toolcrib.embedded.backend import Brain

BrainName = Literal["scripted", "local", "chat", "openai"]


@dataclass(frozen=True, slots=True)
class Asked:
    """Which brain is wanted. A `base_url` is of a chat endpoint."""

    brain: BrainName
    model: str | None = None
    base_url: str | None = None

    @property
    def told(self) -> str:
        """Who answers, for the screen."""
        match self.brain:
            case "scripted":
                return "a written scenario (no model); its facts come from the tools of this run"
            case "local":
                return f"the model {self.model or 'qwen2.5-coder-1.5b'} in this process"
            case "chat":
                return f"the model {self.model} at {self.base_url}"
            case "openai":
                return f"OpenAI's {self.model}"

    @property
    def provider(self) -> str:
        """Where the tools of the provider run."""
        return "OpenAI" if self.brain == "openai" else "local provider"


@dataclass(frozen=True, slots=True)
class Line:
    """A client of the SDK's, and the model to ask for."""

    client: Any
    model: str


@asynccontextmanager
async def reached(asked: Asked, data: Path, site: Path) -> AsyncGenerator[Line]:
    """The way to whoever answers; a provider of ours searches the pages of `site`. Raises
    `UsageError`.
    """
    if asked.brain == "openai":
        from openai import AsyncOpenAI

        async with AsyncOpenAI() as client:
            yield Line(client, asked.model or "gpt-5-mini")
        return
    from toolcrib.embedded import LocalProvider
    from toolcrib.embedded.search.embedder import MiniLm
    from toolcrib.embedded.web.folder import WebFolder

    brain = _brain(asked)
    embedder = MiniLm() if MiniLm.is_installed() else None
    web = [WebFolder(site, SITE_URL)]
    provider = LocalProvider(brain, data=data, web=web, embedder=embedder)
    async with provider, provider.client() as client:
        yield Line(client, brain.name)


def _brain(asked: Asked) -> Brain:
    if asked.brain == "local":
        from toolcrib.embedded.backends.llama.backend import LocalBrain

        return LocalBrain(asked.model) if asked.model else LocalBrain()
    if asked.brain == "chat":
        from toolcrib.embedded.backends.chat import ChatBrain

        if asked.model is None or asked.base_url is None:
            raise UsageError("a chat endpoint needs --base-url and --model")
        key = os.environ.get("OPENAI_API_KEY", "none")
        return ChatBrain(asked.model, base_url=asked.base_url, api_key=key)
    from toolcrib.embedded.backends.scripted.backend import ScriptedBrain

    return ScriptedBrain.from_file(SCENARIO)


def choose(brain: str | None, model: str | None, base_url: str | None) -> Asked:
    """What a person asked for. Raises `UsageError`."""
    if base_url is not None:
        return Asked("chat", model, base_url)
    if brain is None and os.environ.get("OPENAI_API_KEY") and model is not None:
        return Asked("openai", model)
    if brain not in (None, "scripted", "local", "openai"):
        raise UsageError(f"there is no brain {brain!r}; there are scripted, local and openai")
    if brain == "openai" and not os.environ.get("OPENAI_API_KEY"):
        raise UsageError("OpenAI needs OPENAI_API_KEY")
    match brain:
        case "local":
            return Asked("local", model)
        case "openai":
            return Asked("openai", model)
        case _:
            return Asked("scripted")

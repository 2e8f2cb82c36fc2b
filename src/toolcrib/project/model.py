"""The adapter of a project's model, from the short forms of the file."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING

from toolcrib.errors import InvalidProject, UsageError
from toolcrib.extras import install_command

if TYPE_CHECKING:
    from toolcrib.adapters.prompt_adapter import PromptAdapter
    from toolcrib.embedded.backend import ModelBackend
    from toolcrib.embedded.file_repository import SharedFiles
    from toolcrib.project.project import ChatEndpoint, EmbeddedModel, ModelChoice


def is_chosen(model: ModelChoice) -> bool:
    """Whether a project names a model at all."""
    forms = (model.adapter, model.openai, model.pydantic_ai, model.chat, model.embedded)
    return any(form is not None for form in forms)


def adapter_of(model: ModelChoice) -> PromptAdapter | None:
    """The adapter that a project names. Raises `UsageError`; None when it names none."""
    if model.adapter is not None:
        return named_adapter(model.adapter, "model.adapter")
    if model.openai is not None:
        _require("openai", "openai", "model.openai")
        from toolcrib.adapters.openai import OpenAIAdapter

        return OpenAIAdapter(model=model.openai)
    if model.pydantic_ai is not None:
        _require("pydantic_ai", "pydantic-ai", "model.pydantic_ai")
        from toolcrib.adapters.pydantic_ai import PydanticAIAdapter

        return PydanticAIAdapter(model.pydantic_ai)
    if model.chat is not None:
        _require("openai", "openai", "model.chat")
        from toolcrib.embedded import chat_endpoint

        chat = model.chat
        return chat_endpoint(chat.url, chat.model, api_key=_key(chat))
    return None if model.embedded is None else _embedded(model.embedded)


def named_adapter(place: str, origin: str) -> PromptAdapter:
    """The adapter at `MODULE:NAME`; `origin` is the flag or the key that names it."""
    from toolcrib.adapters.prompt_adapter import PromptAdapter
    from toolcrib.host_tools.python_modules import import_named

    module, _, name = place.partition(":")
    adapter = getattr(import_named(module), name or "adapter", None)
    if not isinstance(adapter, PromptAdapter):
        raise UsageError(f"{origin} {place} is no adapter; write MODULE:NAME of an adapter")
    return adapter


def _embedded(model: EmbeddedModel) -> PromptAdapter:
    _require("openai", "openai", "model.embedded")
    from toolcrib.embedded import EmbeddedAdapter, EmbeddedProvider

    provider = EmbeddedProvider(
        _backend(model),
        data=model.data,
        shared_files=None if model.files is None else _shared_files(model.files),
        allow_network=bool(model.allow_network),
        allow_unconfined=bool(model.allow_unconfined),
    )
    return EmbeddedAdapter(provider)


def _shared_files(url: str) -> SharedFiles:
    _require("boto3", "s3", "model.embedded.files")
    from toolcrib.embedded.s3_files import S3Files

    return S3Files(url)


def _backend(model: EmbeddedModel) -> ModelBackend:
    chosen = [
        form for form in (model.scenario, model.llama or None, model.chat) if form is not None
    ]
    if len(chosen) != 1:
        raise InvalidProject("model.embedded: write one of scenario, llama and chat")
    if model.scenario is not None:
        from toolcrib.embedded.backends.scenarios.backend import ScriptedBackend

        return ScriptedBackend.from_file(model.scenario)
    if model.chat is not None:
        from toolcrib.embedded.backends.chat import ChatBackend

        chat = model.chat
        return ChatBackend(chat.model, base_url=chat.url, api_key=_key(chat))
    _require("xllamacpp", "llama", "model.embedded.llama")
    from toolcrib.embedded.backends.llama.backend import LlamaBackend

    return LlamaBackend(model.llama) if isinstance(model.llama, str) else LlamaBackend()


def _key(chat: ChatEndpoint) -> str:
    if chat.api_key_env is None:
        return "none"
    key = os.environ.get(chat.api_key_env, "")
    if not key:
        raise UsageError(f"the variable {chat.api_key_env} of api_key_env is not set; set it")
    return key


def _require(module: str, extra: str, key: str) -> None:
    if find_spec(module) is None:
        raise UsageError(f"{key} needs {module}; install it with: {install_command(extra)}")

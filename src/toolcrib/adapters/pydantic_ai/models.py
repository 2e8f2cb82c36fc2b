"""The model of an adapter: made from its name, its provider, and the keys to redact."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from functools import reduce
from typing import TYPE_CHECKING, Any, Final, cast
from weakref import WeakKeyDictionary

from toolcrib.adapters.pydantic_ai.patched_models.private_api import (
    client_keys,
    refresh_connections,
)
from toolcrib.errors import UsageError
from toolcrib.extras import install_command

if TYPE_CHECKING:
    from pydantic_ai.models import Model


_PROVIDERS: Final = {
    "AnthropicModel": "anthropic",
    "BedrockConverseModel": "bedrock",
    "GoogleModel": "google",
    "GroqModel": "groq",
    "MistralModel": "mistral",
    "OpenAIResponsesModel": "openai-responses",
    "OpenRouterModel": "openrouter",
    "XaiModel": "xai",
    # Last, because others are built on it.
    "OpenAIChatModel": "openai-chat",
}


class ModelSource:
    """The model of an adapter. A name becomes a model of its own in each event loop, because
    connections belong to the loop that opened them; a model is used as it is.
    """

    def __init__(self, model: Model | str) -> None:
        self._model = model
        self._by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, Model] = WeakKeyDictionary()
        self._sample: Model | None = None
        if not model or not (isinstance(model, str) or hasattr(model, "request_stream")):
            raise UsageError(
                "model must be a pydantic-ai model or the name of one, like "
                f"'anthropic:claude-sonnet-5', not {model!r}"
            )

    @property
    def name(self) -> str:
        """The name of the model."""
        return self._model if isinstance(self._model, str) else self._model.model_name

    def here(self) -> Model:
        """The model for the running loop."""
        if not isinstance(self._model, str):
            refresh_connections(self._model)
            return self._model
        loop = asyncio.get_running_loop()
        if loop not in self._by_loop:
            self._by_loop[loop] = _make(self._model)
        return self._by_loop[loop]

    def sample(self) -> Model:
        """A model to look at, not to send requests with: no event loop is needed."""
        if not isinstance(self._model, str):
            return self._model
        if self._sample is None:
            self._sample = _make(self._model)
        return self._sample

    async def close_here(self) -> None:
        """Close the connections of the running loop's model, if it was made from a name."""
        model = self._by_loop.pop(asyncio.get_running_loop(), None)
        if model is not None:
            # A model counts its users; the last one to leave closes the connections.
            async with model:
                pass


def inner_models(model: Any) -> Iterator[Any]:
    """The models that send requests: those inside wrappers, and the members of a fallback."""
    inner = getattr(model, "wrapped", None)
    members: Any = getattr(model, "models", None)
    if inner is not None:
        yield from inner_models(inner)
    elif isinstance(members, list | tuple) and members:
        for member in cast("list[Any]", members):
            yield from inner_models(member)
    else:
        yield model


def provider_of(model: Any) -> str:
    """The column of the support matrix that a model belongs to, or its own name for its provider.

    Raises `UsageError` for a fallback between providers.
    """
    providers = sorted({_column(member) for member in inner_models(model)})
    if len(providers) > 1:
        raise UsageError(
            f"the model falls back from one provider to another ({', '.join(providers)}), which "
            "support different options; pass provider= to say whose rules hold"
        )
    return providers[0]


def system_of(model: Any) -> str:
    """The model's own name for its provider; of several models, the first one's."""
    return str(next(inner_models(model)).system)


def _column(model: Any) -> str:
    ancestry = {base.__name__ for base in type(model).__mro__}
    key = next((key for name, key in _PROVIDERS.items() if name in ancestry), None)
    if key == "google" and getattr(model, "canonical_system", "google") == "google-cloud":
        return "google-vertex"
    return key or str(model.system)


def _make(name: str) -> Model:
    try:
        from pydantic_ai.exceptions import UserError
        from pydantic_ai.models import infer_model
    except ImportError:
        raise UsageError(
            f"pydantic-ai is not installed; run: {install_command('pydantic-ai')}"
        ) from None
    try:
        return infer_model(name)
    except (UserError, ImportError, ValueError) as error:
        raise UsageError(f"cannot make a model from the name {name!r}: {error}") from error


def keys_of(model: Any) -> list[str]:
    """The keys of all SDK clients of a model."""
    return list(dict.fromkeys(key for member in inner_models(model) for key in _keys(member)))


def _keys(model: Any) -> Iterator[str]:
    for path in ("", "client", "provider", "provider.client"):
        client = _attribute(model, path)
        if client is not None:
            yield from client_keys(client)


def _attribute(model: Any, path: str) -> Any:
    # A property of a model may need credentials, and fail without them.
    with suppress(Exception):
        return reduce(getattr, filter(None, path.split(".")), model)
    return None

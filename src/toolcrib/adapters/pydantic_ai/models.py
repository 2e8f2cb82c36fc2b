"""Which model a name means, and which provider speaks through it.

The keys that a model reaches its provider with, so that no error repeats them.
"""

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


class Models:
    """The model of an adapter. A name becomes a model of its own in each event loop, because
    connections belong to the loop they were opened in; a model that was given is used as it is.
    """

    def __init__(self, given: Model | str) -> None:
        self._given = given
        self._made: WeakKeyDictionary[asyncio.AbstractEventLoop, Model] = WeakKeyDictionary()
        if not given or not (isinstance(given, str) or hasattr(given, "request_stream")):
            raise UsageError(
                "model is a model of pydantic-ai or the name of one, like "
                f"'anthropic:claude-sonnet-5', not {given!r}"
            )

    @property
    def name(self) -> str:
        """What the model is called."""
        return self._given if isinstance(self._given, str) else self._given.model_name

    def here(self) -> Model:
        """The model for the running loop."""
        if not isinstance(self._given, str):
            refresh_connections(self._given)
            return self._given
        loop = asyncio.get_running_loop()
        if loop not in self._made:
            self._made[loop] = _make(self._given)
        return self._made[loop]

    async def close_here(self) -> None:
        """Close the connections of the model that was made for the running loop, if one was."""
        model = self._made.pop(asyncio.get_running_loop(), None)
        if model is not None:
            # Entering counts the users of a model's connections; leaving as the last closes them.
            async with model:
                pass


def speakers(model: Any) -> Iterator[Any]:
    """The models that speak to a provider: those behind wrappers, and those that one falls back
    on.
    """
    inner = getattr(model, "wrapped", None)
    members: Any = getattr(model, "models", None)
    if inner is not None:
        yield from speakers(inner)
    elif isinstance(members, list | tuple) and members:
        for each in cast("list[Any]", members):
            yield from speakers(each)
    else:
        yield model


def provider_of(model: Any) -> str:
    """The column of the support matrix that a model belongs to; what it calls itself when it has
    none. Raises `UsageError` for a model that may be several.
    """
    found = sorted({_column(each) for each in speakers(model)})
    if len(found) > 1:
        raise UsageError(
            f"the model falls back from one provider to another ({', '.join(found)}), and what "
            "can be asked of them differs; pass provider= to say whose rules hold"
        )
    return found[0]


def system_of(model: Any) -> str:
    """What the model calls its provider; of several, the first."""
    return str(next(speakers(model)).system)


def _column(model: Any) -> str:
    ancestry = {each.__name__ for each in type(model).__mro__}
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
            "pydantic-ai is not installed; run: pip install 'toolcrib[pydantic-ai]'"
        ) from None
    try:
        return infer_model(name)
    except (UserError, ImportError, ValueError) as error:
        raise UsageError(f"no model could be made of {name!r}: {error}") from error


def keys_of(model: Any) -> list[str]:
    """The keys of all clients that a model speaks through."""
    return list(dict.fromkeys(key for each in speakers(model) for key in _keys(each)))


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

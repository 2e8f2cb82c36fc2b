"""Which model a name means, and which provider speaks through it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

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

    @property
    def name(self) -> str:
        """What the model is called."""
        return self._given if isinstance(self._given, str) else self._given.model_name

    def here(self) -> Model:
        """The model for the running loop."""
        if not isinstance(self._given, str):
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


def provider_of(model: Any) -> str:
    """The column of the support matrix that a model belongs to; what it calls itself when it has
    none. Raises `UsageError` for a model that may be several.
    """
    inner = getattr(model, "wrapped", None)
    if inner is not None:
        return provider_of(inner)
    members = getattr(model, "models", None)
    if isinstance(members, list | tuple) and members:
        found = {provider_of(each) for each in members}  # pyright: ignore[reportUnknownVariableType]
        if len(found) > 1:
            raise UsageError(
                f"the model falls back from one provider to another ({', '.join(sorted(found))}), "
                "and what can be asked of them differs; pass provider= to say whose rules hold"
            )
        return found.pop()
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

"""How a model is replaced by one that leaves nothing out."""

from dataclasses import dataclass
from typing import Any

from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.groq import GroqModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.groq import GroqProvider

from toolcrib.adapters.pydantic_ai.models import provider_of
from toolcrib.adapters.pydantic_ai.patched_models import patch_model
from toolcrib.adapters.pydantic_ai.patched_models.anthropic import PatchedAnthropicModel
from toolcrib.adapters.pydantic_ai.patched_models.groq import PatchedGroqModel


class OwnModel(AnthropicModel):
    """A user's own, with a name of its own for its provider."""

    @property
    def system(self) -> str:
        return "own"


@dataclass(init=False)
class OwnWrapper(WrapperModel):
    """A user's own wrapper, which keeps something."""

    kept: str = "this"


def claude(kind: type[AnthropicModel] = AnthropicModel) -> AnthropicModel:
    return kind("claude-sonnet-5", provider=AnthropicProvider(api_key="x"))


def llama() -> GroqModel:
    return GroqModel("groq/compound", provider=GroqProvider(api_key="x"))


def test_a_model_that_leaves_nothing_out_stays_as_it_is() -> None:
    """Only where something would be lost is anything put in between."""
    model = TestModel()

    assert patch_model(model) is model


def test_the_given_model_is_not_changed() -> None:
    """It may be used elsewhere; both have the same connections."""
    model = claude()

    made = patch_model(model)

    assert type(model) is AnthropicModel
    assert isinstance(made, PatchedAnthropicModel)
    assert made.client is model.client
    assert provider_of(made) == "anthropic"


def test_what_a_subclass_adds_stays() -> None:
    """A model of the user's own keeps what it does its own way."""
    made = patch_model(claude(OwnModel))

    assert isinstance(made, PatchedAnthropicModel)
    assert isinstance(made, OwnModel)
    assert made.system == "own"
    assert patch_model(made) is not made
    assert type(patch_model(made)) is type(made)


def test_models_are_found_behind_wrappers_and_fallbacks() -> None:
    """However deep the models are that speak to a provider."""
    wrapper = OwnWrapper(claude())
    wrapper.kept = "that"

    made: Any = patch_model(FallbackModel(wrapper, llama()))

    first, second = made.models
    assert isinstance(first, OwnWrapper)
    assert first.kept == "that"
    assert isinstance(first.wrapped, PatchedAnthropicModel)
    assert isinstance(second, PatchedGroqModel)
    assert not isinstance(wrapper.wrapped, PatchedAnthropicModel)

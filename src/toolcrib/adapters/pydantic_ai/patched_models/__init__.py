"""Models that keep the content which pydantic-ai drops or fails at, one module per provider."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any, Final, TypeVar, cast

from toolcrib.adapters.pydantic_ai.patched_models.private_api import ModelCopy, check_private_names

ModelT = TypeVar("ModelT")

_PATCHES: Final[Mapping[str, tuple[str, str]]] = {
    "AnthropicModel": ("anthropic", "PatchedAnthropicModel"),
    "BedrockConverseModel": ("bedrock", "PatchedBedrockModel"),
    "GoogleModel": ("google", "PatchedGoogleModel"),
    "GroqModel": ("groq", "PatchedGroqModel"),
    "OpenAIResponsesModel": ("responses", "PatchedResponsesModel"),
}
"""By the name of a class of pydantic-ai: the module and the class that patch it."""


def patch_model(model: ModelT, *, is_member: bool = False) -> ModelT:
    """The model with its patch; itself where no model in it has one.

    The original stays as it is, and both use the same connections. A member of a fallback raises
    where its provider failed, because the next member is asked only then.
    """
    inner: Any = getattr(model, "wrapped", None)
    if inner is not None:
        wrapped = patch_model(inner, is_member=is_member)
        return _copy_class(type(model))(model, wrapped=wrapped)
    members: Any = getattr(model, "models", None)
    if isinstance(members, list | tuple) and members:
        patched = [patch_model(member, is_member=True) for member in cast("list[Any]", members)]
        return _copy_class(type(model))(model, models=patched)
    ancestry = [base.__name__ for base in type(model).__mro__]
    patch = next((_PATCHES[name] for name in ancestry if name in _PATCHES), None)
    if patch is None:
        return model
    return _patched_class(type(model), *patch)(model, raises_failures=is_member)


@cache
def _patched_class(original: type[Any], module: str, name: str) -> type[Any]:
    check_private_names(module)
    patch: type[Any] = getattr(import_module(f"{__name__}.{module}"), name)
    return original if issubclass(original, patch) else type(name, (patch, original), {})


@cache
def _copy_class(original: type[Any]) -> type[Any]:
    if issubclass(original, ModelCopy):
        return original
    return type(original.__name__, (ModelCopy, original), {})

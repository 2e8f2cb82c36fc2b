"""Models that tell all that their providers say, where pydantic-ai leaves something out."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any, Final, TypeVar, cast

M = TypeVar("M")

_TELLING: Final[Mapping[str, tuple[str, str]]] = {
    "AnthropicModel": ("anthropic", "WholeAnthropicModel"),
    "BedrockConverseModel": ("bedrock", "WholeBedrockModel"),
    "GoogleModel": ("google", "WholeGoogleModel"),
    "GroqModel": ("groq", "WholeGroqModel"),
    "OpenAIResponsesModel": ("responses", "WholeResponsesModel"),
}
"""By the name of a model's class: the module here that has a better one, and its name."""


def whole(model: M) -> M:
    """The model as one that leaves nothing out; itself where pydantic-ai leaves nothing out.

    The model that was given stays as it is: both use the same connections.
    """
    inner: Any = getattr(model, "wrapped", None)
    if inner is not None:
        return _like(model, type(model), wrapped=whole(inner))
    members: Any = getattr(model, "models", None)
    if isinstance(members, list | tuple) and members:
        found = [whole(each) for each in cast("list[Any]", members)]
        return _like(model, type(model), models=found)
    ancestry = [each.__name__ for each in type(model).__mro__]
    better = next((_TELLING[name] for name in ancestry if name in _TELLING), None)
    return model if better is None else _like(model, _joined(type(model), *better))


@cache
def _joined(given: type[Any], module: str, name: str) -> type[Any]:
    better: type[Any] = getattr(import_module(f"{__name__}.{module}"), name)
    return given if issubclass(given, better) else type(name, (better, given), {})


def _like(model: M, kind: type[Any], **changes: Any) -> M:
    # Not copy.copy: a wrapper looks up what it does not have in what it wraps, and has nothing yet.
    made = object.__new__(kind)
    made.__dict__.update(model.__dict__, **changes)
    return made

"""`@resource` and `@prompt`: a typed function becomes a resource or a prompt of MCP clients, and
stays a function.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeGuard, TypeVar, Unpack, overload

from toolcrib.features.declaration import (
    Feature,
    FeatureFacts,
    ResourceFacts,
    ServedPrompt,
    ServedResource,
)
from toolcrib.tools.signature import summary

P = ParamSpec("P")
R = TypeVar("R")


class FunctionFeature(Generic[P, R]):
    """A function that is also a resource or a prompt: call it as before, or register it."""

    __wrapped__: Callable[P, R]
    __name__: str

    def __init__(self, function: Callable[P, R], feature: Feature) -> None:
        functools.update_wrapper(self, function)
        self.feature = feature

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function itself; nothing is decided or recorded."""
        return self.__wrapped__(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<{self.feature.key}: {self.__wrapped__!r}>"


AnyFeature = FunctionFeature[..., Any] | ServedResource | ServedPrompt
"""A resource or a prompt, decorated or declared."""


def is_feature(value: object) -> TypeGuard[AnyFeature]:
    """Whether something is a resource or a prompt."""
    return isinstance(value, FunctionFeature | ServedResource | ServedPrompt)


def as_feature(feature: AnyFeature) -> Feature:
    """The declaration of a feature."""
    return feature.feature if isinstance(feature, FunctionFeature) else feature


def resource(
    uri: str, /, **facts: Unpack[ResourceFacts]
) -> Callable[[Callable[P, R]], FunctionFeature[P, R]]:
    """Make a resource of a function, sync or async, or a template when the URI has variables.

    The variables are the typed parameters of the function: `@resource("stock://{item}")`. Text,
    bytes, and what can be written as JSON may be returned, or `ResourceContent`. The name is the
    function's and the description its docstring.
    """

    def declare(function: Callable[P, R]) -> FunctionFeature[P, R]:
        return FunctionFeature(
            function, ServedResource(uri=uri, function=function, **_named(function, facts))
        )

    return declare


@overload
def prompt(function: Callable[P, R], /) -> FunctionFeature[P, R]: ...


@overload
def prompt(
    **facts: Unpack[FeatureFacts],
) -> Callable[[Callable[P, R]], FunctionFeature[P, R]]: ...


def prompt(function: Callable[..., Any] | None = None, /, **facts: Unpack[FeatureFacts]) -> Any:
    """Make a prompt of a function, sync or async. Its arguments are the typed parameters, described
    in the docstring under `Args`. It returns a text, a `PromptMessage`, or a list of them.
    """

    def declare(function: Callable[..., Any]) -> FunctionFeature[..., Any]:
        return FunctionFeature(function, ServedPrompt(function=function, **_named(function, facts)))

    return declare if function is None else declare(function)


def _named(function: Callable[..., Any], facts: FeatureFacts | ResourceFacts) -> dict[str, Any]:
    named: dict[str, Any] = {"name": getattr(function, "__name__", ""), **facts}
    if "description" not in named:
        named["description"] = summary(function) or None
    return named

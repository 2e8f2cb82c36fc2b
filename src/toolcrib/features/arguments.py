"""Typed arguments of resources and prompts, which come as text, and what completes them."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, TypeAlias, Union, cast, get_args, get_origin

from toolcrib.errors import CallEnded, InvalidTool
from toolcrib.tools.signature import (
    Signature,
    argument_descriptions,
    read_signature,
    resolve_types,
)

Completer: TypeAlias = Callable[..., Iterable[str] | Awaitable[Iterable[str]]]
"""Gives the values that complete a beginning: `complete(value)`, or `complete(value, arguments)`
with the arguments that are known already. `def` and `async def` both work."""

Completions: TypeAlias = Mapping[str, Sequence[str] | Completer]

MAX_COMPLETIONS: Final = 100
"""The protocol allows no more in one answer."""


@dataclass(frozen=True, slots=True)
class ArgumentCompletion:
    """The values that complete the beginning of an argument. `total` counts those left out too."""

    values: tuple[str, ...] = ()
    total: int | None = None
    has_more: bool = False

    @classmethod
    def of(cls, values: Iterable[str]) -> ArgumentCompletion:
        """As many of the values as the protocol allows."""
        listed = list(values)
        kept = tuple(str(value) for value in listed[:MAX_COMPLETIONS])
        return cls(kept, len(listed), len(listed) > MAX_COMPLETIONS)


@dataclass(frozen=True)
class FeatureArguments:
    """The arguments of the function behind a resource or a prompt."""

    function: Callable[..., Any]
    owner: str
    """What an error names: `resource 'stock://{item}'`."""
    completions: Completions = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        names = {argument.name for argument in self.signature.arguments}
        for name, completer in self.completions.items():
            if name not in names:
                raise InvalidTool(f"{self.owner}: completions names {name!r}, which no argument is")
            is_list = isinstance(completer, list | tuple)
            if not is_list and not callable(cast("object", completer)):
                raise InvalidTool(
                    f"{self.owner}: completions of {name!r} must be a list or a function"
                )

    @cached_property
    def signature(self) -> Signature:
        """The parameters that a client fills, and the one that takes the context."""
        return read_signature(self.function, self.owner)

    @cached_property
    def descriptions(self) -> dict[str, str]:
        """What the docstring says about each."""
        return argument_descriptions(self.function)

    @cached_property
    def _types(self) -> dict[str, Any]:
        return resolve_types(self.function, self.signature, self.owner)

    @cached_property
    def _adapters(self) -> dict[str, Any]:
        from pydantic import TypeAdapter

        return {name: TypeAdapter(annotation) for name, annotation in self._types.items()}

    def check(self) -> None:
        """Raise `InvalidTool` for a type that no text can be read as."""
        from pydantic.errors import PydanticUserError

        try:
            _ = self._adapters
        except PydanticUserError as error:
            raise InvalidTool(f"{self.owner}: {error.message}") from None

    def read(self, texts: Mapping[str, str], context: object) -> dict[str, Any]:
        """The keywords of a call. Raises `CallEnded` (invalid_arguments)."""
        signature = self.signature
        known = {argument.name for argument in signature.arguments}
        unknown = sorted(texts.keys() - known)
        if unknown:
            self._refuse(f"there is no argument {unknown[0][:100]!r}")
        keywords: dict[str, Any] = {}
        for argument in signature.arguments:
            if argument.name in texts:
                keywords[argument.name] = self._typed(argument.name, texts[argument.name])
            elif argument.is_required:
                self._refuse(f"the argument {argument.name!r} is missing")
        if signature.context is not None:
            keywords[signature.context] = context
        return keywords

    def _typed(self, name: str, text: str) -> Any:
        from pydantic import ValidationError

        adapter = self._adapters[name]
        try:
            return adapter.validate_strings(text)
        except ValidationError as error:
            fault = error.errors(include_url=False, include_input=False)[0]["msg"]
        try:
            # A list or an object comes as JSON: the protocol knows only texts.
            return adapter.validate_json(text)
        except ValidationError:
            self._refuse(f"the argument {name!r}: {fault}")

    def _refuse(self, fault: str) -> Any:
        raise CallEnded("invalid_arguments", f"The {self.owner}: {fault}.")

    @property
    def can_complete(self) -> bool:
        """Whether any argument has values to complete."""
        return bool(self.completions) or any(
            _choices(self._types[argument.name]) for argument in self.signature.arguments
        )

    async def complete(
        self, name: str, value: str, arguments: Mapping[str, str]
    ) -> ArgumentCompletion:
        """The values that begin with `value`; those of a function are given as they are."""
        source = self.completions.get(name)
        if source is None:
            annotation = self._types.get(name)
            source = _choices(annotation) if annotation is not None else ()
        if not callable(source):
            begin = value.casefold()
            return ArgumentCompletion.of(
                each for each in source if each.casefold().startswith(begin)
            )
        takes_both = len(inspect.signature(source).parameters) > 1
        values = source(value, dict(arguments)) if takes_both else source(value)
        return ArgumentCompletion.of(await values if inspect.isawaitable(values) else values)


def _choices(annotation: Any) -> tuple[str, ...]:
    """The values of an enumeration or a `Literal`; nothing for any other type."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _choices(get_args(annotation)[0])
    if origin in (Union, UnionType):
        parts = [part for part in get_args(annotation) if part is not NoneType]
        return _choices(parts[0]) if len(parts) == 1 else ()
    if origin is Literal:
        return tuple(str(value) for value in get_args(annotation))
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return tuple(str(cast("Any", member).value) for member in annotation)
    return ()

"""Fallbacks: a local tool that replaces a hosted one where the provider lacks its kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from toolcrib.errors import InvalidTool
from toolcrib.tools.decorator import FunctionTool
from toolcrib.tools.prepared_tool import as_tool
from toolcrib.tools.tool import Tool

C = TypeVar("C")

LocalTool = Tool[Any, Any] | FunctionTool[..., Any]


@dataclass(frozen=True, slots=True)
class Fallback(Generic[C]):
    """Makes a local tool from the options of the hosted tool that it replaces.

    `honours` names the options that the local tool obeys, as the support matrix spells them
    (`domain_filter` stands for all of its parts). If any other option is set, the fallback is not
    used: a search that ignored its allowed domains would be another search.
    """

    make: Callable[[C], LocalTool] = field(hash=False)
    honours: frozenset[str] = frozenset()

    def __init__(
        self,
        make: Callable[[C], LocalTool],
        honours: Iterable[str] = (),
    ) -> None:
        if isinstance(honours, str):
            raise InvalidTool(f"honours is a set of names, like {{{honours!r}}}, not one text")
        object.__setattr__(self, "make", make)
        object.__setattr__(self, "honours", frozenset(honours))

    def not_honoured(self, options: Iterable[str]) -> list[str]:
        """Return the options that the local tool would ignore."""
        return [option for option in options if not self._honours(option)]

    def _honours(self, option: str) -> bool:
        parts = option.split(".")
        return any(".".join(parts[:end]) in self.honours for end in range(1, len(parts) + 1))


AnyFallback = LocalTool | Fallback[C] | None
"""A local tool, or how to make one from the options; `None` for no fallback."""


def as_fallback(fallback: LocalTool | Fallback[Any]) -> Fallback[Any]:
    """Wrap a plain tool in a `Fallback` that honours no option."""
    return fallback if isinstance(fallback, Fallback) else Fallback(lambda _: fallback)


def check_fallback(name: str, fallback: object) -> None:
    """Refuse a fallback that cannot run locally."""
    if fallback is not None and not isinstance(fallback, Fallback):
        local_tool(name, fallback)


def local_tool(name: str, fallback: object) -> Tool[Any, Any]:
    """Return the fallback of the tool `name`. Refuses what is no tool, or runs at the provider."""
    try:
        tool = as_tool(fallback)
    except InvalidTool as error:
        raise InvalidTool(f"tool {name!r}: its fallback is not a tool: {error}") from error
    if tool.place == "provider":
        raise InvalidTool(
            f"tool {name!r}: its fallback {tool.name!r} has no handler; name a tool that runs here"
        )
    return tool

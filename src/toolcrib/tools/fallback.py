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
    """Makes the local tool from the hosted tool's options.

    `honours` names the options that the tool it makes keeps to, as the support matrix spells them
    (`domain_filter` stands for all of its parts). An option that is set and not named here is a
    reason not to use the tool: a search that ignored its allowed domains would be another search.
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
        """Those of the options that are set which the tool would ignore."""
        return [option for option in options if not self._keeps_to(option)]

    def _keeps_to(self, option: str) -> bool:
        parts = option.split(".")
        return any(".".join(parts[:end]) in self.honours for end in range(1, len(parts) + 1))


AnyFallback = LocalTool | Fallback[C] | None
"""A local tool, by itself or made from the options; None when nothing takes the place."""


def as_fallback(fallback: LocalTool | Fallback[Any]) -> Fallback[Any]:
    """A tool that is given as it is honours no option."""
    return fallback if isinstance(fallback, Fallback) else Fallback(lambda _: fallback)


def check_fallback(name: str, fallback: object) -> None:
    """Refuse what cannot run here in a hosted tool's place."""
    if fallback is not None and not isinstance(fallback, Fallback):
        local_tool(name, fallback)


def local_tool(name: str, fallback: object) -> Tool[Any, Any]:
    """The fallback of the tool `name`, unless it is no tool, or one that a provider would run."""
    try:
        tool = as_tool(fallback)
    except InvalidTool as error:
        raise InvalidTool(f"tool {name!r}: its fallback is no tool: {error}") from error
    if tool.place == "provider":
        raise InvalidTool(
            f"tool {name!r}: its fallback {tool.name!r} has no handler; name a tool that runs here"
        )
    return tool

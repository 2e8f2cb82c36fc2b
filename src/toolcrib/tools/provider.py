"""A tool that exists on one provider only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

from toolcrib.errors import InvalidTool
from toolcrib.tools import rules
from toolcrib.tools.hosted import check_frozen_config
from toolcrib.tools.tool import Tool

if TYPE_CHECKING:
    from toolcrib.tools.context import ToolContext
    from toolcrib.tools.ref import Place
    from toolcrib.tools.result import ToolResult

P = TypeVar("P")
R = TypeVar("R")
C = TypeVar("C")

OutputHook: TypeAlias = "Callable[[R, ToolContext], ToolResult[R] | None]"
"""Turns the provider's typed output into the tool's result; None leaves it to the default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderTool(Tool[P, R], Generic[P, R, C]):
    """A tool bound to one provider.

    Without a handler the provider runs it. With a handler the provider only defines its shape and
    this process runs it, as with a patch or a local shell.
    """

    accepts_overrides: bool = False
    provider: str
    config: C = field(hash=False)
    handle_provider_output: OutputHook[R] | None = None

    def __post_init__(self) -> None:
        super(ProviderTool, self).__post_init__()
        if not isinstance(self.provider, str) or not self.provider.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidTool(
                f"tool {self.name!r}: provider must name a provider, like 'openai'; "
                f"it is {self.provider!r}"
            )
        if self.config is not None:
            check_frozen_config(self.name, self.config)
        rules.check_callable(self.name, "handle_provider_output", self.handle_provider_output)

    @property
    def place(self) -> Place:
        """Here when there is a handler, else the provider."""
        return "provider" if self.handler is None else "local"

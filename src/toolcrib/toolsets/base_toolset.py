"""What every toolset offers, to programs and to pydantic-ai agents."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Self, overload

from toolcrib.toolsets.hookable import HookableToolsetTool
from toolcrib.toolsets.joining import LIBRARY, Apart, when_imported

if TYPE_CHECKING:
    from pydantic_ai import RunContext
    from pydantic_ai.toolsets import AbstractToolset, ToolsetTool

    Base = AbstractToolset[Any]
else:
    Base = Apart


class BaseToolset(Base):
    """Tools that also tell the model how to use them.

    A subclass of pydantic-ai's `AbstractToolset` wherever that library is imported.
    """

    @overload
    async def get_tools(self, ctx: None = None) -> dict[str, HookableToolsetTool]: ...

    @overload
    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]: ...

    @abstractmethod
    async def get_tools(self, ctx: Any = None) -> Any:
        """The tools that can be called, by name; for a run context, as its agent takes them."""

    @abstractmethod
    async def get_instructions(self, ctx: Any = None) -> str | None:
        """What the tools add to the system prompt; None when they add nothing."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None


def _join() -> None:
    from pydantic_ai.toolsets import AbstractToolset

    try:
        BaseToolset.__bases__ = (AbstractToolset,)
    except TypeError as error:
        # Their import must not fail because ours went before it.
        warnings.warn(f"toolsets cannot be used in agents: {error}", RuntimeWarning, stacklevel=2)


when_imported(LIBRARY, _join)

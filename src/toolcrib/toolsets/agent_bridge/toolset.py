"""`AgentToolset`: a Toolcrib toolset as pydantic-ai's `AbstractToolset`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from pydantic_ai.toolsets import AbstractToolset, ToolsetTool

if TYPE_CHECKING:
    from pydantic_ai import RunContext

    from toolcrib.toolsets.base_toolset import BaseToolset


class AgentToolset(AbstractToolset[Any]):
    """Passes everything that an agent asks on to the toolset, so that its overrides take part."""

    def __init__(self, toolset: BaseToolset) -> None:
        self.toolset = toolset

    @property
    def id(self) -> str | None:
        """The id of the toolset."""
        return self.toolset.id

    @property
    def label(self) -> str:
        """The name of the toolset in pydantic-ai's error messages."""
        name = type(self.toolset).__name__
        return name if self.id is None else f"{name} {self.id!r}"

    async def __aenter__(self) -> Self:
        await self.toolset.__aenter__()
        return self

    async def __aexit__(self, *args: Any) -> bool | None:
        return await self.toolset.__aexit__(*args)

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """The tools that are available in this step."""
        return await self.toolset.get_tools(ctx)

    async def get_instructions(self, ctx: RunContext[Any]) -> str | None:
        """The instructions of the tools that are available in this step."""
        return await self.toolset.get_instructions(ctx)

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        """Call a tool; values and exceptions are pydantic-ai's."""
        return await self.toolset.call_tool(name, tool_args, ctx, tool)

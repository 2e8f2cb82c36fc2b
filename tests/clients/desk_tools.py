"""The tools that MCP clients find at the server: typed, failing, with progress, with approval."""

from __future__ import annotations

from toolcrib import ToolContext, tool


@tool(is_read_only=True)
def add(a: int, b: int) -> dict[str, int]:
    """Add two numbers."""
    return {"result": a + b}


@tool
def boom() -> str:
    """Fail."""
    raise RuntimeError("it fell down")


@tool
async def slow(context: ToolContext) -> str:
    """Tell how far it is."""
    for number in range(1, 5):
        context.progress(number, 4)
    return "done"


@tool(requires_approval=True)
def order(item: str) -> str:
    """Order an item."""
    return f"Ordered {item}."

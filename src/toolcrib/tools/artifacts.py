"""The tool with which a model reads the rest of a truncated result."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from toolcrib.errors import UsageError
from toolcrib.tools.context import ToolContext
from toolcrib.tools.decorator import tool

PAGE_CHARS = 20_000


@tool(is_read_only=True, is_idempotent=True)
async def read_artifact(
    ctx: ToolContext, artifact_id: str, offset: int = 0, limit: int = PAGE_CHARS
) -> dict[str, Any]:
    """Read a part of a result that was too long to show whole.

    Args:
        artifact_id: The id in the note that says what was cut.
        offset: The first character to read.
        limit: How many characters to read, at most 20000.
    """
    if ctx.session is None:
        raise UsageError("read_artifact needs a session; call it through an Executor")
    page = ctx.session.artifacts.read(artifact_id, offset=offset, limit=min(limit, PAGE_CHARS))
    return asdict(page)

"""Tools that begin a turn within their call, as one that evaluates a prompt would."""

import asyncio
from typing import Any

from toolcrib import Executor, Outcome, Session, ToolContext, tool


@tool
async def look() -> str:
    """Look around."""
    return "seen"


@tool(requires_approval=True)
async def erase() -> str:
    """Erase everything."""
    raise AssertionError("nobody allowed this")


def asking(
    session: Session, name: str = "look", *, called: str = "ask"
) -> tuple[Any, list[Outcome]]:
    """A tool that calls `name` in a turn of its own, as a prompt that it evaluates would."""
    got: list[Outcome] = []

    async def ask(ctx: ToolContext) -> str:
        """Ask."""
        inner = Executor(session, [look, erase])
        with inner.turn():
            await asyncio.sleep(0)
            got.append(await inner.call(name))
        return got[-1].text

    return tool(name=called)(ask), got

"""A desk whose agent is asked in one process and answered in another.

python -m tests.toolsets.agent_bridge.agent_process FOLDER ask
python -m tests.toolsets.agent_bridge.agent_process FOLDER answer RESULTS [die]

The history, the session and what ran lie in FOLDER; RESULTS is pydantic-ai's own JSON. With `die`
the tool kills its process after it has taken effect.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from pydantic_ai import (
    DeferredToolRequests,
    DeferredToolResults,
    ModelMessagesTypeAdapter,
    RunContext,
)

from tests.toolsets.agent_bridge.agents import Shell, agent_of, call, told
from toolcrib import Session, SqliteStore
from toolcrib.context import AgentContext
from toolcrib.toolsets import Toolset

SESSION = "desk"


class DeadlyShell(Shell):
    is_deadly = False

    async def call(self, ctx: RunContext[AgentContext], command: str) -> str:
        said = await super().call(ctx, command)
        if type(self).is_deadly:
            os.kill(os.getpid(), signal.SIGKILL)
        return said


async def add_flag(ctx: RunContext[Any], args: dict[str, Any]) -> dict[str, Any]:
    """A pre hook that must run once for a call, in whatever process."""
    cwd = Path(ctx.deps.session.cwd)
    (cwd / "hooked").write_text(
        (cwd / "hooked").read_text() + "." if (cwd / "hooked").exists() else "."
    )
    return {"command": args["command"] + " -a"}


async def open_desk(folder: Path) -> tuple[AgentContext, Any]:
    """The session, opened, and the agent."""
    session = await Session.open(SqliteStore(folder / "desk.db"), SESSION, cwd=str(folder))
    ctx = AgentContext(session)
    ctx.need_user_approve_tools = ["shell"]
    toolset = Toolset(ctx, [DeadlyShell], pre_hooks={"shell": add_flag})
    return ctx, agent_of(toolset, steps=[[call("shell", command="ls")]])


async def ask(folder: Path) -> None:
    """Run the agent until it waits."""
    ctx, agent = await open_desk(folder)
    async with ctx:
        result = await agent.run("go")
        assert isinstance(result.output, DeferredToolRequests)
        (folder / "history.json").write_bytes(result.all_messages_json())
        print(json.dumps(result.output.metadata))


async def answer(folder: Path, results: str) -> None:
    """Go on with the history; print what the model is told, or what waits again."""
    ctx, agent = await open_desk(folder)
    async with ctx:
        history = (folder / "history.json").read_bytes()
        result = await agent.run(
            message_history=ModelMessagesTypeAdapter.validate_json(history),
            deferred_tool_results=TypeAdapter(DeferredToolResults).validate_json(results),
        )
        if isinstance(result.output, DeferredToolRequests):
            print(json.dumps({"waits": result.output.metadata}))
        else:
            print(json.dumps({"told": told(result)}))


def main() -> None:
    """Do what the command line says."""
    folder, what, *rest = sys.argv[1:]
    if what == "ask":
        asyncio.run(ask(Path(folder)))
    else:
        DeadlyShell.is_deadly = "die" in rest
        asyncio.run(answer(Path(folder), rest[0]))


if __name__ == "__main__":
    main()

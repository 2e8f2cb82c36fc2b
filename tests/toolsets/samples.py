"""Tools written as classes, for the tests of toolsets."""

import asyncio
from pathlib import Path
from typing import Any

from toolcrib import ToolContext
from toolcrib.context import AgentContext
from toolcrib.toolsets import BaseTool, Toolset


class ReadFile(BaseTool):
    name = "read_file"
    description = "Read the text of a file"

    async def call(self, ctx: ToolContext, path: str) -> str:
        return await asyncio.to_thread(Path(path).read_text, "utf-8")


class WriteFile(BaseTool):
    name = "write_file"
    description = "Write text to a file"

    async def call(self, ctx: ToolContext, path: str, text: str) -> str:
        await asyncio.to_thread(Path(path).write_text, text, "utf-8")
        return f"wrote {len(text)} characters"


class Shell(BaseTool):
    """Appends its command to a file in the session's directory: proof that it ran."""

    name = "shell"
    description = "Run a command"

    def get_approval_metadata(self) -> dict[str, Any] | None:
        return {"warning": "This will run a command", "risk_level": "high"}

    async def call(self, ctx: ToolContext, command: str) -> str:
        _note_run(Path(ctx.cwd), command)
        return f"ran {command}"


def _note_run(cwd: Path, command: str) -> None:
    with (cwd / "ran").open("a", encoding="utf-8") as ran:
        ran.write(f"{command}\n")


def commands_run(cwd: Path) -> list[str]:
    """What `Shell` was made to run in `cwd`."""
    ran = cwd / "ran"
    return ran.read_text("utf-8").splitlines() if ran.exists() else []


def toolset_of(*tools: type[BaseTool], **options: Any) -> Toolset:
    """A toolset in a session of its own."""
    return Toolset(AgentContext(), tools, **options)

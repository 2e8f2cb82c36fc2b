"""An editor agent: it documents a function, and the editor asks before its file is changed.

This program plays the editor, with the official client of the Agent Client Protocol; `toolcrib acp`
is the agent. On a terminal you are message; elsewhere a rule answers (`--deny` says no).

    python examples/editor_agent/run.py
"""

from __future__ import annotations

import argparse
import asyncio
import difflib
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from acp import schema, spawn_agent_process, text_block

HERE = Path(__file__).parent
TOOLCRIB = (sys.executable, "-c", "from toolcrib.cli import main; main()")
CAN = schema.ClientCapabilities(
    fs=schema.FileSystemCapabilities(read_text_file=True, write_text_file=True)
)


class Editor:
    """Shows what the agent does, asks before files change, and keeps to one folder."""

    def __init__(self, project: Path, *, denies: bool) -> None:
        self.project = project
        self.denies = denies

    def on_connect(self, conn: Any) -> None: ...

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        if isinstance(update, schema.ToolCallProgress) and update.status in ("completed", "failed"):
            print(f"   {update.title or update.tool_call_id}: {update.status}")
        elif isinstance(update, schema.AgentMessageChunk):
            print(getattr(update.content, "text", ""), end="", flush=True)

    async def request_permission(
        self, session_id: str, tool_call: Any, options: Any, **_: Any
    ) -> schema.RequestPermissionResponse:
        arguments: dict[str, str] = tool_call.raw_input
        print(f"   may the agent change {Path(arguments['path']).name}?")
        self._show_change(Path(arguments["path"]), arguments["content"])
        choice = "reject" if self._says_no() else "allow"
        kind = f"{choice}_once"
        [option] = [option for option in options if option.kind == kind]
        outcome = schema.AllowedOutcome(outcome="selected", option_id=option.option_id)
        return schema.RequestPermissionResponse(outcome=outcome)

    async def read_text_file(self, path: str, **_: Any) -> schema.ReadTextFileResponse:
        return schema.ReadTextFileResponse(content=self._within(path).read_text("utf-8"))

    async def write_text_file(self, path: str, content: str, **_: Any) -> None:
        self._within(path).write_text(content, "utf-8")

    def _says_no(self) -> bool:
        if sys.stdin.isatty():
            return input("   [y/n] ") != "y"
        print(f"   {'denied' if self.denies else 'allowed'}, no terminal to ask at")
        return self.denies

    def _show_change(self, path: Path, new: str) -> None:
        old = self._within(path).read_text("utf-8")
        for line in difflib.unified_diff(old.splitlines(), new.splitlines(), "", "", "", "", 1):
            if not line.startswith(("---", "+++")):
                print(f"     {line}")

    def _within(self, path: str | Path) -> Path:
        resolved = Path(path).resolve()
        if not resolved.is_relative_to(self.project):
            raise PermissionError(f"{path} is not in the project")
        return resolved


async def main(project: Path, *, denies: bool) -> None:
    options = ("--host-tools-module", "tools", "--adapter", "model:adapter")
    store = ("--store", str(project.parent / "crib.sqlite3"))
    command = [*TOOLCRIB, "acp", *options, *store]
    # It has no terminals, which it says in its capabilities.
    editor: Any = Editor(project, denies=denies)
    async with spawn_agent_process(editor, *command, cwd=HERE) as (
        agent,
        _,
    ):
        await agent.initialize(protocol_version=1, client_capabilities=CAN)
        session = await agent.new_session(cwd=str(project))
        print("1. The editor asks for docstrings")
        message = text_block("Document what has no docstring in cart.py.")
        answer = await agent.prompt(session_id=session.session_id, prompt=[message])
        print(f"\n2. The agent is done: {answer.stop_reason}")
    print("3. The file")
    print((project / "cart.py").read_text("utf-8"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--deny", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve() / "project"
        shutil.copytree(HERE / "project", folder)
        asyncio.run(main(folder, denies=options.deny))

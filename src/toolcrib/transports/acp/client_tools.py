"""The files and terminals of the editor as client tools."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from acp.schema import (
    ClientCapabilities,
    CreateTerminalRequest,
    CreateTerminalResponse,
    KillTerminalRequest,
    KillTerminalResponse,
    ReadTextFileRequest,
    ReadTextFileResponse,
    ReleaseTerminalRequest,
    ReleaseTerminalResponse,
    TerminalOutputRequest,
    TerminalOutputResponse,
    TerminalToolCallContent,
    ToolCallProgress,
    WaitForTerminalExitRequest,
    WaitForTerminalExitResponse,
    WriteTextFileRequest,
    WriteTextFileResponse,
)

from toolcrib.errors import ClientGone, EditorFailed

if TYPE_CHECKING:
    from toolcrib.transports.acp.editor import Editor

READ_FILE: Final = "ide_read_file"
WRITE_FILE: Final = "ide_write_file"
TERMINAL: Final = "ide_terminal"

MOST_OUTPUT_BYTES: Final = 200_000
"""How much of a command's output the editor keeps."""


def capabilities_of(client: ClientCapabilities) -> list[str]:
    """The capabilities of the editor that tools may require."""
    fs = client.fs
    reads, writes = bool(fs and fs.read_text_file), bool(fs and fs.write_text_file)
    supported = {
        "approval": True,
        "progress": True,
        "fs": reads and writes,
        "fs.read": reads,
        "fs.write": writes,
        "terminal": bool(client.terminal),
    }
    return [name for name, is_supported in supported.items() if is_supported]


def tools_of(capabilities: list[str]) -> list[dict[str, Any]]:
    """The client tools of an editor with these capabilities. Those that change anything need
    approval.
    """
    by_capability = {"fs.read": _READ, "fs.write": _WRITE, "terminal": _TERMINAL}
    return [tool for name, tool in by_capability.items() if name in capabilities]


class EditorLink:
    """Runs the client tools of one session in the editor."""

    def __init__(self, session_id: str, editor: Editor) -> None:
        self._session_id = session_id
        self._editor = editor

    async def run(self, call_id: str, name: str, arguments: Mapping[str, Any]) -> Any:
        """Run a call with validated arguments."""
        match name:
            case "ide_read_file":
                request = ReadTextFileRequest(session_id=self._session_id, **arguments)
                answer = await self._editor.ask("fs_read_text_file", request, ReadTextFileResponse)
                return answer.content
            case "ide_write_file":
                write = WriteTextFileRequest(session_id=self._session_id, **arguments)
                await self._editor.ask("fs_write_text_file", write, WriteTextFileResponse)
                return f"Wrote {arguments['path']}."
            case "ide_terminal":
                return await self._run_command(call_id, arguments)
            case _:
                raise EditorFailed(f"the editor has no tool {name!r}")

    async def _run_command(self, call_id: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        session_id, editor = self._session_id, self._editor
        request = CreateTerminalRequest(
            session_id=session_id, output_byte_limit=MOST_OUTPUT_BYTES, **arguments
        )
        terminal = (
            await editor.ask("terminal_create", request, CreateTerminalResponse)
        ).terminal_id
        try:
            await editor.update(session_id, _shown(call_id, terminal))
            wait = WaitForTerminalExitRequest(session_id=session_id, terminal_id=terminal)
            ended = await editor.ask("terminal_wait_for_exit", wait, WaitForTerminalExitResponse)
            look = TerminalOutputRequest(session_id=session_id, terminal_id=terminal)
            output = await editor.ask("terminal_output", look, TerminalOutputResponse)
        except BaseException:
            # Also when the call is cancelled: the command must not outlive it.
            await self._release(terminal, is_running=True)
            raise
        await self._release(terminal, is_running=False)
        return {
            "output": output.output,
            "is_truncated": output.truncated,
            "exit_code": ended.exit_code,
            "signal": ended.signal,
        }

    async def _release(self, terminal: str, *, is_running: bool) -> None:
        session_id = self._session_id
        with suppress(ClientGone, EditorFailed):
            if is_running:
                kill = KillTerminalRequest(session_id=session_id, terminal_id=terminal)
                await self._editor.ask("terminal_kill", kill, KillTerminalResponse)
            release = ReleaseTerminalRequest(session_id=session_id, terminal_id=terminal)
            await self._editor.ask("terminal_release", release, ReleaseTerminalResponse)


def _shown(call_id: str, terminal: str) -> ToolCallProgress:
    content = TerminalToolCallContent(type="terminal", terminal_id=terminal)
    return ToolCallProgress(
        session_update="tool_call_update", tool_call_id=call_id, content=[content]
    )


def _tool(name: str, about: str, required: list[str], **properties: Any) -> dict[str, Any]:
    parameters = {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }
    return {"name": name, "description": about, "parameters": parameters}


_PATH: Final = {"type": "string", "description": "An absolute path."}
_READ: Final = _tool(
    READ_FILE,
    "Read a text file as the editor has it, with changes that are not saved yet.",
    ["path"],
    path=_PATH,
    line={"type": "integer", "minimum": 1, "description": "The first line to read."},
    limit={"type": "integer", "minimum": 1, "description": "How many lines to read."},
)
_WRITE: Final = _tool(
    WRITE_FILE,
    "Write a text file through the editor. What the file had is replaced.",
    ["path", "content"],
    path=_PATH,
    content={"type": "string"},
) | {"requires_approval": True}
_TERMINAL: Final = _tool(
    TERMINAL,
    "Run a command in a terminal of the editor, and wait for its end.",
    ["command"],
    command={"type": "string"},
    args={"type": "array", "items": {"type": "string"}},
    cwd=_PATH,
) | {"requires_approval": True}

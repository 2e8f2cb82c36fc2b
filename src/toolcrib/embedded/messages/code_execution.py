"""`code_execution` of the Messages API: Python, shell commands and files in a container."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from toolcrib.embedded.backend import BackendTool
from toolcrib.embedded.containers.container import ContainerOptions
from toolcrib.embedded.messages.server_tool import server_error, server_result, server_use
from toolcrib.embedded.messages.text_editor import EDITOR, edit
from toolcrib.errors import ApiFault, SandboxFailed, SandboxUnavailable

if TYPE_CHECKING:
    from toolcrib.embedded.access import ResourceAccess
    from toolcrib.embedded.containers.container import Container, ContainerFile
    from toolcrib.embedded.containers.repository import ContainerRepository
    from toolcrib.embedded.messages.request import Block

PYTHON: Final = "python"
BASH: Final = "bash_code_execution"
FIRST_WITH_BASH: Final = 20250825
FIRST_WITH_BOTH: Final = 20260120
"""From this version on, there are Python, a shell and the editor; before it either the first or the
other two."""
_MAX_OUTPUT: Final = 100_000
_TRACEBACK: Final = "Traceback (most recent call last):"
_PLACE: Final = "Files are in the current folder, /mnt/data. There is no network."
_CODE: Final = {
    "type": "object",
    "properties": {"code": {"type": "string", "description": "The Python code to run."}},
    "required": ["code"],
    "additionalProperties": False,
}
_COMMAND: Final = {
    "type": "object",
    "properties": {"command": {"type": "string", "description": "The command to run."}},
    "required": ["command"],
    "additionalProperties": False,
}


class MessageContainer:
    """The container of one message: named in the request, or created at the first call. The files
    that the conversation uploads are put into it.
    """

    def __init__(
        self,
        containers: ContainerRepository,
        access: ResourceAccess,
        container_id: str | None,
        uploads: Sequence[str],
    ) -> None:
        self.containers = containers
        self._access = access
        self._container_id = container_id
        self._uploads = tuple(dict.fromkeys(uploads))
        self._used: Container | None = None

    async def open(self) -> Container:
        """The container for the next call. Raises `ApiFault`."""
        if self._container_id is None:
            options = ContainerOptions(name="code_execution")
            self._container_id = (await self.containers.create(options, self._access)).id
        is_first = self._used is None
        self._used = await self.containers.use(self._container_id, self._access)
        if is_first and self._uploads:
            await self.containers.add_files(self._used, self._uploads, self._access)
        return self._used

    @property
    def resource(self) -> dict[str, Any] | None:
        """The container as a message names it; None when no code has run."""
        if self._used is None:
            return None
        until = self._used.last_active_at + 60 * self._used.expires_minutes
        return {
            "id": self._used.id,
            "expires_at": datetime.fromtimestamp(until, UTC).isoformat(),
            "skills": None,
        }


class CodeExecutionTool:
    """`code_execution`, open for one request. `version` is the date in the type of the tool."""

    name = "code_execution"

    def __init__(self, place: MessageContainer, version: int) -> None:
        self._place = place
        self._containers = place.containers
        self._version = version

    @property
    def backend_tools(self) -> Sequence[BackendTool]:
        """The tools of this version."""
        about = f"Run Python. Variables are kept between calls. {_PLACE} Print what you want to see"
        python = BackendTool(PYTHON, f"{about}.", _CODE, makes_files=True)
        command = BackendTool(BASH, f"Run a shell command. {_PLACE}", _COMMAND, makes_files=True)
        editor = BackendTool(EDITOR.name, EDITOR.description, EDITOR.parameters, makes_files=True)
        if self._version < FIRST_WITH_BASH:
            return [python]
        if self._version < FIRST_WITH_BOTH:
            return [command, editor]
        return [python, command, editor]

    def use(self, name: str) -> Block:
        """The block of a call."""
        return server_use(_wire_name(name))

    async def close(self) -> None:
        """The container stays for the next request."""

    async def run(self, name: str, arguments: Mapping[str, Any]) -> Block:
        """Run a call in the container."""
        wire = _wire_name(name)
        try:
            container = await self._place.open()
            async with self._containers.turn(container):
                if name == PYTHON:
                    return await self._python(container, arguments)
                if name == BASH:
                    return await self._bash(container, arguments)
                result = await edit(self._containers.files, container, arguments)
                await self._containers.files.changed(container)
                return result
        except (SandboxUnavailable, SandboxFailed) as error:
            return server_error(wire, "unavailable", str(error))

    async def _python(self, container: Container, arguments: Mapping[str, Any]) -> Block:
        code = arguments.get("code")
        code = code if isinstance(code, str) else json.dumps(dict(arguments))
        interpreter = await self._containers.interpreter(container)
        executed = await interpreter.execute(code, self._containers.seconds)
        files = await self._containers.files.changed(container)
        for figure in executed.figures:
            # Code may have replaced the figure by something else.
            with suppress(OSError, ApiFault):
                files.append((await self._containers.files.keep_figure(container, figure))[0])
        if executed.ended_by is not None and executed.ended_by.startswith("the code took"):
            return server_error(self.name, "execution_time_exceeded")
        stdout, traceback, rest = executed.logs.rpartition(_TRACEBACK)
        if executed.succeeded or not traceback:
            stdout, traceback, rest = executed.logs, "", ""
        return _executed(self.name, stdout, traceback + rest, 0 if executed.succeeded else 1, files)

    async def _bash(self, container: Container, arguments: Mapping[str, Any]) -> Block:
        command = arguments.get("command")
        if not isinstance(command, str):
            return server_error(BASH, "invalid_tool_input")
        finished = await self._containers.run(container, command, self._containers.seconds)
        files = await self._containers.files.changed(container)
        if finished.timed_out:
            return server_error(BASH, "execution_time_exceeded")
        stdout = finished.stdout.decode("utf-8", "replace")[:_MAX_OUTPUT]
        stderr = finished.stderr.decode("utf-8", "replace")[:_MAX_OUTPUT]
        return _executed(BASH, stdout, stderr, finished.exit_code, files)


def _wire_name(name: str) -> str:
    return CodeExecutionTool.name if name == PYTHON else name


def _executed(
    name: str, stdout: str, stderr: str, return_code: int, files: Sequence[ContainerFile]
) -> Block:
    return server_result(
        name,
        {
            "type": f"{name}_result",
            "stdout": stdout,
            "stderr": stderr,
            "return_code": return_code,
            "content": [{"type": f"{name}_output", "file_id": file.id} for file in files],
        },
    )

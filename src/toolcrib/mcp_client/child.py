"""The stdio connection to a server that runs as a child process.

The SDK's own stdio client is not enough for servers that are not trusted: it reads lines of any
length, drops stderr or passes it to the terminal, ends the process but not the processes that it
started, and does not report why the server ended. Here a message has a size limit, stderr is
logged without secrets, the whole process group is ended, and the end comes with a reason.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import anyio

from toolcrib.mcp_client.config import ServerProgram, printable_line
from toolcrib.mcp_client.errors import ConnectionEnd
from toolcrib.mcp_client.guard import guarded_environment

if TYPE_CHECKING:
    from toolcrib.mcp_client.sdk_internals import TransportStreams

logger = logging.getLogger(__name__)

MAX_MESSAGE_BYTES: Final = 16_000_000
"""The maximum size of one message of a server."""

STOP_SECONDS: Final = 2.0
"""How long a server may take to end after its input closed, and again after SIGTERM."""

_STDERR_CHUNK: Final = 64_000
_POLL_SECONDS: Final = 0.01


@asynccontextmanager
async def child_streams(
    program: ServerProgram, end: ConnectionEnd
) -> AsyncGenerator[TransportStreams]:
    """Start a program and exchange messages over stdin and stdout. Sets `end` when it ends.

    Raises `OSError` when it cannot be started.
    """
    process = await asyncio.create_subprocess_exec(
        program.command,
        *program.args,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**program.env, **guarded_environment()},
        cwd=program.cwd,
        limit=MAX_MESSAGE_BYTES,
        # A process group of its own: killed as a whole, and not reached by our Ctrl-C.
        start_new_session=True,
    )
    child = _Child(process, program, end)
    from_server, received = anyio.create_memory_object_stream[Any](0)
    to_send, outgoing = anyio.create_memory_object_stream[Any](0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(child.read, from_server)
        tasks.start_soon(child.write, outgoing)
        tasks.start_soon(child.read_stderr)
        try:
            yield received, to_send
        finally:
            child.is_closed = True
            received.close()
            to_send.close()
            with anyio.CancelScope(shield=True):
                await _terminate(process)
            tasks.cancel_scope.cancel()


class _Child:
    def __init__(
        self, process: asyncio.subprocess.Process, program: ServerProgram, end: ConnectionEnd
    ) -> None:
        self._process = process
        self._program = program
        self._end = end
        self._last_line: str | None = None
        self.is_closed = False
        """Whether we ended it, so that its end is no fault."""

    async def read(self, to: Any) -> None:
        assert self._process.stdout is not None
        reason = ""
        async with to:
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                reason = await self._forward(self._process.stdout, to)
        if not self.is_closed:
            self._end.set(reason or await self._exit_reason())

    async def _forward(self, stdout: asyncio.StreamReader, to: Any) -> str:
        """Forward the server's messages until it ends. Returns its fault, if there was one."""
        from mcp.shared.message import SessionMessage

        while True:
            try:
                line = await stdout.readuntil(b"\n")
            except asyncio.IncompleteReadError:
                return ""
            except asyncio.LimitOverrunError:
                return f"it sent a message of more than {MAX_MESSAGE_BYTES} bytes"
            try:
                message = _message(line)
            except ValueError:
                # The request that this message answers would wait forever.
                return "it sent a message that cannot be read"
            if message is not None:
                await to.send(SessionMessage(message))

    async def write(self, messages: Any) -> None:
        stdin = self._process.stdin
        assert stdin is not None
        async with messages:
            async for item in messages:
                text: str = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                try:
                    stdin.write(text.encode() + b"\n")
                    await stdin.drain()
                except (OSError, RuntimeError):
                    # The reader sees the end too, and reports it.
                    return

    async def read_stderr(self) -> None:
        """Log the server's stderr, and keep its last line for the exit reason."""
        stderr = self._process.stderr
        assert stderr is not None
        while chunk := await stderr.read(_STDERR_CHUNK):
            for line in chunk.decode(errors="replace").splitlines():
                if text := printable_line(line, self._program.scrubber):
                    self._last_line = text
                    logger.info("%s: %s", self._program.command, text)

    async def _exit_reason(self) -> str:
        await _has_exited(self._process, _POLL_SECONDS * 20)
        code = self._process.returncode
        how = "it closed its output" if code is None else f"it ended with exit code {code}"
        return how if self._last_line is None else f"{how}: {self._last_line}"


def _message(line: bytes) -> Any:
    """The message of a line; None for a line that is no message. Raises ValueError for a message
    that cannot be read.
    """
    import mcp_types
    from pydantic_core import from_json

    if not line.lstrip().startswith(b"{"):
        return None
    try:
        return mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        # A log line in JSON is no message; it is skipped.
        if "jsonrpc" in from_json(line):
            raise
        return None


async def _terminate(process: asyncio.subprocess.Process) -> None:
    """End the process group: close stdin, then SIGTERM, then SIGKILL."""
    if process.stdin is not None:
        with suppress(OSError, RuntimeError):
            process.stdin.close()
    if not await _has_exited(process, STOP_SECONDS):
        _signal(process, signal.SIGTERM)
        await _has_exited(process, STOP_SECONDS)
    _signal(process, signal.SIGKILL)
    await _has_exited(process, STOP_SECONDS)
    # asyncio has no public way to close pipes that another process still holds open.
    transport = getattr(process, "_transport", None)
    if transport is not None:
        transport.close()
    await asyncio.sleep(0)


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


async def _has_exited(process: asyncio.subprocess.Process, seconds: float) -> bool:
    # Not `process.wait()`: it also waits for other processes that hold the pipes.
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while process.returncode is None and loop.time() < until:  # noqa: ASYNC110
        await asyncio.sleep(_POLL_SECONDS)
    return process.returncode is not None

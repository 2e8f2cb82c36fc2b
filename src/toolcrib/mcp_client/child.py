"""A server that runs as our child: started with a clean environment, ended with all it started."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import anyio

from toolcrib.mcp_client.config import ServerProgram, printable_line
from toolcrib.mcp_client.errors import ConnectionEnd

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

logger = logging.getLogger(__name__)

MAX_MESSAGE_BYTES: Final = 16_000_000
"""How many bytes one message of a server may have."""

STOP_SECONDS: Final = 2.0
"""How long a server may take to end by itself, and again after it was told to."""

_LONGEST_COMPLAINT: Final = 64_000
_LOOK_SECONDS: Final = 0.01


@asynccontextmanager
async def child_streams(
    program: ServerProgram, ending: ConnectionEnd
) -> AsyncGenerator[TransportStreams]:
    """Start a program and speak with it over stdin and stdout. `ending` is told when it ends.

    Raises `OSError` when it cannot be started.
    """
    process = await asyncio.create_subprocess_exec(
        program.command,
        *program.args,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=dict(program.env),
        cwd=program.cwd,
        limit=MAX_MESSAGE_BYTES,
        # A group of its own: what it starts is ended with it, and our Ctrl-C is not its.
        start_new_session=True,
    )
    child = _Child(process, program, ending)
    from_server, received = anyio.create_memory_object_stream[Any](0)
    to_send, outgoing = anyio.create_memory_object_stream[Any](0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(child.read, from_server)
        tasks.start_soon(child.write, outgoing)
        tasks.start_soon(child.hear_complaints)
        try:
            yield received, to_send
        finally:
            child.is_left = True
            received.close()
            to_send.close()
            with anyio.CancelScope(shield=True):
                await _end(process)
            tasks.cancel_scope.cancel()


class _Child:
    def __init__(
        self, process: asyncio.subprocess.Process, program: ServerProgram, ending: ConnectionEnd
    ) -> None:
        self._process = process
        self._program = program
        self._ending = ending
        self._last_words: deque[str] = deque(maxlen=1)
        self.is_left = False
        """Whether its end is our doing, and says nothing about it."""

    async def read(self, to: Any) -> None:
        assert self._process.stdout is not None
        reason = ""
        async with to:
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                reason = await self._pass_on(self._process.stdout, to)
        if not self.is_left:
            self._ending.end(reason or await self._why())

    async def _pass_on(self, stdout: asyncio.StreamReader, to: Any) -> str:
        """Give on what the server says, until it ends. Returns what it did wrong, if anything."""
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
                # Whoever waits for this message would wait in vain.
                return "it sent a message that cannot be read"
            if message is not None:
                await to.send(SessionMessage(message))

    async def write(self, messages: Any) -> None:
        stdin = self._process.stdin
        assert stdin is not None
        async with messages:
            async for each in messages:
                text: str = each.message.model_dump_json(by_alias=True, exclude_unset=True)
                try:
                    stdin.write(text.encode() + b"\n")
                    await stdin.drain()
                except (OSError, RuntimeError):
                    # The reader sees the end too; until then nothing more can be said.
                    return

    async def hear_complaints(self) -> None:
        """Log what the server writes to stderr, and keep its last words."""
        stderr = self._process.stderr
        assert stderr is not None
        while chunk := await stderr.read(_LONGEST_COMPLAINT):
            for line in chunk.decode(errors="replace").splitlines():
                if shown := printable_line(line, self._program.hidden):
                    self._last_words.append(shown)
                    logger.info("%s: %s", self._program.command, shown)

    async def _why(self) -> str:
        await _has_exited(self._process, _LOOK_SECONDS * 20)
        code = self._process.returncode
        how = "it closed its output" if code is None else f"it ended with exit code {code}"
        said = f": {self._last_words[0]}" if self._last_words else ""
        return how + said


def _message(line: bytes) -> Any:
    """What a line says; None for a line that is no message. Raises ValueError for a message that
    cannot be read.
    """
    import mcp_types
    from pydantic_core import from_json

    if not line.lstrip().startswith(b"{"):
        return None
    try:
        return mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        # A log line in JSON is a nuisance, not a broken message.
        if "jsonrpc" in from_json(line):
            raise
        return None


async def _end(process: asyncio.subprocess.Process) -> None:
    """Close its input, then ask it, then force it to end, with all that it started."""
    if process.stdin is not None:
        with suppress(OSError, RuntimeError):
            process.stdin.close()
    if not await _has_exited(process, STOP_SECONDS):
        _signal(process, signal.SIGTERM)
        await _has_exited(process, STOP_SECONDS)
    _signal(process, signal.SIGKILL)
    await _has_exited(process, STOP_SECONDS)
    # Nothing public closes the pipes that a survivor holds open.
    transport = getattr(process, "_transport", None)
    if transport is not None:
        transport.close()
    await asyncio.sleep(0)


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


async def _has_exited(process: asyncio.subprocess.Process, seconds: float) -> bool:
    # Not `process.wait()`: that also waits for whoever else holds the pipes.
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while process.returncode is None and loop.time() < until:  # noqa: ASYNC110
        await asyncio.sleep(_LOOK_SECONDS)
    return process.returncode is not None

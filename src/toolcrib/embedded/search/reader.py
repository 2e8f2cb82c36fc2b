"""The document reader: parses documents in confined processes.

A document may be made to keep a parser busy for hours, to fill the memory, or to take the parser
over. Here it ends a process with limits of its own, in the strongest sandbox that works on this
machine; where none works, in a plain process with the same limits.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final, cast
from weakref import WeakValueDictionary

from toolcrib.embedded.search.documents import (
    MAX_CHARACTERS,
    MAX_TITLE,
    Document,
    bytes_to_read,
    read_document,
)
from toolcrib.errors import SandboxFailed, UnreadableDocument

if TYPE_CHECKING:
    from toolcrib.sandbox.command import Command
    from toolcrib.sandbox.process import Process
    from toolcrib.sandbox.sandbox import Sandbox

# The sandbox is imported where it is used: the confined process imports this module too.
logger = logging.getLogger(__name__)

_MEBIBYTE: Final = 1024 * 1024
_PACKAGE: Final = Path(__file__).parents[2]
_PROGRAM: Final = f"""
import importlib.util, sys
folder = {str(_PACKAGE)!r}
spec = importlib.util.spec_from_file_location(
    "toolcrib", folder + "/__init__.py", submodule_search_locations=[folder]
)
sys.modules["toolcrib"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules["toolcrib"])
from {__name__} import serve
serve()
"""
"""Finds this package by its folder: the folder around it cannot be listed in a sandbox."""
_LIBRARIES: Final = ("lxml", "pypdf")
_PIECE: Final = _MEBIBYTE
_SERIES: Final = 50
"""Documents of one folder that one process reads before another one takes over."""
_MOST_TEXT: Final = 4 * MAX_CHARACTERS
_ENDING_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True)
class ReaderLimits:
    """How much the process of one document may use."""

    seconds: float = 60.0
    cpu_seconds: int = 30
    memory_bytes: int = 512 * _MEBIBYTE


class DocumentReader:
    """Reads documents, at most `processes` at a time, and of one owner one after another: whoever
    sends many slow documents holds up nobody else.
    """

    def __init__(self, limits: ReaderLimits | None = None, *, processes: int = 2) -> None:
        self._limits = limits or ReaderLimits()
        self._free = asyncio.Semaphore(processes)
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._backend: str | None = None

    async def read(
        self, filename: str, path: Path, owner: str, *, marks_pages: bool = False
    ) -> Document:
        """Read the file at `path` in the format that `filename` ends in, in a process of its own.
        Raises `UnreadableDocument`.
        """
        turn = self._turns.setdefault(owner, asyncio.Lock())
        async with turn, self._free, self.process() as process:
            return await process.read(filename, path, marks_pages=marks_pages)

    @asynccontextmanager
    async def series(self) -> AsyncGenerator[DocumentSeries]:
        """Read many documents of one owner, several in one process."""
        async with AsyncExitStack() as stack:
            yield DocumentSeries(self, stack)

    @asynccontextmanager
    async def process(self) -> AsyncGenerator[ReaderProcess]:
        """A process that reads documents until the block is left."""
        from toolcrib.sandbox.work_directory import WorkDirectory

        sandbox = await self._sandbox()
        command = _command(sandbox, self._limits)
        with WorkDirectory.temporary() as work:
            async with await sandbox.open(command, work=work) as process:
                yield ReaderProcess(process, self._limits)

    async def _sandbox(self) -> Sandbox:
        from toolcrib.sandbox.detection import find_sandbox

        sandbox = await find_sandbox(allow_unconfined=True)
        if self._backend != sandbox.backend:
            self._backend = sandbox.backend
            if sandbox.backend == "rlimits":
                logger.warning("no sandbox works here: documents are read with limits alone")
            else:
                logger.info("documents are read in processes confined by %s", sandbox.backend)
        return sandbox


class DocumentSeries:
    """Reads the documents of one folder one after another; a process that one of them ends is
    replaced for the next.
    """

    def __init__(self, reader: DocumentReader, stack: AsyncExitStack) -> None:
        self._reader = reader
        self._stack = stack
        self._process: ReaderProcess | None = None

    async def read(self, filename: str, path: Path) -> Document:
        """Read one document. Raises `UnreadableDocument`."""
        process = await self._usable()
        is_fresh = process.count == 0
        try:
            return await process.read(filename, path)
        except UnreadableDocument:
            if process.is_usable or is_fresh:
                raise
        # The documents before it may have used up the limits of the process.
        return await (await self._usable()).read(filename, path)

    async def _usable(self) -> ReaderProcess:
        process = self._process
        if process is not None and process.is_usable and process.count < _SERIES:
            return process
        await self._stack.aclose()
        self._process = await self._stack.enter_async_context(self._reader.process())
        return self._process


class ReaderProcess:
    """One confined process, which reads documents until one of them ends it."""

    def __init__(self, process: Process, limits: ReaderLimits) -> None:
        self._process = process
        self._limits = limits
        self.count = 0
        """The documents that it was given."""
        self.is_usable = True

    async def read(self, filename: str, path: Path, *, marks_pages: bool = False) -> Document:
        """Read one document. Raises `UnreadableDocument`; the process may have ended then."""
        process = self._process
        self.count += 1
        self.is_usable = False
        try:
            async with asyncio.timeout(self._limits.seconds):
                await _send(process, filename, path, marks_pages=marks_pages)
                document = await _received(process)
        except TimeoutError:
            process.kill("wall_clock")
            raise await self._fault(process) from None
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
            raise await self._fault(process) from None
        except OSError:
            raise UnreadableDocument("its file cannot be read") from None
        self.is_usable = True
        if isinstance(document, str):
            raise UnreadableDocument(document)
        return document

    async def _fault(self, process: Process) -> UnreadableDocument:
        """Why the process gave no answer."""
        try:
            async with asyncio.timeout(_ENDING_SECONDS):
                result = await process.wait()
        except TimeoutError:
            result = await process.close()
        except SandboxFailed:
            return UnreadableDocument("its reader could not be started")
        limits = self._limits
        match result.killed_by:
            case "wall_clock":
                return UnreadableDocument(f"reading it takes more than {limits.seconds:g} seconds")
            case "cpu":
                return UnreadableDocument(
                    f"reading it takes more than {limits.cpu_seconds} seconds of the processor"
                )
            case "memory":
                return UnreadableDocument(_memory_fault(limits.memory_bytes))
            case _:
                return UnreadableDocument("its reader ended without an answer")


def _command(sandbox: Sandbox, limits: ReaderLimits) -> Command:
    from toolcrib.sandbox.command import Command, SandboxLimits
    from toolcrib.sandbox.python import find_python

    python = find_python(tuple(name for name in _LIBRARIES if find_spec(name) is not None))
    return Command(
        argv=(python.executable, "-I", "-c", _PROGRAM, str(limits.memory_bytes)),
        env={"LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"},
        readable=(*python.readable(sandbox.backend), _PACKAGE),
        limits=SandboxLimits(
            seconds=None,
            cpu_seconds=limits.cpu_seconds,
            memory_bytes=limits.memory_bytes,
            processes=16,
            file_bytes=_MEBIBYTE,
            work_bytes=_MEBIBYTE,
            temporary_bytes=_MEBIBYTE,
        ),
    )


async def _send(process: Process, filename: str, path: Path, *, marks_pages: bool) -> None:
    with path.open("rb") as file:
        left = bytes_to_read(filename, os.fstat(file.fileno()).st_size)
        name = f"document{PurePosixPath(filename).suffix}"
        header = {"filename": name, "bytes": left, "marks_pages": marks_pages}
        await process.send(json.dumps(header).encode() + b"\n")
        while left > 0:
            piece = await asyncio.to_thread(file.read, min(left, _PIECE))
            if not piece:
                raise OSError("the file has become shorter")
            left -= len(piece)
            await process.send(piece)


async def _received(process: Process) -> Document | str:
    """The document, or why it cannot be read. A document may have taken the process over, so
    nothing in the answer is trusted.
    """
    line = await process.stdout.readuntil(b"\n")
    try:
        answer: object = json.loads(line)
    except (ValueError, RecursionError):
        answer = None
    facts = cast("dict[str, Any]", answer) if isinstance(answer, dict) else {}
    title, size, error = facts.get("title"), facts.get("bytes"), facts.get("error")
    if isinstance(error, str):
        return _printable(error)
    if type(size) is not int or not 0 <= size <= _MOST_TEXT:
        raise asyncio.IncompleteReadError(line, None)
    text = (await process.stdout.readexactly(size)).decode("utf-8", "replace")
    shown = _printable(title) if isinstance(title, str) else ""
    return Document(shown or None, text)


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in text[:MAX_TITLE])


def _memory_fault(memory_bytes: int) -> str:
    return f"reading it takes more than {memory_bytes // _MEBIBYTE} MiB of memory"


def serve() -> None:
    """The program of the confined process: read documents from stdin until it is closed."""
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    # What a library prints must not be taken for an answer.
    os.dup2(2, 1)
    os.nice(10)
    while line := requests.readline():
        request = json.loads(line)
        data = requests.read(request["bytes"])
        header, text = _answer(request["filename"], data, marks_pages=request["marks_pages"])
        answers.write(json.dumps(header).encode() + b"\n")
        answers.write(text)
        answers.flush()


def _answer(filename: str, data: bytes, *, marks_pages: bool) -> tuple[dict[str, Any], bytes]:
    try:
        document = read_document(filename, data, marks_pages=marks_pages)
        text = document.text.encode("utf-8", "replace")
    except UnreadableDocument as error:
        return {"error": str(error)}, b""
    except MemoryError:
        return {"error": _memory_fault(int(sys.argv[1]))}, b""
    except Exception as error:
        return {"error": f"its reader failed: {type(error).__name__}"}, b""
    return {"title": document.title, "bytes": len(text)}, text

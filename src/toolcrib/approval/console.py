"""A person at a terminal: ask a line, show text, open an editor. Never blocks the event loop."""

from __future__ import annotations

import os
import shlex
import tempfile
from pathlib import Path
from typing import TextIO

from toolcrib.errors import InvalidDecision

_DEFAULT_WIDTH = 80


class EndOfInput(Exception):
    """The person left, or the terminal is gone. Does not leave this package."""


class Console:
    """Two streams that belong to one terminal."""

    def __init__(self, input: TextIO, output: TextIO) -> None:
        self._input = input
        self._output = output

    @property
    def is_terminal(self) -> bool:
        """Whether a person can both read the question and type an answer."""
        try:
            return self._input.isatty() and self._output.isatty()
        except ValueError:
            return False

    @property
    def width(self) -> int:
        """How many columns a line has."""
        try:
            return os.get_terminal_size(self._output.fileno()).columns or _DEFAULT_WIDTH
        except OSError:
            return _DEFAULT_WIDTH

    def write(self, text: str) -> None:
        """Show a line; what the terminal's encoding lacks is written out."""
        encoding = self._output.encoding or "utf-8"
        self._output.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
        self._output.flush()

    async def ask(self, question: str) -> str:
        """Show `question` and return the line typed after it, or raise EndOfInput."""
        import anyio

        descriptor = self._input.fileno()
        _forget_typed_ahead(descriptor)
        self._output.write(question)
        self._output.flush()
        typed = b""
        while not typed.endswith((b"\n", b"\r")):
            await anyio.wait_readable(descriptor)
            chunk = _read(descriptor)
            if not chunk:
                raise EndOfInput
            typed += chunk
        return typed.decode("utf-8", "replace").strip()

    async def edit(self, text: str) -> str:
        """Let the person change `text` in their editor. Raises InvalidDecision if that fails."""
        import anyio

        with tempfile.TemporaryDirectory(prefix="toolcrib-") as directory:
            # The directory is readable by its owner only, and so is what lies in it.
            file = Path(directory, "arguments.json")
            _write_file(file, text)
            command = [*_editor(), str(file)]
            try:
                process = await anyio.open_process(
                    command, stdin=self._input, stdout=self._output, stderr=None
                )
            except OSError as error:
                raise InvalidDecision(
                    f"the editor {command[0]} cannot be started ({error.strerror}); set EDITOR"
                ) from None
            async with process:
                _check_status(command[0], await process.wait())
            return _read_file(file)


def _forget_typed_ahead(descriptor: int) -> None:
    # What was typed before the question was on the screen cannot be an answer to it.
    import termios

    termios.tcflush(descriptor, termios.TCIFLUSH)


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 4096)
    except OSError:
        return b""


def _editor() -> list[str]:
    chosen = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        return shlex.split(chosen) or ["vi"]
    except ValueError:
        raise InvalidDecision(f"EDITOR is {chosen!r}, which has an open quote") from None


def _check_status(editor: str, status: int) -> None:
    if status != 0:
        raise InvalidDecision(f"{editor} ended with status {status}, so nothing is changed")


def _write_file(file: Path, text: str) -> None:
    file.write_text(text, "utf-8")


def _read_file(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        raise InvalidDecision("the edited file cannot be read as UTF-8 text") from None

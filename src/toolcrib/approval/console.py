"""A terminal: ask for a line, write text, open an editor, without blocking the event loop."""

from __future__ import annotations

import os
import shlex
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from toolcrib.errors import EndOfInput, InvalidDecision
from toolcrib.terminal_text import paint, wrap

if TYPE_CHECKING:
    from anyio.abc import Process

_DEFAULT_WIDTH = 80
_GRACE_SECONDS = 2


class Console:
    """The two streams of one terminal."""

    def __init__(self, input: TextIO, output: TextIO) -> None:
        self._input = input
        self._output = output

    @property
    def is_terminal(self) -> bool:
        """Whether a person can read the question and type an answer."""
        try:
            return self._input.isatty() and self._output.isatty()
        except ValueError:
            return False

    @property
    def width(self) -> int:
        """The number of columns of a line."""
        try:
            return os.get_terminal_size(self._output.fileno()).columns or _DEFAULT_WIDTH
        except OSError:
            return _DEFAULT_WIDTH

    def write(self, text: str) -> None:
        """Write lines as they are; characters that the encoding lacks are escaped."""
        encoding = self._output.encoding or "utf-8"
        self._show(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")

    def say(self, text: str, style: str | None = None, *, hanging: str = "") -> None:
        """Write sentences that break at words, in colour if the terminal has it."""
        lines = [piece for line in text.split("\n") for piece in self._wrapped(line, hanging)]
        self.write("\n".join(self.paint(line, style) for line in lines))

    def ring(self) -> None:
        """Ring the bell of the terminal."""
        self._show("\a")

    def paint(self, text: str, style: str | None) -> str:
        """`text` in a style, if the terminal has colour."""
        return paint(text, style, self._output)

    def _wrapped(self, line: str, hanging: str) -> list[str]:
        return wrap(line, self.width, hanging=hanging)

    async def ask(self, question: str) -> str:
        """Write `question` and return the line typed after it. Raises `EndOfInput`."""
        import anyio

        descriptor = self._input.fileno()
        _forget_typed_ahead(descriptor)
        self._show(question)
        typed = b""
        while not typed.endswith((b"\n", b"\r")):
            await anyio.wait_readable(descriptor)
            chunk = _read(descriptor)
            if not chunk:
                raise EndOfInput
            typed += chunk
        return typed.decode("utf-8", "replace").strip()

    async def edit(self, text: str) -> str:
        """Open `text` in the editor of the person. Raises `InvalidDecision` if that fails."""
        with tempfile.TemporaryDirectory(prefix="toolcrib-") as directory:
            # The directory is readable by its owner only, and so is what lies in it.
            file = Path(directory, "arguments.json")
            _write_file(file, text)
            await self._run([*_editor(), str(file)])
            return _read_file(file)

    def _show(self, text: str) -> None:
        try:
            self._output.write(text)
            self._output.flush()
        except OSError:
            raise EndOfInput from None

    async def _run(self, command: list[str]) -> None:
        import termios

        import anyio

        settings = termios.tcgetattr(self._input)
        try:
            process = await anyio.open_process(
                command, stdin=self._input, stdout=self._output, stderr=None
            )
        except OSError as error:
            raise InvalidDecision(
                f"the editor {command[0]} cannot be started ({error.strerror}); set EDITOR"
            ) from None
        try:
            status = await process.wait()
        except BaseException:
            await _stop(process)
            raise
        finally:
            # An editor that was stopped may leave the terminal without echo or line editing.
            with suppress(termios.error):
                termios.tcsetattr(self._input, termios.TCSADRAIN, settings)
        if status != 0:
            raise InvalidDecision(f"{command[0]} ended with status {status}, so nothing is changed")


async def _stop(process: Process) -> None:
    import anyio

    process.terminate()
    with anyio.CancelScope(shield=True):
        with anyio.move_on_after(_GRACE_SECONDS):
            await process.wait()
        if process.returncode is None:
            process.kill()
            await process.wait()


def _forget_typed_ahead(descriptor: int) -> None:
    # What was typed before the question was on the screen cannot be an answer to it.
    import termios

    try:
        termios.tcflush(descriptor, termios.TCIFLUSH)
    except termios.error:
        raise EndOfInput from None


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


def _write_file(file: Path, text: str) -> None:
    file.write_text(text, "utf-8")


def _read_file(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        raise InvalidDecision("the edited file cannot be read as UTF-8 text") from None

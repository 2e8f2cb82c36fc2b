"""A real terminal with a test at the keyboard."""

import asyncio
import codecs
import os
import pty
import termios
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import TextIO

import anyio

from tests.helpers.patience import PATIENCE

PROMPT = "\r\n> "


class PseudoTerminal:
    """Both ends of a pseudo-terminal: `stream` is the program's, the methods are the person's."""

    def __init__(self, keyboard: int, stream: TextIO) -> None:
        self._keyboard = keyboard
        self._screen = ""
        # One character may come in two pieces.
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self.stream = stream

    def type(self, keys: str) -> None:
        """Press keys; a line ends with a newline, Ctrl-D is chr(4)."""
        os.write(self._keyboard, keys.encode())

    async def see(self, text: str = PROMPT, *, seconds: float = PATIENCE) -> str:
        """Wait until `text` is on the screen; return what came up to its end."""
        while text not in self._screen:
            async with asyncio.timeout(seconds):
                await anyio.wait_readable(self._keyboard)
            self._screen += self._decoder.decode(os.read(self._keyboard, 65_536))
        seen, found, self._screen = self._screen.partition(text)
        return seen + found

    async def read_to_end(self) -> str:
        """Read until no program has the terminal open any more; return what came."""
        seen, self._screen = self._screen, ""
        with suppress(OSError):
            while True:
                await anyio.wait_readable(self._keyboard)
                seen += self._decoder.decode(os.read(self._keyboard, 65_536))
        return seen

    async def answer(self, *lines: str) -> str:
        """Wait for each prompt and type a line at it; return all that was seen."""
        seen = ""
        for line in lines:
            seen += await self.see()
            self.type(f"{line}\n")
        return seen

    def end_input(self) -> None:
        """Close the person's end, as when a terminal window is closed."""
        os.close(self._keyboard)
        self._keyboard = -1

    def close(self) -> None:
        """Close whatever is still open."""
        with suppress(OSError):
            self.stream.close()
        if self._keyboard != -1:
            self.end_input()


@contextmanager
def pseudo_terminal(columns: int | None = None) -> Generator[PseudoTerminal]:
    """Open a pseudo-terminal for one test, of a width if one is named."""
    keyboard, descriptor = pty.openpty()
    if columns is not None:
        termios.tcsetwinsize(keyboard, (40, columns))
    terminal = PseudoTerminal(keyboard, os.fdopen(descriptor, "w", encoding="utf-8"))
    try:
        yield terminal
    finally:
        terminal.close()

"""What a person sees at a terminal: the bytes of a program, read back by a terminal emulator."""

from __future__ import annotations

from typing import Any, Final

import pyte

WIDTHS: Final = (60, 80, 120)
"""The terminals that every program is read at."""
_WIDEST: Final = 2_000
_TALLEST: Final = 400


def screen_lines(output: str) -> list[str]:
    """The lines that a program wrote, after all its movements of the cursor.

    The screen is wider than the one that the program was told of: what runs past the edge of that
    one is seen in full.
    """
    screen: Any = pyte.Screen(_WIDEST, _TALLEST)
    stream: Any = pyte.Stream(screen)
    stream.feed(output)
    lines: list[str] = [line.rstrip() for line in screen.display]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def past_the_edge(output: str, columns: int) -> list[str]:
    """The lines that run past the edge, except for a word of its own that nothing could break, with
    the mark that its command goes on below.
    """
    return [
        line
        for line in screen_lines(output)
        if len(line) > columns and len(line.removesuffix(" \\").split()) > 1
    ]

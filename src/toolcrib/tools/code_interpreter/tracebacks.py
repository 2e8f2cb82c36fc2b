"""Tells from what Python code printed whether an exception ended it.

Some providers mix all that a run prints into one text and say nothing else of its end. What code
prints of an exception that it caught looks alike, so only a traceback that ends the output counts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_RULE = re.compile(r"-{10,}")
_NOTEBOOK_HEADER = re.compile(r"[A-Za-z_]\w* +Traceback \(most recent call last\)")
_SCRIPT_HEADER = "Traceback (most recent call last):"
_EXCEPTION = re.compile(r"[A-Za-z_][\w.<>]*(?::.*)?")
_SYNTAX_ERROR = re.compile(r"(?:SyntaxError|IndentationError|TabError): .+")
_PLACE = re.compile(r"\s*(?:File .+, line \d+|(?:Cell|Input) In ?\[\d+\].*)")
# A faulty line is shown with its place above it and a caret under it.
_LINES_OF_A_SYNTAX_ERROR = 5


def fatal_traceback(output: str) -> str | None:
    """The traceback that ends the output; None when it ends in another way."""
    lines = _COLOURS.sub("", output).rstrip().splitlines()
    for find in (_notebook, _script, _syntax_error):
        start = find(lines)
        if start is not None:
            return "\n".join(lines[start:])
    return None


def _notebook(lines: Sequence[str]) -> int | None:
    """Where a notebook reports an exception. Only it draws the rule, and it does so last."""
    for index in range(1, len(lines)):
        if _NOTEBOOK_HEADER.fullmatch(lines[index]) and _RULE.fullmatch(lines[index - 1]):
            return index
    return None


def _script(lines: Sequence[str]) -> int | None:
    """Where the last traceback starts, if nothing but its exception follows its frames."""
    headers = [index for index, line in enumerate(lines) if line == _SCRIPT_HEADER]
    if not headers:
        return None
    below = [line for line in lines[headers[-1] + 1 :] if line and not line.startswith(" ")]
    is_last = len(below) == 1 and _EXCEPTION.fullmatch(below[0]) is not None
    return headers[-1] if is_last else None


def _syntax_error(lines: Sequence[str]) -> int | None:
    """Where code that could not be read is shown: it never ran, so there are no frames."""
    if not lines or not _SYNTAX_ERROR.fullmatch(lines[-1]):
        return None
    first = max(0, len(lines) - _LINES_OF_A_SYNTAX_ERROR)
    places = [at for at in range(first, len(lines)) if _PLACE.fullmatch(lines[at])]
    return places[0] if places else None

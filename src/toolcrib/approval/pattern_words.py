"""Patterns as people type them: `path=src/** kilos<=480`, without JSON."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Final

from toolcrib.approval.pattern import Between, Equals, Glob, Pattern, Patterns, checked_patterns
from toolcrib.approval.pattern_json import read_patterns
from toolcrib.errors import InvalidDecision

_WORD: Final = re.compile(r"(?P<name>/[^=<>]+|[^=<>/]+)(?P<sign><=|>=|=)(?P<value>.*)", re.DOTALL)
_WILD: Final = re.compile(r"[*?\[]")


def read_typed_patterns(text: str, arguments: Mapping[str, Any]) -> Patterns:
    """Read patterns about the arguments of a call, as words or as JSON. Raises `UsageError`."""
    if text.startswith("{"):
        return read_patterns(_json(text))
    patterns: dict[str, Pattern] = {}
    for word in _words(text):
        parts = _WORD.fullmatch(word)
        if parts is None:
            raise InvalidDecision(f"{word!r} is none of name=value, name<=number, name>=number")
        pointer, shown = _place(parts["name"], arguments)
        new = _pattern(parts["sign"], parts["value"], is_text=isinstance(shown, str))
        patterns[pointer] = _joined(parts["name"], patterns.get(pointer), new)
    if not patterns:
        raise InvalidDecision("no pattern was typed; write name=value")
    return checked_patterns(patterns)


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        raise InvalidDecision("a quote is open; close it") from None


def _place(name: str, arguments: Mapping[str, Any]) -> tuple[str, Any]:
    """The pointer of an argument, and what it is in this call."""
    if name.startswith("/"):
        return name, arguments.get(name[1:].replace("~1", "/").replace("~0", "~"))
    if name not in arguments:
        close = get_close_matches(name, arguments, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"it has {', '.join(arguments)}"
        raise InvalidDecision(f"this call has no argument {name!r}; {hint}")
    return "/" + name.replace("~", "~0").replace("/", "~1"), arguments[name]


def _pattern(sign: str, value: str, *, is_text: bool) -> Pattern:
    if sign == "=":
        if is_text:
            return Glob(value) if _WILD.search(value) else Equals(value)
        written = _json(value)
        if isinstance(written, dict | list):
            raise InvalidDecision(f"{value} is no single value; write the patterns as JSON")
        return Equals(written)
    limit = _json(value)
    if isinstance(limit, bool) or not isinstance(limit, int | float):
        raise InvalidDecision(f"{sign} takes a number, and {value!r} is none")
    return Between(max=limit) if sign == "<=" else Between(min=limit)


def _joined(name: str, before: Pattern | None, new: Pattern) -> Pattern:
    """Both limits of one argument."""
    match before, new:
        case None, _:
            return new
        case Between(min=None, max=high), Between(min=low, max=None) if low is not None:
            return Between(min=low, max=high)
        case Between(min=low, max=None), Between(min=None, max=high) if high is not None:
            return Between(min=low, max=high)
        case _:
            raise InvalidDecision(f"{name!r} is there twice; keep one, or write JSON")


def _json(text: str) -> Any:
    from pydantic_core import from_json

    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError as error:
        raise InvalidDecision(f"{text!r} is neither a number nor other JSON ({error})") from None

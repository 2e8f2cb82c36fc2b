"""What a function's docstring says about the tool and about each argument."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

_HEADINGS = "Args|Arguments|Parameters|Params|Returns?|Yields?|Raises|Examples?|Notes?|Attributes"
_SECTION = re.compile(
    rf"^(?:(?P<google>(?:{_HEADINGS}):\s*$)"
    rf"|(?P<numpy>(?:{_HEADINGS})\s*\n-{{3,}}\s*$)"
    r"|(?P<rest>:(?:param|parameter|arg|argument|returns?|rtype|raises|type)\b.*:))",
    re.MULTILINE,
)


def summary(function: Callable[..., Any]) -> str:
    """The text of the docstring before its first section."""
    text = inspect.getdoc(function) or ""
    section = _SECTION.search(text)
    return (text[: section.start()] if section else text).strip()


def argument_descriptions(function: Callable[..., Any]) -> dict[str, str]:
    """What the docstring says about each argument, in Google, NumPy or reST style."""
    text = inspect.getdoc(function) or ""
    section = _SECTION.search(text)
    if section is None:
        # Parsing costs more than building the schema, and most docstrings have nothing to parse.
        return {}
    from docstring_parser import DocstringStyle, ParseError, parse

    styles = {
        "google": DocstringStyle.GOOGLE,
        "numpy": DocstringStyle.NUMPYDOC,
        "rest": DocstringStyle.REST,
    }
    try:
        # The parser takes the first line for a summary and would lose the indent of a section.
        parsed = parse("\n" + text, style=styles[section.lastgroup or "google"])
    except ParseError:
        # A docstring is written for people; an odd one must not keep a tool from working.
        return {}
    return {
        found.arg_name: " ".join(found.description.split())
        for found in parsed.params
        if found.description
    }

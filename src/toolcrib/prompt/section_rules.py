"""The rules that the parts of a section keep to."""

from __future__ import annotations

import re
from dataclasses import is_dataclass
from typing import Any

from toolcrib.errors import InvalidPrompt
from toolcrib.tools.prepared import as_tool
from toolcrib.tools.tool import Tool

_KEY = re.compile(r"[a-z0-9_-]{1,64}")


def check_key(key: object) -> None:
    """Refuse a key that cannot be part of a section's path."""
    if not isinstance(key, str) or not _KEY.fullmatch(key):
        raise InvalidPrompt(f"a section's key must match {_KEY.pattern}; {key!r} does not")


def check_title(title: object) -> None:
    """Refuse a title that is not one line of text."""
    if not isinstance(title, str) or not title.strip() or len(title.splitlines()) > 1:
        raise InvalidPrompt(f"the title must be one line of text, not {title!r}")


def check_visibility(visibility: object, summary: str | None) -> None:
    """Refuse an unknown visibility, and a summary to show that is not there."""
    if visibility not in ("full", "summary"):
        raise InvalidPrompt(f"visibility is 'full' or 'summary', not {visibility!r}")
    if visibility == "summary" and not summary:
        raise InvalidPrompt("only the summary is to be shown, but there is none; give `summary`")


def check_params_type(params_type: object) -> None:
    """Refuse params without fields that a template could name."""
    if params_type is None or (isinstance(params_type, type) and is_dataclass(params_type)):
        return
    raise InvalidPrompt(f"params must be a dataclass, not {params_type!r}")


def provider_run(tool: object) -> Tool[Any, Any]:
    """The tool, unless it would run anywhere else than at the provider."""
    ready = as_tool(tool)
    if ready.place != "provider":
        raise InvalidPrompt(
            f"the provider does not run tool {ready.name!r}; pass it as tools, not hosted_tools"
        )
    return ready

"""A web API from its entry in a file of host tools."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from toolcrib.errors import InvalidTool
from toolcrib.openapi.api_tools import ApiOptions, ApiTools, openapi_tools

_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_PLAIN: Final = (
    "base_url",
    "approval",
    "timeout",
    "max_response_bytes",
    "max_concurrent",
    "validate_output",
)


def api_from(name: str, entry: Mapping[str, Any], folder: Path) -> tuple[str, ApiTools]:
    """Where the document lies, and the tools of it. A relative path starts at `folder`; `${NAME}`
    stands for a variable of this process. Raises `InvalidTool`.
    """
    document = str(entry["document"])
    place = document if "://" in document else str(folder / document)
    options = ApiOptions(
        name=name,
        credentials=_filled(entry.get("credentials", {})),
        headers=_filled(entry.get("headers", {})),
        include=tuple(entry.get("include", ("*",))),
        exclude=tuple(entry.get("exclude", ())),
        **{key: entry[key] for key in _PLAIN if key in entry},
    )
    return place, openapi_tools(place, options)


def _filled(values: Mapping[str, str]) -> dict[str, str]:
    def value(match: re.Match[str]) -> str:
        if match[1] not in os.environ:
            raise InvalidTool(f"needs the environment variable {match[1]}; set it")
        return os.environ[match[1]]

    return {key: _VARIABLE.sub(value, text) for key, text in values.items()}

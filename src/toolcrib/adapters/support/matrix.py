"""The whole matrix. A yes means that the option really reaches the provider: one that the library
in between (pydantic-ai 2.66) would leave out without a word is a no.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from toolcrib.adapters.support.cell import Kind
from toolcrib.adapters.support.code import (
    APPLY_PATCH,
    CODE_INTERPRETER,
    MEMORY,
    SHELL,
    TOOL_SEARCH,
)
from toolcrib.adapters.support.files import FILE_SEARCH, IMAGE_GENERATION
from toolcrib.adapters.support.mcp import MCP
from toolcrib.adapters.support.web import WEB_FETCH, WEB_SEARCH

MATRIX: Final[Mapping[str, Kind]] = {
    "web_search": WEB_SEARCH,
    "web_fetch": WEB_FETCH,
    "code_interpreter": CODE_INTERPRETER,
    "file_search": FILE_SEARCH,
    "image_generation": IMAGE_GENERATION,
    "mcp": MCP,
    "shell": SHELL,
    "apply_patch": APPLY_PATCH,
    "memory": MEMORY,
    "tool_search": TOOL_SEARCH,
}

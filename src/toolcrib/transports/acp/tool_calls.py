"""Calls as an editor shows them: kind, title, content, locations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TypeGuard, get_args

from acp.schema import (
    ContentToolCallContent,
    FileEditToolCallContent,
    ImageContentBlock,
    TextContentBlock,
    ToolCallLocation,
    ToolKind,
)

from toolcrib.transports.acp.client_tools import READ_FILE, TERMINAL, WRITE_FILE

if TYPE_CHECKING:
    from toolcrib.runtime.messages import ToolFacts

KINDS: Final = frozenset(get_args(ToolKind))
_BY_NAME: Final[dict[str, ToolKind]] = {
    READ_FILE: "read",
    WRITE_FILE: "edit",
    TERMINAL: "execute",
    "code_interpreter": "execute",
    "file_search": "search",
    "shell": "execute",
    "tool_search": "search",
    "web_search": "fetch",
}
MAX_TITLE: Final = 120


def kind_of(facts: ToolFacts) -> ToolKind:
    """The ACP kind of a tool: its category, if that is a kind of the protocol."""
    if _is_kind(facts.category):
        return facts.category
    known = kind_by_name(facts.name)
    return "read" if known == "other" and facts.is_read_only else known


def kind_by_name(name: str) -> ToolKind:
    """The ACP kind of a tool by its name alone."""
    return _BY_NAME.get(name, "other")


def title_of(name: str, arguments: Mapping[str, Any] | None) -> str:
    """One line for a person: the tool, and its command or path if it has one."""
    if not arguments:
        return name
    if name == TERMINAL:
        words = [str(arguments.get("command", "")), *map(str, arguments.get("args") or ())]
        return _short(f"{name}: {' '.join(words)}")
    path = arguments.get("path")
    return _short(f"{name}: {path}") if isinstance(path, str) else name


def locations_of(arguments: Mapping[str, Any] | None) -> list[ToolCallLocation] | None:
    """The file that a call names, so that the editor can follow it."""
    path = (arguments or {}).get("path")
    if not isinstance(path, str) or not path.startswith("/"):
        return None
    line = (arguments or {}).get("line")
    is_line = isinstance(line, int) and not isinstance(line, bool) and line >= 0
    return [ToolCallLocation(path=path, line=line if is_line else None)]


def text_content(text: str) -> ContentToolCallContent:
    """Text as the content of a call."""
    return ContentToolCallContent(type="content", content=text_block(text))


def image_content(base64: str, media_type: str) -> ContentToolCallContent:
    """A picture as the content of a call."""
    block = ImageContentBlock(type="image", data=base64, mime_type=media_type)
    return ContentToolCallContent(type="content", content=block)


def text_block(text: str) -> TextContentBlock:
    """Text as a block of content."""
    return TextContentBlock(type="text", text=text)


def proposed_edit(name: str, arguments: Mapping[str, Any]) -> list[FileEditToolCallContent]:
    """The text that a call would write, for the person who decides."""
    path, content = arguments.get("path"), arguments.get("content")
    if name != WRITE_FILE or not isinstance(path, str) or not isinstance(content, str):
        return []
    return [FileEditToolCallContent(type="diff", path=path, new_text=content)]


def _is_kind(category: str | None) -> TypeGuard[ToolKind]:
    return category in KINDS


def _short(title: str) -> str:
    line = " ".join(title.split())
    return line if len(line) <= MAX_TITLE else line[: MAX_TITLE - 1] + "…"

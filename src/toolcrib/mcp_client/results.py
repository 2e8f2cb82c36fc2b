"""What a server answers to a call, as a result of ours.

The handler of a tool that another server runs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from toolcrib.errors import CallEnded, InvalidEvent
from toolcrib.tools.result import ToolResult

if TYPE_CHECKING:
    from toolcrib.tools.context import ToolContext


if TYPE_CHECKING:
    import mcp_types

    from toolcrib.tools.redaction import Scrubber

    Block: TypeAlias = mcp_types.ContentBlock

# All that could steer a terminal; line breaks and tabs are text.
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def tool_result(answer: mcp_types.CallToolResult, tool: str, most: int) -> ToolResult[Any]:
    """The value for programs and the text for the model. `most` is how many characters of it are
    taken, in all.
    """
    text = text_of(answer.content)
    if answer.is_error:
        message = _cut(text, most) or f"`{tool}` failed, and its server does not say why."
        return ToolResult(success=False, message=message, value=_value(answer, most))
    if answer.structured_content is not None:
        value = _structured(answer.structured_content, tool, most)
        return ToolResult(value=value, message=_cut(text, most))
    if all(block.type == "text" for block in answer.content):
        return ToolResult(value=_cut(text, most))
    return ToolResult(value=_value(answer, most), message=_cut(text, most))


def text_of(blocks: Sequence[Block]) -> str:
    """What a model that reads text gets to see of an answer."""
    return _clean("\n".join(_text(block) for block in blocks))


def without_secrets(result: ToolResult[Any], hidden: Scrubber) -> ToolResult[Any]:
    """The same result, without what the server was given to keep to itself."""
    return ToolResult(
        value=hidden.scrub(result.value),
        message=hidden.scrub(result.message),
        success=result.success,
        metadata=result.metadata,
    )


def _structured(content: Any, tool: str, most: int) -> Any:
    size = len(json.dumps(content, ensure_ascii=False))
    if size > most:
        raise CallEnded(
            "invalid_result", f"`{tool}` answered with {size} characters; {most} are taken at most."
        )
    return content


def _value(answer: mcp_types.CallToolResult, most: int) -> Any:
    """The parts of an answer as MCP writes them, as far as there is room for them."""
    if not answer.content:
        return None
    return {"content": _parts(answer.content, most)}


def _parts(blocks: Sequence[Block], most: int) -> list[dict[str, Any]]:
    left, parts = most, list[dict[str, Any]]()
    for block in blocks:
        part = block.model_dump(mode="json", by_alias=True, exclude_none=True)
        if block.type == "text":
            part["text"] = _clean(block.text)
        size = len(json.dumps(part, ensure_ascii=False))
        if size > left:
            parts.append({"type": block.type, "omitted": True, "size": size})
        else:
            parts.append(part)
            left -= size
    return parts


def _text(block: Block) -> str:
    """What a model that reads text gets to see of a part."""
    match block.type:
        case "text":
            return block.text
        case "image" | "audio":
            return f"[{block.type}, {block.mime_type}, {_bytes(block.data)} bytes]"
        case "resource_link":
            return f"[resource {block.name}: {block.uri}]"
        case "resource":
            found: Any = block.resource
            if hasattr(found, "text"):
                return found.text
            return f"[resource {found.uri}, {found.mime_type}, {_bytes(found.blob)} bytes]"


def _bytes(base64: str) -> int:
    return len(base64) * 3 // 4 - base64[-2:].count("=")


def _clean(text: str) -> str:
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n"))


def _cut(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    return f"{text[:most]}\n[{len(text) - most} of {len(text)} characters were not taken.]"


class ToolServer(Protocol):
    """Whoever can have a call run by a server."""

    async def call(
        self, name: str, promise: str, arguments: Mapping[str, Any], context: ToolContext
    ) -> ToolResult[Any]:
        """Run a tool by its own name, if it still is what was promised."""
        ...


@dataclass(frozen=True, slots=True)
class RemoteHandler:
    """Runs one tool of a server. Equal as long as the tool is the same, so that a list which says
    nothing new changes nothing.
    """

    server: ToolServer
    name: str
    promise: str

    async def __call__(self, given: dict[str, Any], context: ToolContext) -> ToolResult[Any]:
        """Have the server run it."""
        return await self.server.call(self.name, self.promise, given, context)


def report_progress(
    context: ToolContext, current: float, total: float | None, message: str | None
) -> None:
    """Give a server's progress on. What cannot be told, or comes too late, is left out."""
    try:
        context.progress(current, total, message)
    except InvalidEvent:
        return

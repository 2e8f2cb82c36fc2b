"""The result of a remote tool as a `ToolResult`, and the handler that calls a remote tool."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from toolcrib.errors import CallEnded, InvalidEvent
from toolcrib.tools.identity import HandlerIdentity
from toolcrib.tools.result import ToolResult

if TYPE_CHECKING:
    import mcp_types

    from toolcrib.mcp_client.pins import PinDeviation
    from toolcrib.tools.context import ToolContext
    from toolcrib.tools.redaction import Scrubber

    Block: TypeAlias = mcp_types.ContentBlock

# Control characters could steer a terminal, and direction marks make text read as other text; line
# breaks and tabs are text.
_CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def tool_result(answer: mcp_types.CallToolResult, tool: str, max_chars: int) -> ToolResult[Any]:
    """The value for programs and the text for the model, cut to `max_chars` characters."""
    text = text_of(answer.content)
    if answer.is_error:
        message = _cut(text, max_chars) or f"`{tool}` failed; its server gives no reason."
        return ToolResult(success=False, message=message, value=_value(answer, max_chars))
    if answer.structured_content is not None:
        value = _structured(answer.structured_content, tool, max_chars)
        return ToolResult(value=value, message=_cut(text, max_chars))
    if all(block.type == "text" for block in answer.content):
        return ToolResult(value=_cut(text, max_chars))
    return ToolResult(value=_value(answer, max_chars), message=_cut(text, max_chars))


def text_of(blocks: Sequence[Block]) -> str:
    """The content of a result as text for a model."""
    return _clean("\n".join(_text(block) for block in blocks))


def without_secrets(result: ToolResult[Any], scrubber: Scrubber) -> ToolResult[Any]:
    """The same result, without the secrets that the server was configured with."""
    return ToolResult(
        value=scrubber.scrub(result.value),
        message=scrubber.scrub(result.message),
        success=result.success,
        metadata=result.metadata,
    )


def _structured(content: Any, tool: str, max_chars: int) -> Any:
    size = len(json.dumps(content, ensure_ascii=False))
    if size > max_chars:
        raise CallEnded(
            "invalid_result",
            f"`{tool}` returned {size} characters; at most {max_chars} are accepted.",
        )
    return content


def _value(answer: mcp_types.CallToolResult, max_chars: int) -> Any:
    """The content blocks as MCP JSON; None without content."""
    if not answer.content:
        return None
    return {"content": _parts(answer.content, max_chars)}


def _parts(blocks: Sequence[Block], max_chars: int) -> list[dict[str, Any]]:
    left, parts = max_chars, list[dict[str, Any]]()
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
    """One content block as text; binary content by its type and size."""
    match block.type:
        case "text":
            return block.text
        case "image" | "audio":
            return f"[{block.type}, {block.mime_type}, {_bytes(block.data)} bytes]"
        case "resource_link":
            return f"[resource {block.name}: {block.uri}]"
        case "resource":
            resource: Any = block.resource
            if hasattr(resource, "text"):
                return resource.text
            size = _bytes(resource.blob)
            return f"[resource {resource.uri}, {resource.mime_type}, {size} bytes]"


def _bytes(base64: str) -> int:
    return len(base64) * 3 // 4 - base64[-2:].count("=")


def _clean(text: str) -> str:
    """The text of a server without what would steer a terminal or reorder what is shown."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n"))


def _cut(text: str, max_chars: int) -> str:
    if len(text) <= max_chars:
        return text
    return f"{text[:max_chars]}\n[{len(text) - max_chars} of {len(text)} characters were left out.]"


class ToolServer(Protocol):
    """A server that runs tools by name."""

    async def call(
        self, handler: RemoteHandler, arguments: Mapping[str, Any], context: ToolContext
    ) -> ToolResult[Any]:
        """Run the tool of a handler, if the tool and the server are still what they were."""
        ...


@dataclass(frozen=True, slots=True)
class RemoteHandler:
    """The handler of one tool of a server. Handlers of an unchanged tool are equal, so that listing
    the tools again changes nothing.
    """

    server: ToolServer
    name: str
    digest: str
    identity: HandlerIdentity = field(hash=False)
    deviation: PinDeviation | None = None
    """How the tool deviates from its pin; None when it is not pinned, or as it was."""

    def handler_identity(self) -> HandlerIdentity:
        """The server that runs the tool, and what it declares if that was not accepted."""
        if self.deviation is None:
            return self.identity
        declared = {"declared_digest": self.deviation.digest}
        return HandlerIdentity({**self.identity.configuration, **declared}, self.identity.code)

    async def __call__(self, input: dict[str, Any], context: ToolContext) -> ToolResult[Any]:
        """Have the server run the tool."""
        return await self.server.call(self, input, context)


def report_progress(
    context: ToolContext, current: float, total: float | None, message: str | None
) -> None:
    """Pass on a server's progress. Invalid progress, or progress after the end, is dropped."""
    try:
        context.progress(current, total, message)
    except InvalidEvent:
        return

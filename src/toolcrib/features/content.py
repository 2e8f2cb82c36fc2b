"""The content of resources and prompts: what a function may return, and its form in MCP."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, cast

from pydantic_core import PydanticSerializationError, to_json, to_jsonable_python

from toolcrib.errors import CallEnded, InvalidTool

JSON_TYPE: Final = "application/json"
TEXT_TYPE: Final = "text/plain"
BINARY_TYPE: Final = "application/octet-stream"

Role: TypeAlias = Literal["user", "assistant"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceContent:
    """One content of a resource, for a function that gives several, or another type than its
    resource has.
    """

    data: str | bytes
    mime_type: str | None = None
    """Without it, the type of the resource."""
    uri: str | None = None
    """Without it, the URI that was read."""
    meta: Mapping[str, Any] | None = field(default=None, hash=False)

    def __post_init__(self) -> None:
        if not isinstance(self.data, str | bytes):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidTool(f"a ResourceContent is text or bytes, not {type(self.data).__name__}")


@dataclass(frozen=True, slots=True)
class PromptMessage:
    """One message of a prompt: text, or a content block as MCP writes it."""

    content: str | Mapping[str, Any] = field(hash=False)
    role: Role = "user"

    def __post_init__(self) -> None:
        if self.role not in ("user", "assistant"):
            raise InvalidTool(f"a message has the role user or assistant, not {self.role!r}")


def resource_value(result: object, uri: str, mime_type: str | None) -> dict[str, Any]:
    """What `resources/read` answers for the result of a function."""
    if isinstance(result, ResourceContent):
        contents = [result]
    elif isinstance(result, list | tuple) and _are(ResourceContent, cast("Any", result)):
        contents = list(cast("Sequence[ResourceContent]", result))
    else:
        contents = [_content(cast("object", result), mime_type)]
    return {"contents": [_written(content, uri, mime_type) for content in contents]}


def prompt_value(result: object, description: str | None) -> dict[str, Any]:
    """What `prompts/get` answers for the result of a function: a text, a message, or several."""
    entries: Iterable[object]
    is_many = isinstance(result, list | tuple)
    entries = cast("Sequence[object]", result) if is_many else [result]
    value: dict[str, Any] = {"messages": [_message(entry) for entry in entries]}
    if description:
        value["description"] = description
    return value


def value_text(value: Mapping[str, Any]) -> str:
    """The texts of a resource or a prompt in its MCP form; other content by its type."""
    contents: list[dict[str, Any]] = value.get("contents") or []
    messages: list[dict[str, Any]] = value.get("messages") or []
    blocks: list[dict[str, Any]] = [message.get("content") or {} for message in messages]
    return "\n".join([_text(part) for part in contents] + [_text(block) for block in blocks])


def _text(part: Mapping[str, Any]) -> str:
    text = part.get("text")
    if isinstance(text, str):
        return text
    inner = part.get("resource")
    if isinstance(inner, dict):
        return _text(cast("dict[str, Any]", inner))
    kind = part.get("mimeType") or part.get("type") or "data"
    return f"[{kind}]"


def _are(kind: type, entries: Sequence[object]) -> bool:
    return bool(entries) and all(isinstance(entry, kind) for entry in entries)


def _content(result: object, mime_type: str | None) -> ResourceContent:
    if isinstance(result, str | bytes):
        return ResourceContent(data=result)
    if isinstance(result, bytearray | memoryview):
        return ResourceContent(data=bytes(cast("Any", result)))
    try:
        return ResourceContent(data=to_json(result).decode(), mime_type=mime_type or JSON_TYPE)
    except PydanticSerializationError:
        raise CallEnded(
            "invalid_result",
            f"The resource returned {type(result).__name__}, which is neither text nor bytes and "
            "has no JSON form.",
        ) from None


def _written(content: ResourceContent, uri: str, mime_type: str | None) -> dict[str, Any]:
    written: dict[str, Any] = {"uri": content.uri or uri}
    if isinstance(content.data, str):
        written["mimeType"] = content.mime_type or mime_type or TEXT_TYPE
        written["text"] = content.data
    else:
        written["mimeType"] = content.mime_type or mime_type or BINARY_TYPE
        written["blob"] = base64.b64encode(content.data).decode()
    if content.meta:
        written["_meta"] = to_jsonable_python(dict(content.meta))
    return written


def _message(entry: object) -> dict[str, Any]:
    if isinstance(entry, str):
        entry = PromptMessage(entry)
    if not isinstance(entry, PromptMessage):
        raise CallEnded(
            "invalid_result",
            f"The prompt returned {type(entry).__name__}; a prompt gives text, a PromptMessage, or "
            "a list of them.",
        )
    content = entry.content
    block = {"type": "text", "text": content} if isinstance(content, str) else dict(content)
    return {"role": entry.role, "content": block}

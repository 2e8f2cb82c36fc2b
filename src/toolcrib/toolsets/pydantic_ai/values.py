"""Values that pydantic-ai has a meaning for: images, files, `ToolReturn`.

Inside the executor they travel as `Packed`: what is recorded tells what they are, without their
bytes, and the agent gets them as the tool returned them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from pydantic_ai import (
    AudioUrl,
    BinaryContent,
    DocumentUrl,
    ImageUrl,
    ToolReturn,
    UploadedFile,
    VideoUrl,
)
from pydantic_ai.messages import is_multi_modal_content

from toolcrib.session.encoding import rendered
from toolcrib.tools.result import ToolResult
from toolcrib.toolsets.packed import Packed

_PLAIN = (str, int, float, bool, type(None))


def pack(value: Any) -> Any:
    """The value as the executor can record it; most values just as they are."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, ToolReturn):
        return _pack_return(cast("ToolReturn[Any]", value))
    if isinstance(value, ToolResult):
        result = cast("ToolResult[Any]", value)
        inner = pack(result.value)
        return result if inner is result.value else replace(result, value=inner)
    if _holds_content(value):
        record = _described(value)
        return Packed({"content": record}, value, rendered(record))
    return value


def _pack_return(value: ToolReturn[Any]) -> Packed:
    # Its metadata is the application's, of any type, and no part of what the model is told.
    returned = _described(value.return_value)
    record = {"return_value": returned}
    if value.content is not None:
        record["content"] = _described(value.content)
    return Packed(record, value, rendered(returned))


def _holds_content(value: Any) -> bool:
    """Whether there is content in it that a model sees as something other than JSON."""
    if type(value) in _PLAIN:
        return False
    if isinstance(value, Mapping):
        return any(map(_holds_content, cast("Mapping[Any, Any]", value).values()))
    if isinstance(value, list | tuple):
        return any(map(_holds_content, cast("Sequence[Any]", value)))
    return is_multi_modal_content(value)


def _described(value: Any) -> Any:
    """The value with every content in it replaced by a description."""
    match value:
        case BinaryContent():
            return {"kind": value.kind, "media_type": value.media_type, "bytes": len(value.data)}
        case UploadedFile():
            return {"kind": value.kind, "file_id": value.file_id, "provider": value.provider_name}
        case ImageUrl() | AudioUrl() | DocumentUrl() | VideoUrl():
            return {"kind": value.kind, "url": value.url}
        case Mapping():
            members = cast("Mapping[Any, Any]", value).items()
            return {key: _described(each) for key, each in members}
        case list() | tuple():
            return [_described(each) for each in cast("Sequence[Any]", value)]
        case _:
            return value

"""Pictures, sounds and files of another server's answer, given on as they came."""

from __future__ import annotations

from typing import Any, Final, cast

from mcp_types import ContentBlock
from pydantic import TypeAdapter, ValidationError

from toolcrib.mcp_client.answers import text_of

_BLOCK: Final = TypeAdapter[ContentBlock](ContentBlock)


def parts_of(value: Any, text: str) -> list[dict[str, Any]] | None:
    """The parts that a mounted tool's value is made of; None when it is something else.

    `text` is what a model reads of the result. Where that says more than the parts do, or less
    because it was cut, it takes the place of those that are text.
    """
    written = _written(value)
    if written is None:
        return None
    blocks = [block for each in written if (block := _block(each)) is not None]
    parts = [_plain(each) for each in blocks]
    if len(blocks) == len(written) and text_of(blocks) == text:
        return parts
    return [{"type": "text", "text": text}, *(each for each in parts if each["type"] != "text")]


def _written(value: Any) -> list[dict[str, Any]] | None:
    """What stands under `content`, if nothing else stands there and all of it has a type."""
    if not isinstance(value, dict) or list(cast("dict[str, Any]", value)) != ["content"]:
        return None
    found: Any = cast("dict[str, Any]", value)["content"]
    if not isinstance(found, list) or not found:
        return None
    parts = cast("list[Any]", found)
    return parts if all(isinstance(part, dict) and "type" in part for part in parts) else None


def _block(part: dict[str, Any]) -> ContentBlock | None:
    """One part; None for one that was left out because it was too large."""
    try:
        return _BLOCK.validate_python(part)
    except ValidationError:
        return None


def _plain(block: ContentBlock) -> dict[str, Any]:
    return _BLOCK.dump_python(block, mode="json", by_alias=True, exclude_none=True)

"""A rendered prompt as the `input` and `text` of a request."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, cast

from toolcrib.prompt.attachments import Attachment, FileAttachment, TextAttachment

if TYPE_CHECKING:
    from toolcrib.prompt.output import OutputSchema
    from toolcrib.prompt.rendering import RenderedPrompt

MAX_ATTACHMENT_BYTES = 20_000_000


def first_message(prompt: RenderedPrompt[Any]) -> dict[str, Any]:
    """The prompt and its attachments as one user message."""
    content: list[dict[str, Any]] = [{"type": "input_text", "text": prompt.text}]
    content += [_part(attachment) for attachment in prompt.attachments]
    return {"type": "message", "role": "user", "content": content}


def _part(attachment: Attachment) -> dict[str, Any]:
    match attachment:
        case TextAttachment(text=text, title=title):
            return {"type": "input_text", "text": f"{title}\n\n{text}" if title else text}
        case FileAttachment(file_id=str(file_id)):
            kind = "input_image" if attachment.is_image else "input_file"
            return {"type": kind, "file_id": file_id}
        case FileAttachment() if attachment.is_image:
            return {"type": "input_image", "detail": "auto", "image_url": _data_url(attachment)}
        case FileAttachment():
            return {
                "type": "input_file",
                "filename": attachment.file_name,
                "file_data": _data_url(attachment),
            }


def _data_url(attachment: FileAttachment) -> str:
    data = base64.b64encode(attachment.read(MAX_ATTACHMENT_BYTES)).decode()
    return f"data:{attachment.kind};base64,{data}"


def output_format(output: OutputSchema[Any]) -> dict[str, Any]:
    """`text.format` for a structured answer; strict where the schema allows it."""
    strict = strict_schema(output.schema)
    return {
        "type": "json_schema",
        "name": output.name[:64],
        "schema": output.schema if strict is None else strict,
        "strict": strict is not None,
    }


def strict_schema(schema: dict[str, Any]) -> dict[str, Any] | None:
    """The schema with every object closed and every property required, as strict mode wants it.

    None when that is impossible: an object with free keys cannot be closed.
    """
    try:
        return _closed(schema)
    except ValueError:
        return None


def _closed(node: Any) -> Any:
    if isinstance(node, list):
        return [_closed(each) for each in cast("list[Any]", node)]
    if not isinstance(node, dict):
        return node
    found = cast("dict[str, Any]", node)
    closed = {key: _closed(value) for key, value in found.items() if key != "default"}
    if found.get("type") == "object":
        if found.get("additionalProperties") not in (None, False):
            raise ValueError("an object with free keys")
        properties = found.get("properties", {})
        closed["additionalProperties"] = False
        closed["required"] = list(properties)
        closed["properties"] = {key: _closed(value) for key, value in properties.items()}
    return closed

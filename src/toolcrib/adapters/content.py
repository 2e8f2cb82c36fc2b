"""A rendered prompt as the first message."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from toolcrib.prompt.attachments import Attachment, FileAttachment, TextAttachment

if TYPE_CHECKING:
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

"""The message of a prompt, and how its attachments are kept for turns that say them again.

An attachment is kept once by its content, as an artifact of the session; one that lies with the
provider, by its id.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, assert_never

from toolcrib.adapters.items import (
    InlineFile,
    PromptContent,
    TextContent,
    UploadedFile,
    UserMessage,
)
from toolcrib.ledger.prompt_events import KeptAttachment
from toolcrib.prompt.attachments import Attachment, FileAttachment, TextAttachment
from toolcrib.store.store import Artifact, ArtifactKept
from toolcrib.store.verification import artifact_digest

if TYPE_CHECKING:
    from toolcrib.prompt.prompt import RenderedPrompt

MAX_ATTACHMENT_BYTES = 20_000_000


def first_message(prompt: RenderedPrompt[Any]) -> UserMessage:
    """The prompt and its attachments as one message. Raises `InvalidPrompt` for a file that cannot
    be read or is too large.
    """
    return UserMessage((TextContent(prompt.text), *map(_content, prompt.attachments)))


def _content(attachment: Attachment) -> PromptContent:
    match attachment:
        case TextAttachment(text=text, title=title):
            return TextContent(f"{title}\n\n{text}" if title else text)
        case FileAttachment(file_id=str(file_id)):
            is_known = attachment.media_type or attachment.name
            media_type = attachment.kind if is_known else None
            return UploadedFile(file_id, attachment.is_image, media_type)
        case FileAttachment():
            data = base64.b64encode(attachment.read(MAX_ATTACHMENT_BYTES)).decode()
            return InlineFile(
                attachment.file_name, attachment.kind, data, is_image=attachment.is_image
            )


def kept_attachments(
    message: UserMessage,
) -> tuple[tuple[KeptAttachment, ...], list[ArtifactKept]]:
    """What a record names of a prompt's message, after its text, and what the store keeps of it."""
    attachments: list[KeptAttachment] = []
    artifacts: dict[str, ArtifactKept] = {}
    for content in message.content[1:]:
        text = _kept_text(content)
        if text is None:
            attachments.append(_kept(content))
            continue
        digest = artifact_digest(text)
        artifact_id = f"attachment_{digest[:32]}"
        attachments.append(_kept(content, artifact_id, digest))
        artifacts[artifact_id] = ArtifactKept(Artifact(artifact_id, "", text))
    return tuple(attachments), list(artifacts.values())


def _kept_text(content: PromptContent) -> str | None:
    match content:
        case TextContent(text=text):
            return text
        case InlineFile(data=data):
            return data
        case UploadedFile():
            return None
        case _:
            assert_never(content)


def _kept(
    content: PromptContent, artifact_id: str | None = None, digest: str | None = None
) -> KeptAttachment:
    match content:
        case TextContent():
            return KeptAttachment(content="text", artifact_id=artifact_id, artifact_digest=digest)
        case UploadedFile(file_id=file_id, is_image=is_image, media_type=media_type):
            return KeptAttachment(
                content="image" if is_image else "file", media_type=media_type, file_id=file_id
            )
        case InlineFile(name=name, media_type=media_type, is_image=is_image):
            return KeptAttachment(
                content="image" if is_image else "file",
                name=name,
                media_type=media_type,
                artifact_id=artifact_id,
                artifact_digest=digest,
            )
        case _:
            assert_never(content)


def contents_again(
    attachments: tuple[KeptAttachment, ...], artifact: Callable[[str], str | None]
) -> Iterator[PromptContent | KeptAttachment]:
    """The attachments as they were sent; one whose content is gone, as itself.

    `artifact` gives the text of an artifact.
    """
    for kept in attachments:
        is_image = kept.content == "image"
        if kept.file_id is not None:
            yield UploadedFile(kept.file_id, is_image, kept.media_type)
            continue
        text = artifact(kept.artifact_id) if kept.artifact_id else None
        if text is None:
            yield kept
        elif kept.content == "text":
            yield TextContent(text)
        else:
            name = kept.name or "attachment"
            media_type = kept.media_type or "application/octet-stream"
            yield InlineFile(name, media_type, text, is_image=is_image)

"""Prompts: sections with tools, rendered to text, with a typed answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolcrib._lazy import lazy_exports

if TYPE_CHECKING:
    from toolcrib.errors import OutputMismatch
    from toolcrib.prompt.attachments import Attachment, FileAttachment, TextAttachment
    from toolcrib.prompt.output import OutputSchema
    from toolcrib.prompt.overrides import Override, Overrides, digest_of
    from toolcrib.prompt.prompt import Prompt, RenderedPrompt
    from toolcrib.prompt.section import MarkdownSection, Section, UserText, Visibility

__all__ = [
    "Attachment",
    "FileAttachment",
    "MarkdownSection",
    "OutputMismatch",
    "OutputSchema",
    "Override",
    "Overrides",
    "Prompt",
    "RenderedPrompt",
    "Section",
    "TextAttachment",
    "UserText",
    "Visibility",
    "digest_of",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "toolcrib.prompt.attachments": ("Attachment", "FileAttachment", "TextAttachment"),
            "toolcrib.errors": ("OutputMismatch",),
            "toolcrib.prompt.output": ("OutputSchema",),
            "toolcrib.prompt.overrides": ("Override", "Overrides", "digest_of"),
            "toolcrib.prompt.prompt": (
                "Prompt",
                "RenderedPrompt",
            ),
            "toolcrib.prompt.section": ("MarkdownSection", "Section", "UserText", "Visibility"),
        },
    )

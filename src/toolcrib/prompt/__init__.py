"""Prompts: sections with tools, rendered to text, with a typed answer."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolcrib.prompt.attachments import Attachment, FileAttachment, TextAttachment
    from toolcrib.prompt.output import OutputMismatch, OutputSchema
    from toolcrib.prompt.overrides import Override, Overrides, digest_of
    from toolcrib.prompt.prompt import Prompt
    from toolcrib.prompt.rendering import RenderedPrompt
    from toolcrib.prompt.section import MarkdownSection, Section, Visibility

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
    "Visibility",
    "digest_of",
]

_HOMES = {
    "Attachment": "attachments",
    "FileAttachment": "attachments",
    "MarkdownSection": "section",
    "OutputMismatch": "output",
    "OutputSchema": "output",
    "Override": "overrides",
    "Overrides": "overrides",
    "Prompt": "prompt",
    "RenderedPrompt": "rendering",
    "Section": "section",
    "TextAttachment": "attachments",
    "Visibility": "section",
    "digest_of": "overrides",
}


if not TYPE_CHECKING:
    # Out of a type checker's sight, or it would take every misspelt name for Any.
    def __getattr__(name: str) -> object:
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)

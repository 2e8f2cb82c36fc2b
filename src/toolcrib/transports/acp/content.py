"""What a person sends with a prompt, as text for the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from acp.schema import (
    AudioContentBlock,
    EmbeddedResourceContentBlock,
    ImageContentBlock,
    ResourceContentBlock,
    TextContentBlock,
    TextResourceContents,
)

from toolcrib.errors import Refused

Block: TypeAlias = (
    TextContentBlock
    | ImageContentBlock
    | AudioContentBlock
    | ResourceContentBlock
    | EmbeddedResourceContentBlock
)


def text_of(blocks: Sequence[Block]) -> str:
    """The text of a prompt. Raises `Refused` (invalid) for what cannot be told in text."""
    text = "\n\n".join(_text(block) for block in blocks)
    if not text.strip():
        raise Refused("invalid", "session/prompt: the prompt is empty")
    return text


def _text(block: Block) -> str:
    match block:
        case TextContentBlock(text=text):
            return text
        case ResourceContentBlock(uri=uri, name=name):
            return f"[{name}]({uri})"
        case EmbeddedResourceContentBlock(resource=TextResourceContents() as resource):
            return f'<resource uri="{resource.uri}">\n{resource.text}\n</resource>'
        case EmbeddedResourceContentBlock(resource=resource):
            raise _unreadable(f"the embedded resource {resource.uri[:200]!r} is not text")
        case ImageContentBlock():
            raise _unreadable("images are not taken")
        case AudioContentBlock():
            raise _unreadable("audio is not taken")


def _unreadable(why: str) -> Refused:
    return Refused(
        "invalid", f"session/prompt: {why}; see promptCapabilities in the answer to initialize"
    )

"""The artifacts that events name."""

from __future__ import annotations

from collections.abc import Iterator

from toolcrib.ledger.events import Event, ToolInvoked
from toolcrib.ledger.prompt_events import ModelResponded, PromptStarted

NAMING_KINDS = (ToolInvoked.kind, PromptStarted.kind, ModelResponded.kind)
"""The kinds of events that name artifacts."""


def named_artifacts(event: Event) -> Iterator[tuple[str, str | None]]:
    """The artifacts that an event names: their ids and digests."""
    match event:
        case ToolInvoked():
            if event.artifact_id is not None:
                yield event.artifact_id, event.artifact_digest
            yield from _kept_texts(event)
        case ModelResponded():
            yield from _kept_texts(event)
        case PromptStarted():
            for attachment in event.attachments:
                if attachment.artifact_id is not None:
                    yield attachment.artifact_id, attachment.artifact_digest
        case _:
            pass


def _kept_texts(event: ToolInvoked | ModelResponded) -> Iterator[tuple[str, str]]:
    for text in event.kept:
        yield text.artifact_id, text.artifact_digest

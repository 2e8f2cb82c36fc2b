"""An interaction as it comes: text is told at once, every other step when it is whole.

Steps that are told in pieces.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pydantic_ai.exceptions import ModelAPIError
from pydantic_ai.messages import ModelResponseStreamEvent, TextPart
from pydantic_ai.models import StreamedResponse

from toolcrib.adapters.codec import RawItem
from toolcrib.adapters.json_fields import json_object_of, mapping_of, mappings_of, plain, text_of
from toolcrib.adapters.pydantic_ai.google_interactions.response import (
    Reading,
    details_of,
    reason_of,
    usage_of,
)

Step = dict[str, Any]
_WRITTEN = "arguments_text"
_FILES = frozenset({"audio", "document", "image", "video"})


def grow(step: Step, delta: RawItem) -> None:
    """Add a piece to a step."""
    kind = text_of(delta, "type")
    if kind == "text":
        last = _last_text(step)
        last["text"] = text_of(last, "text") + text_of(delta, "text")
    elif kind in ("text_annotation_delta", "text_annotation"):
        last = _last_text(step)
        last["annotations"] = [
            *mappings_of(last, "annotations"),
            *mappings_of(delta, "annotations"),
        ]
    elif kind == "thought_summary":
        step["summary"] = [*mappings_of(step, "summary"), mapping_of(delta, "content")]
    elif kind == "arguments_delta":
        step[_WRITTEN] = text_of(step, _WRITTEN) + text_of(delta, "arguments")
    elif kind in _FILES:
        step["content"] = [*mappings_of(step, "content"), dict(delta)]
    else:
        # Calls and results come in one piece, as do signatures.
        step |= {key: value for key, value in delta.items() if key != "type" and value is not None}


def whole(step: Step) -> Step:
    """The step when no more pieces come."""
    written = json_object_of(step, _WRITTEN)
    step = {key: value for key, value in step.items() if key != _WRITTEN}
    return {**step, "arguments": written} if written else step


def _last_text(step: Step) -> Step:
    """The text that is being written; a new one where there is none."""
    content: list[Any] = step.setdefault("content", [])
    if not content or content[-1].get("type") != "text":
        content.append({"type": "text", "text": ""})
    return content[-1]


@dataclass
class InteractionStream(StreamedResponse):
    """The response that a stream of events adds up to."""

    _name: str
    _provider: str
    _url: str
    _events: Any
    _told: dict[Any, int] = field(default_factory=dict[Any, int])
    """How much of each text has been told."""
    _timestamp: datetime = field(default_factory=lambda: datetime.now(UTC))

    async def _get_event_iterator(self) -> AsyncIterator[ModelResponseStreamEvent]:
        reading = Reading(self._provider)
        steps: dict[Any, Step] = {}
        hop = 0
        async for each in self._events:
            event = plain(each)
            match text_of(event, "event_type"):
                case "interaction.created":
                    # Where the provider stops in between, the SDK goes on, and steps count anew.
                    hop += 1
                    self._note(mapping_of(event, "interaction"))
                case "step.start":
                    steps[hop, event.get("index")] = mapping_of(event, "step")
                case "step.delta":
                    key = (hop, event.get("index"))
                    delta = mapping_of(event, "delta")
                    for told in self._heard(steps.setdefault(key, {}), key, delta):
                        yield told
                case "step.stop":
                    key = (hop, event.get("index"))
                    for told in self._ended(steps.pop(key, {}), key, reading):
                        yield told
                case "interaction.completed":
                    self._end(mapping_of(event, "interaction"), reading)
                case "error":
                    raise ModelAPIError(self._name, _problem(event))
                case _:
                    pass

    def _heard(self, step: Step, key: Any, delta: RawItem) -> Iterator[ModelResponseStreamEvent]:
        grow(step, delta)
        contents = mappings_of(step, "content")
        if contents and delta.get("type") == "text":
            yield from self._said(TextPart(text_of(contents[-1], "text")), (*key, len(contents)))

    def _ended(self, step: Step, key: Any, reading: Reading) -> Iterator[ModelResponseStreamEvent]:
        step = whole(step)
        if step.get("type") != "model_output":
            for part in reading.parts(step):
                yield self._parts_manager.handle_part(vendor_part_id=None, part=part)
            return
        for at, content in enumerate(mappings_of(step, "content"), 1):
            part = reading.content(content)
            if isinstance(part, TextPart):
                yield from self._said(part, (*key, at))
            elif part is not None:
                yield self._parts_manager.handle_part(vendor_part_id=None, part=part)

    def _said(self, part: TextPart, key: Any) -> Iterator[ModelResponseStreamEvent]:
        """Tell of a text what has not been told of it."""
        known = self._told.get(key, 0)
        self._told[key] = len(part.content)
        yield from self._parts_manager.handle_text_delta(
            vendor_part_id=key,
            content=part.content[known:],
            provider_name=part.provider_name,
            provider_details=part.provider_details,
            citations=part.citations,
        )

    def _note(self, interaction: RawItem) -> None:
        self.provider_response_id = text_of(interaction, "id") or self.provider_response_id
        self._name = text_of(interaction, "model") or self._name

    def _end(self, interaction: RawItem, reading: Reading) -> None:
        self._note(interaction)
        self._usage = self._usage + usage_of(interaction)
        self.finish_reason = reason_of(interaction)
        self.provider_details = details_of(interaction, reading.unread)

    async def close_stream(self) -> None:
        await self._events.close()

    @property
    def model_name(self) -> str:
        return self._name

    @property
    def provider_name(self) -> str:
        return self._provider

    @property
    def provider_url(self) -> str:
        return self._url

    @property
    def timestamp(self) -> datetime:
        return self._timestamp


def _problem(event: RawItem) -> str:
    error = mapping_of(event, "error")
    told = [str(error.get("code") or ""), text_of(error, "message")]
    return ": ".join(filter(None, told)) or "the interaction failed"

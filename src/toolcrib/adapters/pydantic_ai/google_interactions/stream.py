"""A streamed interaction: text is passed on at once, every other step when it is complete."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pydantic_ai.exceptions import ModelAPIError
from pydantic_ai.messages import ModelResponseStreamEvent, TextPart
from pydantic_ai.models import StreamedResponse

from toolcrib.adapters.codec import RawItem
from toolcrib.adapters.items import json_object_of, mapping_of, mappings_of, plain, text_of
from toolcrib.adapters.pydantic_ai.google_interactions.response import (
    StepReader,
    details_of,
    reason_of,
    usage_of,
)

Step = dict[str, Any]
_ARGUMENTS = "arguments_text"
_FILES = frozenset({"audio", "document", "image", "video"})


def extend(step: Step, delta: RawItem) -> None:
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
        step[_ARGUMENTS] = text_of(step, _ARGUMENTS) + text_of(delta, "arguments")
    elif kind in _FILES:
        step["content"] = [*mappings_of(step, "content"), dict(delta)]
    else:
        # Calls and results come in one piece, as do signatures.
        step |= {key: value for key, value in delta.items() if key != "type" and value is not None}


def complete(step: Step) -> Step:
    """The step once all of its pieces are there."""
    arguments = json_object_of(step, _ARGUMENTS)
    step = {key: value for key, value in step.items() if key != _ARGUMENTS}
    return {**step, "arguments": arguments} if arguments else step


def _last_text(step: Step) -> Step:
    """The last text of the step; a new one where there is none."""
    content: list[Any] = step.setdefault("content", [])
    if not content or content[-1].get("type") != "text":
        content.append({"type": "text", "text": ""})
    return content[-1]


@dataclass
class InteractionStream(StreamedResponse):
    """The response that the events of a stream build."""

    _name: str
    _provider: str
    _url: str
    _events: Any
    _lengths: dict[Any, int] = field(default_factory=dict[Any, int])
    """How many characters of each text were passed on."""
    _timestamp: datetime = field(default_factory=lambda: datetime.now(UTC))

    async def _get_event_iterator(self) -> AsyncIterator[ModelResponseStreamEvent]:
        reader = StepReader(self._provider)
        steps: dict[Any, Step] = {}
        hop = 0
        async for raw_event in self._events:
            event = plain(raw_event)
            match text_of(event, "event_type"):
                case "interaction.created":
                    # The SDK continues an interaction that stopped; its steps count anew.
                    hop += 1
                    self._note(mapping_of(event, "interaction"))
                case "step.start":
                    steps[hop, event.get("index")] = mapping_of(event, "step")
                case "step.delta":
                    key = (hop, event.get("index"))
                    delta = mapping_of(event, "delta")
                    for part_event in self._extend(steps.setdefault(key, {}), key, delta):
                        yield part_event
                case "step.stop":
                    key = (hop, event.get("index"))
                    for part_event in self._end_step(steps.pop(key, {}), key, reader):
                        yield part_event
                case "interaction.completed":
                    self._end(mapping_of(event, "interaction"), reader)
                case "error":
                    raise ModelAPIError(self._name, _problem(event))
                case _:
                    pass

    def _extend(self, step: Step, key: Any, delta: RawItem) -> Iterator[ModelResponseStreamEvent]:
        extend(step, delta)
        contents = mappings_of(step, "content")
        if contents and delta.get("type") == "text":
            yield from self._text_events(
                TextPart(text_of(contents[-1], "text")), (*key, len(contents))
            )

    def _end_step(
        self, step: Step, key: Any, reader: StepReader
    ) -> Iterator[ModelResponseStreamEvent]:
        step = complete(step)
        if step.get("type") != "model_output":
            for part in reader.parts(step):
                yield self._parts_manager.handle_part(vendor_part_id=None, part=part)
            return
        for index, content in enumerate(mappings_of(step, "content"), 1):
            part = reader.content(content)
            if isinstance(part, TextPart):
                yield from self._text_events(part, (*key, index))
            elif part is not None:
                yield self._parts_manager.handle_part(vendor_part_id=None, part=part)

    def _text_events(self, part: TextPart, key: Any) -> Iterator[ModelResponseStreamEvent]:
        """The events of the characters that were not passed on yet."""
        known = self._lengths.get(key, 0)
        self._lengths[key] = len(part.content)
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

    def _end(self, interaction: RawItem, reader: StepReader) -> None:
        self._note(interaction)
        self._usage = self._usage + usage_of(interaction)
        self.finish_reason = reason_of(interaction)
        self.provider_details = details_of(interaction, reader.unread)

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
    texts = [str(error.get("code") or ""), text_of(error, "message")]
    return ": ".join(filter(None, texts)) or "the interaction failed"

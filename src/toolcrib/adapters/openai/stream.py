"""Streams of the Responses API: the response that they add up to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from toolcrib.adapters.items import mapping_of, mappings_of, maybe_int, maybe_text, plain, text_of
from toolcrib.errors import ReplyBroken

ENDINGS: Final = ("response.completed", "response.incomplete", "response.failed")

_Items = list[dict[str, Any]]
_Key = tuple[int | None, str]
"""An item's place in the output, and its id."""


@dataclass(slots=True)
class Streamed:
    """Gathers a stream. The final response counts; items that came before fill it in where a
    server leaves something out.
    """

    _done: dict[_Key, dict[str, Any]] = field(default_factory=dict[_Key, dict[str, Any]])
    _texts: StreamedTexts = field(default_factory=lambda: StreamedTexts())
    _final: dict[str, Any] | None = None

    def add(self, event: dict[str, Any]) -> None:
        """Take in one event. Raises `ReplyBroken` when it says that the stream broke off."""
        kind = text_of(event, "type")
        if kind == "response.output_item.done":
            self._add(plain(event.get("item")), maybe_int(event, "output_index"))
        elif kind.startswith("response.output_text."):
            self._texts.add(kind, event)
        elif kind in ENDINGS:
            final = plain(event.get("response"))
            # The event itself says how it ended, should the response not.
            status = maybe_text(final, "status") or kind.removeprefix("response.")
            self._final = {**final, "status": status}
        elif kind == "error":
            reported = maybe_text(event, "message") or "it does not say why"
            raise ReplyBroken(f"it broke off: {reported}", code=text_of(event, "code"))

    def body(self) -> dict[str, Any]:
        """The whole response. Raises `ReplyBroken` when there is none yet."""
        if self._final is None:
            raise ReplyBroken("the connection ended before the response was complete")
        output = _filled(self._final.get("output"), self._reported())
        return {**self._final, "output": self._texts.filled(output)}

    def _add(self, item: dict[str, Any], place: int | None) -> None:
        # Some servers say everything twice.
        if item:
            self._done[place, text_of(item, "id") or repr(item)] = item

    def _reported(self) -> _Items:
        """The items in the order of the output, which they need not be told in."""
        if any(place is None for place, _ in self._done):
            return [*self._done.values()]
        return [self._done[key] for key in sorted(self._done, key=lambda key: key[0] or 0)]


@dataclass(slots=True)
class StreamedTexts:
    """The texts of a stream by item and part, for servers that repeat them nowhere."""

    _texts: dict[tuple[str, int], dict[str, Any]] = field(
        default_factory=dict[tuple[str, int], dict[str, Any]]
    )

    def add(self, kind: str, event: dict[str, Any]) -> None:
        """Take in an event of a text."""
        key = text_of(event, "item_id"), maybe_int(event, "content_index") or 0
        part = self._texts.setdefault(key, {"type": "output_text", "text": "", "annotations": []})
        match kind.removeprefix("response.output_text."):
            case "delta":
                part["text"] += text_of(event, "delta")
            case "done":
                part["text"] = text_of(event, "text") or part["text"]
            case "annotation.added":
                note = mapping_of(event, "annotation")
                part["annotations"] += [note] if note and note not in part["annotations"] else []
            case _:
                pass

    def filled(self, output: list[Any]) -> list[Any]:
        """The items, with the texts and the annotations that only their own events told of."""
        messages = [item for item in map(plain, output) if item.get("type") == "message"]
        if not messages:
            return [*output, *self._messages()]
        return [self._with_texts(item) for item in output]

    def _messages(self) -> Iterator[dict[str, Any]]:
        for item_id in dict.fromkeys(key for key, _ in self._texts):
            parts = self._parts(item_id)
            if any(part["text"] for part in parts):
                message = {"type": "message", "id": item_id, "role": "assistant"}
                yield {**message, "status": "completed", "content": parts}

    def _with_texts(self, item: Any) -> Any:
        fields = plain(item)
        parts = self._parts(text_of(fields, "id"))
        if fields.get("type") != "message" or not parts:
            return item
        content = mappings_of(fields, "content")
        if not content:
            return {**fields, "content": parts}
        known = [*parts, *({} for _ in content)]
        merged = [_noted(*pair) for pair in zip(content, known, strict=False)]
        return item if merged == content else {**fields, "content": merged}

    def _parts(self, item_id: str) -> list[dict[str, Any]]:
        keys = sorted(key for key in self._texts if key[0] == item_id)
        return [self._texts[key] for key in keys]


def _noted(part: dict[str, Any], streamed: dict[str, Any]) -> dict[str, Any]:
    """A part of a message, with its annotations where only their own events had them."""
    is_same = bool(streamed) and part.get("text") == streamed["text"]
    if not is_same or part.get("annotations") or not streamed["annotations"]:
        return part
    return {**part, "annotations": streamed["annotations"]}


def _filled(output: Any, reported: _Items) -> list[Any]:
    """The items of the final response, with what only their own events told of them."""
    if not isinstance(output, list) or not output:
        return [*reported]
    known = {item["id"]: item for item in reported if isinstance(item.get("id"), str)}
    items = [_merged(item, known) for item in cast("list[Any]", output)]
    # Some servers give an item another id in every event: only a response that is too short
    # can have left one out.
    return items if len(items) >= len(reported) else _with_lost(items, reported)


def _merged(item: Any, known: dict[str, dict[str, Any]]) -> Any:
    fields = plain(item)
    earlier = known.get(text_of(fields, "id"), {})
    missing = {key: value for key, value in earlier.items() if fields.get(key) is None}
    return {**fields, **missing} if fields else item


def _with_lost(items: Sequence[Any], reported: _Items) -> list[Any]:
    """The items, and in their places those that only an event told of."""
    whole = [*items]
    ids = {text_of(plain(item), "id") for item in items} - {""}
    for place, item in enumerate(reported):
        if text_of(item, "id") not in ids and item not in whole:
            whole.insert(place, item)
    return whole

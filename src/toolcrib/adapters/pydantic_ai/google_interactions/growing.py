"""Steps that are told in pieces."""

from __future__ import annotations

from typing import Any

from toolcrib.adapters.codec import Item
from toolcrib.adapters.items import json_object_of, mapping_of, mappings_of, text_of

Step = dict[str, Any]
_WRITTEN = "arguments_text"
_FILES = frozenset({"audio", "document", "image", "video"})


def grow(step: Step, delta: Item) -> None:
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

"""Gemini's Interactions API."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from tests.adapters.json_fields import count_of, mapping_of, mappings_of, text_of
from tests.adapters.pydantic_ai.codecs.loopback_server import Reply
from tests.adapters.pydantic_ai.wire.traffic import (
    Cited,
    Json,
    Ran,
    Sent,
    Tokens,
    pieces,
    split_at,
    sse,
)

OURS = {"function_call", "function_result"}


class InteractionsWire:
    """Steps: calls and results come in one piece, texts and arguments in many."""

    def is_body(self, body: Json) -> bool:
        return body.get("object") == "interaction" or "steps" in body

    def is_event(self, event: Json) -> bool:
        return text_of(event, "event_type").startswith("interaction.")

    def streams(self, events: Sequence[Json]) -> Iterator[list[Json]]:
        starts = [each.get("event_type") == "interaction.created" for each in events]
        return split_at(events, starts)

    def events_of(self, body: Json) -> list[Json]:
        bare = {key: value for key, value in body.items() if key != "steps"}
        started = {**bare, "status": "in_progress"}
        events: list[Json] = [{"event_type": "interaction.created", "interaction": started}]
        for index, step in enumerate(mappings_of(body, "steps")):
            place = {"index": index}
            events.append({"event_type": "step.start", **place, "step": _opened(step)})
            for delta in _deltas(step):
                events.append({"event_type": "step.delta", **place, "delta": delta})
            events.append({"event_type": "step.stop", **place})
        return [*events, {"event_type": "interaction.completed", "interaction": bare}]

    def body_of(self, events: Sequence[Json]) -> Json:
        body: Json = {}
        steps: dict[int, Json] = {}
        for event in events:
            match event.get("event_type"):
                case "interaction.created" | "interaction.completed":
                    body |= mapping_of(event, "interaction")
                case "step.start":
                    steps[event["index"]] = mapping_of(event, "step")
                case "step.delta":
                    _grow(steps[event["index"]], mapping_of(event, "delta"))
                case _:
                    pass
        return {**body, "steps": [_closed(step) for _, step in sorted(steps.items())]}

    def encode(self, events: Sequence[Json]) -> Reply:
        return sse(events, name="event_type", end="event: done\ndata: [DONE]\n\n")

    def ran(self, body: Json) -> list[Ran]:
        steps = [each for each in mappings_of(body, "steps") if each.get("type") not in OURS]
        answers = {text_of(each, "call_id") for each in steps}
        calls = [each for each in steps if text_of(each, "type").endswith("_call")]
        return [Ran(key := text_of(each, "id"), key in answers) for each in calls]

    def asked(self, body: Json) -> list[str]:
        steps = mappings_of(body, "steps")
        return [text_of(each, "id") for each in steps if each.get("type") == "function_call"]

    def answered(self, request: Json) -> list[str]:
        steps = mappings_of(request, "input")
        return [text_of(e, "call_id") for e in steps if e.get("type") == "function_result"]

    def text(self, body: Json) -> str:
        outputs = [e for e in mappings_of(body, "steps") if e.get("type") == "model_output"]
        contents = [each for output in outputs for each in mappings_of(output, "content")]
        return "".join(text_of(each, "text") for each in contents)

    def cited(self, body: Json) -> list[Cited]:
        found: list[Cited] = []
        for step in mappings_of(body, "steps"):
            for content in mappings_of(step, "content"):
                text = text_of(content, "text").encode()
                for note in mappings_of(content, "annotations"):
                    place = slice(note.get("start_index", 0), note.get("end_index", 0))
                    cited = text[place].decode(errors="replace")
                    source = text_of(note, "url") or text_of(note, "file_name")
                    found.append(Cited(source, cited or None, bool(note.get("url"))))
        return found

    def tokens(self, body: Json) -> Tokens:
        usage = mapping_of(body, "usage")
        read = ("total_input_tokens", "total_tool_use_tokens")
        written = ("total_output_tokens", "total_thought_tokens")
        return Tokens(
            sum(count_of(usage, key) for key in read), sum(count_of(usage, key) for key in written)
        )

    def sent(self, body: Json) -> dict[str, Sent]:
        return {}

    def is_paused(self, body: Json) -> bool:
        return False

    def is_whole(self, body: Json) -> bool:
        return body.get("status") in ("completed", "requires_action")

    def done(self) -> Json:
        content = [{"type": "text", "text": "Done."}]
        return {
            "id": "v1_done",
            "object": "interaction",
            "status": "completed",
            "model": "gemini-3-flash-preview",
            "steps": [{"type": "model_output", "content": content}],
            "usage": {"total_input_tokens": 1, "total_output_tokens": 1, "total_tokens": 2},
        }


def _opened(step: Json) -> Json:
    match text_of(step, "type"):
        case "thought" | "model_output":
            return {"type": step["type"]}
        case "function_call":
            return {**step, "arguments": {}}
        case kind if kind.endswith(("_call", "_result")):
            return {key: value for key, value in step.items() if key in ("type", "id", "call_id")}
        case _:
            return step


def _deltas(step: Json) -> Iterator[Json]:
    match text_of(step, "type"):
        case "thought":
            for content in mappings_of(step, "summary"):
                yield {"type": "thought_summary", "content": content}
            yield {"type": "thought_signature", "signature": text_of(step, "signature")}
        case "model_output":
            for content in mappings_of(step, "content"):
                yield from _content_deltas(content)
        case "function_call":
            for piece in pieces(json.dumps(step.get("arguments") or {})):
                yield {"type": "arguments_delta", "arguments": piece}
        case kind if kind.endswith(("_call", "_result")):
            yield {key: value for key, value in step.items() if key not in ("id", "call_id")}
        case _:
            pass


def _content_deltas(content: Json) -> Iterator[Json]:
    if content.get("type") != "text":
        yield content
        return
    for piece in pieces(text_of(content, "text")):
        yield {"type": "text", "text": piece}
    if notes := mappings_of(content, "annotations"):
        yield {"type": "text_annotation_delta", "annotations": notes}


def _grow(step: Json, delta: Json) -> None:
    match text_of(delta, "type"):
        case "text":
            _text(step)["text"] += text_of(delta, "text")
        case "text_annotation_delta":
            _text(step).setdefault("annotations", []).extend(mappings_of(delta, "annotations"))
        case "thought_summary":
            step.setdefault("summary", []).append(delta["content"])
        case "arguments_delta":
            step["json"] = text_of(step, "json") + text_of(delta, "arguments")
        case "image" | "audio" | "video" | "document":
            step.setdefault("content", []).append(delta)
        case _:
            step |= {key: value for key, value in delta.items() if key != "type"}


def _text(step: Json) -> Json:
    content: list[Json] = step.setdefault("content", [])
    if not content or content[-1]["type"] != "text":
        content.append({"type": "text", "text": ""})
    return content[-1]


def _closed(step: Json) -> Json:
    written = step.pop("json", "")
    return {**step, "arguments": json.loads(written)} if written else step

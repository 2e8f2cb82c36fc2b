"""OpenAI's Responses, which xAI and others speak too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.adapters.json_fields import count_of, mapping_of, mappings_of, text_of
from tests.adapters.openai.response_samples import text_parts
from tests.adapters.openai.scripted_provider import ENDINGS, body_of, message, response
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

ENDED = {"failed": "failed", "incomplete": "incomplete"}
WAITING = {"apply_patch_call", "computer_call", "function_call", "local_shell_call"}
NO_CALLS = {"message", "reasoning", "compaction", "mcp_list_tools", *WAITING}


class ResponsesWire:
    """Items, each of which is a call with its result, or part of the answer."""

    def is_body(self, body: Json) -> bool:
        return body.get("object") == "response" and isinstance(body.get("output"), list)

    def is_event(self, event: Json) -> bool:
        return text_of(event, "type").startswith("response.")

    def streams(self, events: Sequence[Json]) -> Iterator[list[Json]]:
        starts = [each.get("type") == "response.created" for each in events]
        for stream in split_at(events, starts):
            if any(each.get("type") in ENDINGS for each in stream):
                yield stream

    def events_of(self, body: Json) -> list[Json]:
        started: Json = {**body, "status": "in_progress", "output": []}
        events: list[Json] = [{"type": "response.created", "response": started}]
        for index, item in enumerate(mappings_of(body, "output")):
            place = {"output_index": index, "item_id": text_of(item, "id")}
            events.append({"type": "response.output_item.added", **place, "item": _opened(item)})
            events += [{**place, **event} for event in _pieces(item)]
            events.append({"type": "response.output_item.done", **place, "item": item})
        ending = ENDED.get(text_of(body, "status"), "completed")
        events.append({"type": f"response.{ending}", "response": body})
        return [{**event, "sequence_number": number} for number, event in enumerate(events)]

    def body_of(self, events: Sequence[Json]) -> Json:
        return body_of(events)

    def encode(self, events: Sequence[Json]) -> Reply:
        return sse(events)

    def ran(self, body: Json) -> list[Ran]:
        items = [each for each in mappings_of(body, "output") if each.get("type") not in NO_CALLS]
        calls = [each for each in items if text_of(each, "type").endswith("_call")]
        outputs = {text_of(each, "call_id") for each in items if each not in calls}
        return [
            Ran(
                key := text_of(each, "call_id") or text_of(each, "id"),
                _is_over(each, key in outputs),
            )
            for each in calls
            if each.get("execution") != "client"
        ]

    def asked(self, body: Json) -> list[str]:
        items = mappings_of(body, "output")
        return [text_of(each, "call_id") for each in items if _is_ours(each)]

    def answered(self, request: Json) -> list[str]:
        said = mappings_of(request, "input")
        outputs = ("function_call_output", "tool_search_output")
        return [text_of(each, "call_id") for each in said if each.get("type") in outputs]

    def text(self, body: Json) -> str:
        return "".join(text_of(part, "text") for part in text_parts(_answer(body)))

    def cited(self, body: Json) -> list[Cited]:
        return [
            _cited(note, text_of(part, "text"))
            for part in text_parts(_answer(body))
            for note in mappings_of(part, "annotations")
        ]

    def tokens(self, body: Json) -> Tokens:
        usage = mapping_of(body, "usage")
        return Tokens(count_of(usage, "input_tokens"), count_of(usage, "output_tokens"))

    def sent(self, body: Json) -> dict[str, Sent]:
        items = mappings_of(body, "output")
        outputs = [each for each in items if text_of(each, "type").endswith("_call_output")]
        results = {text_of(each, "call_id"): each for each in outputs}
        calls = [each for each in items if text_of(each, "type").endswith("_call")]
        keys = [text_of(each, "call_id") or text_of(each, "id") for each in calls]
        return {key: Sent(each, results.get(key)) for key, each in zip(keys, calls, strict=True)}

    def is_paused(self, body: Json) -> bool:
        return False

    def is_whole(self, body: Json) -> bool:
        return body.get("status") == "completed"

    def done(self) -> Json:
        return response(message("Done."))


def _answer(body: Json) -> list[Json]:
    """The items of the answer: without remarks, where the model marks them."""
    items = mappings_of(body, "output")
    has_final = any(each.get("phase") == "final_answer" for each in items)
    return [each for each in items if not (has_final and each.get("phase") == "commentary")]


def _cited(note: Json, text: str) -> Cited:
    start, end = note.get("start_index"), note.get("end_index")
    is_placed = isinstance(start, int) and isinstance(end, int) and 0 <= start < end <= len(text)
    marked = text[start:end] if is_placed else None
    is_web = note.get("type") == "url_citation"
    return Cited(text_of(note, "url" if is_web else "file_id"), marked, is_web)


def _is_ours(item: Json) -> bool:
    return item.get("type") == "function_call" or item.get("execution") == "client"


def _is_over(call: Json, has_output: bool) -> bool:
    """Whether a call has its result: most bring it with them, a shell's is an item of its own."""
    return call.get("type") != "shell_call" or has_output


def _opened(item: Json) -> Json:
    match text_of(item, "type"):
        case "message":
            return {**item, "content": [], "status": "in_progress"}
        case "function_call" | "mcp_call":
            return {**item, "arguments": ""}
        case "code_interpreter_call":
            return {**item, "code": "", "outputs": []}
        case _:
            return item


def _pieces(item: Json) -> Iterator[Json]:
    match text_of(item, "type"):
        case "message":
            for at, part in enumerate(mappings_of(item, "content")):
                for event in _part(part):
                    yield {**event, "content_index": at}
        case "function_call" | "mcp_call" as kind:
            for piece in pieces(text_of(item, "arguments")):
                yield {"type": f"response.{kind}_arguments.delta", "delta": piece}
            yield {"type": f"response.{kind}_arguments.done", "arguments": item["arguments"]}
        case "code_interpreter_call" as kind:
            for piece in pieces(text_of(item, "code")):
                yield {"type": f"response.{kind}_code.delta", "delta": piece}
            yield {"type": f"response.{kind}_code.done", "code": text_of(item, "code")}
            yield {"type": f"response.{kind}.completed"}
        case "web_search_call" | "file_search_call" as kind:
            yield {"type": f"response.{kind}.searching"}
            yield {"type": f"response.{kind}.completed"}
        case _:
            pass


def _part(part: Json) -> Iterator[Json]:
    if part.get("type") != "output_text":
        yield {"type": "response.content_part.done", "part": part}
        return
    text = text_of(part, "text")
    yield {"type": "response.content_part.added", "part": {**part, "text": "", "annotations": []}}
    for piece in pieces(text):
        yield {"type": "response.output_text.delta", "delta": piece, "logprobs": []}
    for at, note in enumerate(mappings_of(part, "annotations")):
        added = {"annotation_index": at, "annotation": note}
        yield {"type": "response.output_text.annotation.added", **added}
    yield {"type": "response.output_text.done", "text": text, "logprobs": []}
    yield {"type": "response.content_part.done", "part": part}

"""OpenAI's Responses, which xAI and others speak too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.adapters.openai.provider import ENDINGS, body_of, events_of, message, response
from tests.adapters.pydantic_ai.codecs.loopback import Reply
from tests.adapters.pydantic_ai.wire.traffic import Cited, Json, Ran, split_at, sse
from toolcrib.adapters.items import mappings_of, text_of, text_parts

NO_CALLS = {"message", "reasoning", "compaction", "function_call", "mcp_list_tools"}


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
        return events_of(body)

    def body_of(self, events: Sequence[Json]) -> Json:
        return body_of(events)

    def encode(self, events: Sequence[Json]) -> Reply:
        return sse(events)

    def ran(self, body: Json) -> list[Ran]:
        calls = [each for each in mappings_of(body, "output") if each.get("type") not in NO_CALLS]
        kinds = [text_of(each, "type") for each in calls]
        return [
            Ran(text_of(each, "id"))
            for each, kind in zip(calls, kinds, strict=True)
            if kind.endswith("_call")
        ]

    def asked(self, body: Json) -> list[str]:
        items = mappings_of(body, "output")
        return [text_of(each, "call_id") for each in items if each.get("type") == "function_call"]

    def answered(self, request: Json) -> list[str]:
        said = mappings_of(request, "input")
        return [text_of(e, "call_id") for e in said if e.get("type") == "function_call_output"]

    def text(self, body: Json) -> str:
        return "".join(text_of(part, "text") for part in text_parts(mappings_of(body, "output")))

    def cited(self, body: Json) -> list[Cited]:
        return [
            Cited(text_of(part, "text")[note.get("start_index", 0) : note.get("end_index", 0)])
            for part in text_parts(mappings_of(body, "output"))
            for note in mappings_of(part, "annotations")
            if note.get("type") == "url_citation"
        ]

    def is_paused(self, body: Json) -> bool:
        return False

    def is_whole(self, body: Json) -> bool:
        return body.get("status") == "completed"

    def done(self) -> Json:
        return response(message("Done."))

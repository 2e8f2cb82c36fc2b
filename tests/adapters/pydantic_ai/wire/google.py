"""Gemini's generateContent, of the Developer API and of Vertex."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.adapters.json_fields import count_of, mapping_of, mappings_of, text_of, texts_of
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

GROUNDED = ("groundingMetadata", "urlContextMetadata")


class GoogleWire:
    """Parts of one candidate; what the answer is grounded on comes with the last of them."""

    def is_body(self, body: Json) -> bool:
        return "candidates" in body or "promptFeedback" in body

    def is_event(self, event: Json) -> bool:
        return self.is_body(event)

    def streams(self, events: Sequence[Json]) -> Iterator[list[Json]]:
        ids = [text_of(each, "responseId") for each in events]
        return split_at(
            events, [key != before for key, before in zip(ids, ["", *ids], strict=False)]
        )

    def events_of(self, body: Json) -> list[Json]:
        candidate, parts = _candidate(body), list(_pieces(_parts(body)))
        bare = {key: value for key, value in candidate.items() if key == "index"}
        last = {key: value for key, value in candidate.items() if key != "content"}
        common = {key: value for key, value in body.items() if key != "candidates"}
        if not candidate:
            return [body]
        chunks = [{**bare, "content": {"parts": [part], "role": "model"}} for part in parts]
        chunks[-1:] = [{**each, **last} for each in chunks[-1:]] or [last]
        return [{**common, "candidates": [each]} for each in chunks]

    def body_of(self, events: Sequence[Json]) -> Json:
        parts: list[Json] = []
        candidate: Json = {}
        for event in events:
            told = {key: value for key, value in _candidate(event).items() if value}
            candidate |= told
            for part in _parts(event):
                if parts and _is_plain(part) and _is_plain(parts[-1]):
                    parts[-1] = {"text": parts[-1]["text"] + part["text"]}
                else:
                    parts.append(part)
        whole = {**candidate, "content": {"parts": parts, "role": "model"}}
        return {**events[-1], "candidates": [whole] if candidate else []}

    def encode(self, events: Sequence[Json]) -> Reply:
        return sse(events)

    def ran(self, body: Json) -> list[Ran]:
        parts, candidate = _parts(body), _candidate(body)
        called = [part for part in parts if "toolCall" in part or "executableCode" in part]
        ids = [text_of(mapping_of(part, "toolCall"), "id") for part in called]
        if any("toolCall" in part for part in parts):
            return [Ran(key) for key in ids]
        grounding = mapping_of(candidate, "groundingMetadata")
        found = [Ran(key) for key in ids]
        if any(texts_of(grounding, "webSearchQueries")):
            found.append(Ran(""))
        if mappings_of(mapping_of(candidate, "urlContextMetadata"), "urlMetadata"):
            found.append(Ran(""))
        if any("retrievedContext" in each for each in mappings_of(grounding, "groundingChunks")):
            found.append(Ran(""))
        return found

    def asked(self, body: Json) -> list[str]:
        calls = [
            mapping_of(part, "functionCall") for part in _parts(body) if "functionCall" in part
        ]
        return [text_of(call, "name") for call in calls]

    def answered(self, request: Json) -> list[str]:
        last = mappings_of(request, "contents")[-1]
        answers = [mapping_of(part, "functionResponse") for part in mappings_of(last, "parts")]
        return [text_of(each, "name") for each in answers if each]

    def text(self, body: Json) -> str:
        return "".join(text_of(part, "text") for part in _parts(body) if not part.get("thought"))

    def cited(self, body: Json) -> list[Cited]:
        grounding = mapping_of(_candidate(body), "groundingMetadata")
        chunks = mappings_of(grounding, "groundingChunks")
        return [
            _cited(chunks[at], text_of(mapping_of(support, "segment"), "text"))
            for support in mappings_of(grounding, "groundingSupports")
            for at in _chunks(support)
        ]

    def tokens(self, body: Json) -> Tokens:
        usage = mapping_of(body, "usageMetadata")
        return Tokens(
            count_of(usage, "promptTokenCount") + count_of(usage, "toolUsePromptTokenCount"),
            count_of(usage, "candidatesTokenCount") + count_of(usage, "thoughtsTokenCount"),
        )

    def sent(self, body: Json) -> dict[str, Sent]:
        parts = _parts(body)
        answers = {_key(each, "toolResponse", "codeExecutionResult"): each for each in parts}
        return {
            key: Sent(each, answers.get(key))
            for each in parts
            if (key := _key(each, "toolCall", "executableCode"))
        }

    def is_paused(self, body: Json) -> bool:
        return False

    def is_whole(self, body: Json) -> bool:
        return _candidate(body).get("finishReason") == "STOP" and bool(_parts(body))

    def done(self) -> Json:
        candidate = {"content": {"parts": [{"text": "Done."}], "role": "model"}}
        usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
        return {"candidates": [{**candidate, "finishReason": "STOP"}], "usageMetadata": usage}


def _cited(chunk: Json, text: str) -> Cited:
    page = mapping_of(chunk, "web") or mapping_of(chunk, "maps")
    document = mapping_of(chunk, "retrievedContext")
    name = text_of(document, "documentName") or text_of(document, "title")
    return Cited(text_of(page, "uri") or name, text or None, bool(page))


def _key(part: Json, *kinds: str) -> str:
    return next((key for kind in kinds if (key := text_of(mapping_of(part, kind), "id"))), "")


def _candidate(body: Json) -> Json:
    return next(iter(mappings_of(body, "candidates")), Json())


def _parts(body: Json) -> list[Json]:
    return mappings_of(mapping_of(_candidate(body), "content"), "parts")


def _chunks(support: Json) -> list[int]:
    return support.get("groundingChunkIndices") or []


def _is_plain(part: Json) -> bool:
    return part.keys() == {"text"}


def _pieces(parts: Sequence[Json]) -> Iterator[Json]:
    for part in parts:
        if _is_plain(part) and part["text"]:
            yield from ({"text": piece} for piece in pieces(part["text"]))
        else:
            yield part

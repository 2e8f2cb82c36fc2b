"""Messages of Anthropic's."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

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

CALLS = {"server_tool_use", "mcp_tool_use"}
PAUSES = ("pause_turn", "compaction")
TYPED = {"tool_use", *CALLS}


class AnthropicWire:
    """Content blocks: what is short comes whole, texts and arguments come in pieces."""

    def is_body(self, body: Json) -> bool:
        return body.get("type") == "message" and body.get("role") == "assistant"

    def is_event(self, event: Json) -> bool:
        return event.get("type") == "message_start"

    def streams(self, events: Sequence[Json]) -> Iterator[list[Json]]:
        return split_at(events, [each.get("type") == "message_start" for each in events])

    def events_of(self, body: Json) -> list[Json]:
        started: Json = {**body, "content": [], "stop_reason": None, "container": None}
        events: list[Json] = [{"type": "message_start", "message": started}, {"type": "ping"}]
        for index, block in enumerate(mappings_of(body, "content")):
            place = {"index": index}
            events.append({"type": "content_block_start", **place, "content_block": _opened(block)})
            for delta in _deltas(block):
                events.append({"type": "content_block_delta", **place, "delta": delta})
            events.append({"type": "content_block_stop", **place})
        ended = {key: body.get(key) for key in ("stop_reason", "stop_sequence", "container")}
        usage = mapping_of(body, "usage")
        events.append({"type": "message_delta", "delta": ended, "usage": usage})
        return [*events, {"type": "message_stop"}]

    def body_of(self, events: Sequence[Json]) -> Json:
        body: Json = {}
        blocks: dict[int, Json] = {}
        for event in events:
            match event.get("type"):
                case "message_start":
                    body = mapping_of(event, "message")
                    # When code goes on to call tools of ours, the answer is whole from the start.
                    blocks = dict(enumerate(mappings_of(body, "content")))
                case "content_block_start":
                    blocks[event["index"]] = mapping_of(event, "content_block")
                case "content_block_delta":
                    _grow(blocks[event["index"]], mapping_of(event, "delta"))
                case "message_delta":
                    usage = {**mapping_of(body, "usage"), **mapping_of(event, "usage")}
                    body |= {**mapping_of(event, "delta"), "usage": usage}
                case _:
                    pass
        return {**body, "content": [_closed(block) for _, block in sorted(blocks.items())]}

    def encode(self, events: Sequence[Json]) -> Reply:
        return sse(events)

    def ran(self, body: Json) -> list[Ran]:
        blocks = mappings_of(body, "content")
        answers = {text_of(each, "tool_use_id") for each in blocks}
        ids = [text_of(each, "id") for each in blocks if each.get("type") in CALLS]
        late = [each for each in blocks if text_of(each, "type").endswith("_tool_result")]
        others = [key for each in late if (key := text_of(each, "tool_use_id")) not in ids]
        return [Ran(key, key in answers) for key in [*others, *ids]]

    def asked(self, body: Json) -> list[str]:
        return [each["id"] for each in mappings_of(body, "content") if each["type"] == "tool_use"]

    def answered(self, request: Json) -> list[str]:
        last = mappings_of(request, "messages")[-1]
        return [
            text_of(each, "tool_use_id")
            for each in mappings_of(last, "content")
            if last["role"] == "user" and each.get("type") == "tool_result"
        ]

    def text(self, body: Json) -> str:
        return "".join(
            text_of(e, "text") for e in mappings_of(body, "content") if e["type"] == "text"
        )

    def cited(self, body: Json) -> list[Cited]:
        return [
            Cited(
                text_of(each, "url") or text_of(each, "file_id") or text_of(each, "document_title"),
                text_of(block, "text"),
                bool(each.get("url")),
            )
            for block in mappings_of(body, "content")
            for each in mappings_of(block, "citations")
        ]

    def tokens(self, body: Json) -> Tokens:
        usage = mapping_of(body, "usage")
        rounds = mappings_of(usage, "iterations")
        # The counts of a message leave these out.
        compacted = [each for each in rounds if each.get("type") == "compaction"]
        advised = [each for each in rounds if each.get("type") == "advisor_message"]
        return Tokens(
            sum(map(_read, [usage, *compacted])),
            sum(count_of(each, "output_tokens") for each in [usage, *compacted]),
            (sum(map(_read, advised)), sum(count_of(each, "output_tokens") for each in advised)),
        )

    def sent(self, body: Json) -> dict[str, Sent]:
        blocks = mappings_of(body, "content")
        results = {text_of(each, "tool_use_id"): each for each in blocks}
        return {
            key: Sent(each, results.get(key))
            for each in blocks
            if each.get("type") in CALLS and (key := text_of(each, "id"))
        }

    def is_paused(self, body: Json) -> bool:
        return body.get("stop_reason") in PAUSES

    def is_whole(self, body: Json) -> bool:
        return body.get("stop_reason") in ("end_turn", "tool_use", "stop_sequence", *PAUSES)

    def done(self) -> Json:
        return {
            "type": "message",
            "role": "assistant",
            "id": "msg_done",
            "model": "claude-sonnet-5",
            "content": [{"type": "text", "text": "Done."}],
            "stop_reason": "end_turn",
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }


def _read(usage: Json) -> int:
    """Everything that went in, from a cache or not."""
    keys = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    return sum(count_of(usage, key) for key in keys)


def _opened(block: Json) -> Json:
    match block.get("type"):
        case "text":
            return {**block, "text": "", "citations": [] if block.get("citations") else None}
        case "thinking":
            return {**block, "thinking": "", "signature": ""}
        case "compaction":
            return {**block, "content": None}
        case kind if kind in TYPED:
            return {**block, "input": {}}
        case _:
            return block


def _deltas(block: Json) -> Iterator[Json]:
    match block.get("type"):
        case "text":
            for citation in mappings_of(block, "citations"):
                yield {"type": "citations_delta", "citation": citation}
            for piece in pieces(text_of(block, "text")):
                yield {"type": "text_delta", "text": piece}
        case "thinking":
            for piece in pieces(text_of(block, "thinking")):
                yield {"type": "thinking_delta", "thinking": piece}
            yield {"type": "signature_delta", "signature": text_of(block, "signature")}
        case "compaction":
            yield {"type": "compaction_delta", "content": block.get("content")}
        case kind if kind in TYPED:
            for piece in ["", *pieces(json.dumps(block.get("input") or {}))]:
                yield {"type": "input_json_delta", "partial_json": piece}
        case _:
            pass


def _grow(block: Json, delta: Json) -> None:
    match delta.get("type"):
        case "text_delta":
            block["text"] = text_of(block, "text") + text_of(delta, "text")
        case "citations_delta":
            block["citations"] = [*(block.get("citations") or []), delta["citation"]]
        case "thinking_delta":
            block["thinking"] = text_of(block, "thinking") + text_of(delta, "thinking")
        case "signature_delta":
            block["signature"] = delta["signature"]
        case "compaction_delta":
            block["content"] = delta.get("content")
        case "input_json_delta":
            block["json"] = text_of(block, "json") + text_of(delta, "partial_json")
        case _:
            pass


def _closed(block: Json) -> Json:
    written: Any = block.pop("json", "")
    return {**block, "input": json.loads(written)} if written else block

"""Bedrock's Converse, whose streams are frames of bytes."""

from __future__ import annotations

import json
from binascii import crc32
from collections.abc import Iterator, Sequence
from struct import pack

from tests.adapters.json_fields import count_of, mapping_of, mappings_of, text_of
from tests.adapters.pydantic_ai.codecs.loopback_server import Reply
from tests.adapters.pydantic_ai.wire.traffic import Cited, Json, Ran, Sent, Tokens, pieces, split_at

SERVER = "server_tool_use"


class BedrockWire:
    """Content blocks, each named by its only key."""

    def is_body(self, body: Json) -> bool:
        return bool(mapping_of(mapping_of(body, "output"), "message"))

    def is_event(self, event: Json) -> bool:
        return "messageStart" in event

    def streams(self, events: Sequence[Json]) -> Iterator[list[Json]]:
        return split_at(events, ["messageStart" in each for each in events])

    def events_of(self, body: Json) -> list[Json]:
        events: list[Json] = [{"messageStart": {"role": "assistant"}}]
        for index, block in enumerate(_blocks(body)):
            place = {"contentBlockIndex": index}
            start, deltas = _start(block), _deltas(block)
            if start:
                events.append({"contentBlockStart": {**place, "start": start}})
            events += [{"contentBlockDelta": {**place, "delta": delta}} for delta in deltas]
            events.append({"contentBlockStop": place})
        events.append({"messageStop": {"stopReason": body.get("stopReason")}})
        told = {key: body[key] for key in ("usage", "metrics") if key in body}
        return [*events, {"metadata": told}]

    def body_of(self, events: Sequence[Json]) -> Json:
        blocks: dict[int, Json] = {}
        body: Json = {}
        for event in events:
            ((name, facts),) = event.items()
            index = facts.get("contentBlockIndex", 0)
            match name:
                case "contentBlockStart":
                    blocks[index] = dict(facts["start"])
                case "contentBlockDelta":
                    _grow(blocks.setdefault(index, {}), facts["delta"])
                case "messageStop":
                    body["stopReason"] = facts["stopReason"]
                case "metadata":
                    body |= {key: facts[key] for key in ("usage", "metrics") if key in facts}
                case _:
                    pass
        content = [_closed(block) for _, block in sorted(blocks.items())]
        return {**body, "output": {"message": {"role": "assistant", "content": content}}}

    def encode(self, events: Sequence[Json]) -> Reply:
        frames = [_frame(name, facts) for event in events for name, facts in event.items()]
        return Reply(b"".join(frames), "application/vnd.amazon.eventstream")

    def ran(self, body: Json) -> list[Ran]:
        uses = [mapping_of(block, "toolUse") for block in _blocks(body)]
        answers = {text_of(mapping_of(each, "toolResult"), "toolUseId") for each in _blocks(body)}
        ids = [text_of(use, "toolUseId") for use in uses if use.get("type") == SERVER]
        return [Ran(key, key in answers) for key in ids]

    def asked(self, body: Json) -> list[str]:
        uses = [mapping_of(block, "toolUse") for block in _blocks(body)]
        return [text_of(use, "toolUseId") for use in uses if use and use.get("type") != SERVER]

    def answered(self, request: Json) -> list[str]:
        last = mappings_of(request, "messages")[-1]
        found = [mapping_of(block, "toolResult") for block in mappings_of(last, "content")]
        return [text_of(each, "toolUseId") for each in found if each and last["role"] == "user"]

    def text(self, body: Json) -> str:
        texts: list[str] = []
        for block in _blocks(body):
            cited = mappings_of(mapping_of(block, "citationsContent"), "content")
            texts += [text_of(block, "text"), *(text_of(each, "text") for each in cited)]
        return "".join(texts)

    def cited(self, body: Json) -> list[Cited]:
        found: list[Cited] = []
        for block in _blocks(body):
            facts = mapping_of(block, "citationsContent")
            text = "".join(text_of(each, "text") for each in mappings_of(facts, "content"))
            for each in mappings_of(facts, "citations"):
                url = text_of(mapping_of(mapping_of(each, "location"), "web"), "url")
                found.append(Cited(url or text_of(each, "title"), text or None, bool(url)))
        return found

    def tokens(self, body: Json) -> Tokens:
        usage = mapping_of(body, "usage")
        keys = ("inputTokens", "cacheReadInputTokens", "cacheWriteInputTokens")
        return Tokens(sum(count_of(usage, key) for key in keys), count_of(usage, "outputTokens"))

    def sent(self, body: Json) -> dict[str, Sent]:
        blocks = _blocks(body)
        results = {text_of(mapping_of(e, "toolResult"), "toolUseId"): e for e in blocks}
        return {
            key: Sent(each, results.get(key))
            for each in blocks
            if mapping_of(each, "toolUse").get("type") == SERVER
            and (key := text_of(mapping_of(each, "toolUse"), "toolUseId"))
        }

    def is_paused(self, body: Json) -> bool:
        return False

    def is_whole(self, body: Json) -> bool:
        return body.get("stopReason") in ("end_turn", "tool_use", "stop_sequence")

    def done(self) -> Json:
        message = {"role": "assistant", "content": [{"text": "Done."}]}
        usage = {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2}
        told = {"stopReason": "end_turn", "usage": usage, "metrics": {"latencyMs": 1}}
        return {"output": {"message": message}, **told}


def _blocks(body: Json) -> list[Json]:
    return mappings_of(mapping_of(mapping_of(body, "output"), "message"), "content")


def _start(block: Json) -> Json:
    ((name, facts),) = block.items()
    if name not in ("toolUse", "toolResult"):
        return {}
    return {name: {key: value for key, value in facts.items() if key not in ("input", "content")}}


def _deltas(block: Json) -> Iterator[Json]:
    ((name, facts),) = block.items()
    match name:
        case "text":
            yield from ({"text": piece} for piece in pieces(facts))
        case "toolUse":
            written = pieces(json.dumps(facts.get("input") or {}))
            yield from ({"toolUse": {"input": piece}} for piece in written)
        case "toolResult":
            yield {"toolResult": facts.get("content")}
        case "reasoningContent":
            told = mapping_of(facts, "reasoningText")
            yield from ({"reasoningContent": {"text": e}} for e in pieces(text_of(told, "text")))
            if told.get("signature"):
                yield {"reasoningContent": {"signature": told["signature"]}}
            if "redactedContent" in facts:
                yield {"reasoningContent": {"redactedContent": facts["redactedContent"]}}
        case "citationsContent":
            yield from ({"citation": each} for each in mappings_of(facts, "citations"))
            for each in mappings_of(facts, "content"):
                yield from ({"text": piece} for piece in pieces(text_of(each, "text")))
        case _:
            pass


def _grow(block: Json, delta: Json) -> None:
    ((name, more),) = delta.items()
    match name:
        case "text":
            block["text"] = text_of(block, "text") + more
        case "toolUse":
            block["json"] = text_of(block, "json") + text_of(more, "input")
        case "toolResult":
            block["content"] = [*block.get("content", ()), *more]
        case "citation":
            block["citations"] = [*block.get("citations", ()), more]
        case "reasoningContent":
            told = block.setdefault("reasoningContent", {})
            for key, value in more.items():
                told[key] = text_of(told, key) + value if key == "text" else value
        case _:
            pass


def _closed(block: Json) -> Json:
    if "toolUse" in block:
        return {
            "toolUse": {**block["toolUse"], "input": json.loads(text_of(block, "json") or "{}")}
        }
    if "toolResult" in block:
        return {"toolResult": {**block["toolResult"], "content": block.get("content", [])}}
    if "citations" in block:
        text = text_of(block, "text")
        cited = {"citations": block["citations"]}
        return {"citationsContent": {**cited, **({"content": [{"text": text}]} if text else {})}}
    told = mapping_of(block, "reasoningContent")
    if "redactedContent" in told:
        return {"reasoningContent": told}
    return (
        {"reasoningContent": {"reasoningText": told}} if told else {"text": text_of(block, "text")}
    )


def _frame(name: str, facts: Json) -> bytes:
    """One frame of an event stream: lengths, headers and payload, each with its checksum."""
    told = {":event-type": name, ":content-type": "application/json", ":message-type": "event"}
    headers = b"".join(
        pack("!B", len(key)) + key.encode() + b"\x07" + pack("!H", len(value)) + value.encode()
        for key, value in told.items()
    )
    payload = json.dumps(facts).encode()
    prelude = pack("!II", len(headers) + len(payload) + 16, len(headers))
    message = prelude + pack("!I", crc32(prelude)) + headers + payload
    return message + pack("!I", crc32(message))

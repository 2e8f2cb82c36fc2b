"""Chat completions, as Groq and OpenAI speak them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.adapters.json_fields import count_of, mapping_of, mappings_of, text_of
from tests.adapters.pydantic_ai.codecs.loopback_server import Reply
from tests.adapters.pydantic_ai.wire.traffic import Cited, Json, Ran, Sent, Tokens, pieces, sse


class ChatWire:
    """One message of one choice; on Groq it lists the tools that ran."""

    def is_body(self, body: Json) -> bool:
        return "choices" in body and body.get("object") != "text_completion"

    def is_event(self, event: Json) -> bool:
        return event.get("object") == "chat.completion.chunk"

    def streams(self, events: Sequence[Json]) -> Iterator[list[Json]]:
        yield list(events)

    def events_of(self, body: Json) -> list[Json]:
        message, choice = _message(body), _choice(body)
        common = {**_common(body), "object": "chat.completion.chunk"}
        deltas = [*_deltas(message), {}]
        chunks: list[Json] = [
            {**common, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
            for delta in deltas
        ]
        chunks[-1]["choices"][0]["finish_reason"] = choice.get("finish_reason")
        usage = body.get("usage")
        chunks[-1] |= {"usage": usage, "x_groq": {**mapping_of(body, "x_groq"), "usage": usage}}
        return chunks

    def body_of(self, events: Sequence[Json]) -> Json:
        message: Json = {"role": "assistant", "content": ""}
        ran: dict[int, Json] = {}
        calls: dict[int, Json] = {}
        finish, usage = None, Json()
        for event in events:
            choice = _choice(event)
            finish = choice.get("finish_reason") or finish
            usage = event.get("usage") or mapping_of(event, "x_groq").get("usage") or usage
            delta = mapping_of(choice, "delta")
            for key in ("content", "reasoning"):
                if delta.get(key):
                    message[key] = text_of(message, key) + delta[key]
            for piece in mappings_of(delta, "tool_calls"):
                _grow(calls.setdefault(piece["index"], {"type": "function"}), piece)
            ran |= {each["index"]: each for each in mappings_of(delta, "executed_tools")}
        message |= {"executed_tools": list(ran.values())} if ran else {}
        message |= {"tool_calls": list(calls.values())} if calls else {}
        made = {"index": 0, "message": message, "finish_reason": finish}
        return {
            **_common(events[0]),
            # Groq gives every chunk another id; the last is what the SDK keeps.
            "id": text_of(events[-1], "id"),
            "object": "chat.completion",
            "choices": [made],
            "usage": usage,
        }

    def encode(self, events: Sequence[Json]) -> Reply:
        return sse(events, end="data: [DONE]\n\n")

    def ran(self, body: Json) -> list[Ran]:
        return [Ran("") for _ in mappings_of(_message(body), "executed_tools")]

    def asked(self, body: Json) -> list[str]:
        return [text_of(each, "id") for each in mappings_of(_message(body), "tool_calls")]

    def answered(self, request: Json) -> list[str]:
        said = mappings_of(request, "messages")
        last = max((at for at, each in enumerate(said) if each["role"] == "assistant"), default=0)
        return [text_of(each, "tool_call_id") for each in said[last:] if each["role"] == "tool"]

    def text(self, body: Json) -> str:
        return text_of(_message(body), "content")

    def cited(self, body: Json) -> list[Cited]:
        text = self.text(body)
        notes = [mapping_of(e, "url_citation") for e in mappings_of(_message(body), "annotations")]
        return [
            Cited(text_of(note, "url"), text[note["start_index"] : note["end_index"]] or None)
            for note in notes
            if note
        ]

    def tokens(self, body: Json) -> Tokens:
        usage = mapping_of(body, "usage")
        return Tokens(count_of(usage, "prompt_tokens"), count_of(usage, "completion_tokens"))

    def sent(self, body: Json) -> dict[str, Sent]:
        return {}

    def is_paused(self, body: Json) -> bool:
        return False

    def is_whole(self, body: Json) -> bool:
        return _choice(body).get("finish_reason") in ("stop", "tool_calls")

    def done(self) -> Json:
        made = {"role": "assistant", "content": "Done."}
        return {
            "id": "chatcmpl-done",
            "object": "chat.completion",
            "created": 1,
            "model": "done",
            "choices": [{"index": 0, "message": made, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }


def _common(body: Json) -> Json:
    return {key: body[key] for key in ("id", "created", "model") if key in body}


def _choice(body: Json) -> Json:
    return next(iter(mappings_of(body, "choices")), Json())


def _message(body: Json) -> Json:
    return mapping_of(_choice(body), "message")


def _grow(call: Json, piece: Json) -> None:
    call |= {"id": text_of(piece, "id")} if piece.get("id") else {}
    function, more = mapping_of(call, "function"), mapping_of(piece, "function")
    joined = {key: text_of(function, key) + text_of(more, key) for key in ("name", "arguments")}
    call["function"] = joined


def _deltas(message: Json) -> Iterator[Json]:
    yield {"role": "assistant"}
    for piece in pieces(text_of(message, "reasoning")):
        yield {"reasoning": piece}
    for tool in mappings_of(message, "executed_tools"):
        # A tool is told twice: when it is called, and when it is over.
        yield {"executed_tools": [{**tool, "output": None, "search_results": {"results": []}}]}
        yield {"executed_tools": [tool]}
    for piece in pieces(text_of(message, "content")):
        yield {"content": piece}
    for index, call in enumerate(mappings_of(message, "tool_calls")):
        yield {"tool_calls": [{"index": index, **call}]}

"""The chat completion of a response: whole, or as the chunks of a stream."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from toolcrib.errors import ApiFault

if TYPE_CHECKING:
    from toolcrib.embedded.responses.writer import ActiveResponse

_ID_BYTES: Final = 24
_CALLS: Final = frozenset({"function_call", "custom_tool_call"})
_CUT_REASONS: Final = {"max_output_tokens": "length", "content_filter": "content_filter"}
_BETWEEN: Final = "\n\n"
"""Between the texts that the model wrote before and after a hosted call."""


@dataclass(frozen=True, slots=True)
class CompletionHead:
    """The fields that a completion shares with all of its chunks."""

    id: str
    created: int
    model: str

    @classmethod
    def of(cls, response: Mapping[str, Any]) -> CompletionHead:
        """A new completion of a response."""
        completion_id = f"chatcmpl-{secrets.token_hex(_ID_BYTES)}"
        return cls(completion_id, response["created_at"], response["model"])

    def resource(self, kind: str, choices: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """A completion or a chunk of it."""
        return {
            "id": self.id,
            "object": kind,
            "created": self.created,
            "model": self.model,
            "service_tier": "default",
            "system_fingerprint": None,
            "choices": list(choices),
        }


def completion_of(head: CompletionHead, active: ActiveResponse) -> dict[str, Any]:
    """The completion of a response that has ended. Raises `ApiFault` for a failed one."""
    response = active.writer.response
    raise_failure(active)
    parts = list(_text_parts(response))
    logprobs = [logprob for part in parts for logprob in part["logprobs"]]
    message = _message(response, parts)
    choice = {
        "index": 0,
        "message": message,
        "logprobs": {"content": logprobs, "refusal": None} if logprobs else None,
        "finish_reason": finish_reason(response),
    }
    completion = head.resource("chat.completion", [choice])
    return {**completion, "usage": chat_usage(response), "metadata": response["metadata"]}


def _message(response: Mapping[str, Any], parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    calls = [_call(item) for item in response["output"] if item["type"] in _CALLS]
    thoughts = [
        part["text"]
        for item in response["output"]
        if item["type"] == "reasoning"
        for part in item["content"]
    ]
    text = _BETWEEN.join(part["text"] for part in parts)
    message: dict[str, Any] = {
        "role": "assistant",
        "content": None if calls and not text else text,
        "refusal": None,
        "annotations": _annotations(parts),
    }
    if calls:
        message["tool_calls"] = calls
    if thoughts:
        message["reasoning_content"] = "".join(thoughts)
    return message


def _text_parts(response: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for item in response["output"]:
        if item["type"] == "message":
            yield from item["content"]


def _annotations(parts: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The citations of web pages, at their places in the whole text."""
    citations: list[dict[str, Any]] = []
    start = 0
    for part in parts:
        shown = (_citation(annotation, start) for annotation in part["annotations"])
        citations += [citation for citation in shown if citation is not None]
        start += len(part["text"]) + len(_BETWEEN)
    return citations


def _citation(annotation: Mapping[str, Any], start: int) -> dict[str, Any] | None:
    if annotation["type"] != "url_citation":
        return None
    citation = {
        "url": annotation["url"],
        "title": annotation["title"],
        "start_index": start + annotation["start_index"],
        "end_index": start + annotation["end_index"],
    }
    return {"type": "url_citation", "url_citation": citation}


def _call(item: Mapping[str, Any]) -> dict[str, Any]:
    if item["type"] == "custom_tool_call":
        custom = {"name": item["name"], "input": item["input"]}
        return {"id": item["call_id"], "type": "custom", "custom": custom}
    function = {"name": item["name"], "arguments": item["arguments"]}
    return {"id": item["call_id"], "type": "function", "function": function}


def finish_reason(response: Mapping[str, Any]) -> str:
    """Why the answer ended."""
    details = response["incomplete_details"]
    if details:
        return _CUT_REASONS.get(details["reason"], "length")
    has_calls = any(item["type"] in _CALLS for item in response["output"])
    return "tool_calls" if has_calls else "stop"


def chat_usage(response: Mapping[str, Any]) -> dict[str, Any]:
    """The token usage of a response in the form of a completion."""
    usage: Mapping[str, Any] = response["usage"]
    return {
        "prompt_tokens": usage["input_tokens"],
        "completion_tokens": usage["output_tokens"],
        "total_tokens": usage["total_tokens"],
        "prompt_tokens_details": {
            "cached_tokens": usage["input_tokens_details"]["cached_tokens"],
            "audio_tokens": 0,
        },
        "completion_tokens_details": {
            "reasoning_tokens": usage["output_tokens_details"]["reasoning_tokens"],
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


def raise_failure(active: ActiveResponse) -> None:
    """Raise the `ApiFault` of a response that failed or was cancelled."""
    response, task = active.writer.response, active.answer_task
    error = None if task.cancelled() else task.exception()
    if isinstance(error, ApiFault):
        raise error
    if response["status"] in ("failed", "cancelled"):
        details = response["error"] or {"message": "The request was cancelled."}
        raise ApiFault(500, details["message"], kind="server_error", code=details.get("code"))


class ChunkWriter:
    """Turns the events of a response into the chunks of a completion."""

    def __init__(self, head: CompletionHead, *, has_usage: bool) -> None:
        self._head = head
        self._more: dict[str, Any] = {"usage": None} if has_usage else {}
        self._calls: dict[int, int] = {}
        """By the output index of a call: its index among the calls."""
        self._messages: list[int] = []
        self._length = 0
        self._start = 0

    async def chunks(self, active: ActiveResponse) -> AsyncIterator[dict[str, Any]]:
        """The chunks up to the end of the answer, without the one that says why it ended."""
        yield self._chunk({"role": "assistant", "content": "", "refusal": None})
        async for event in active.writer.log.after():
            for chunk in self._of_event(event):
                yield chunk

    def last(self, active: ActiveResponse) -> Iterator[dict[str, Any]]:
        """The chunks of the end. Raises `ApiFault` if the response failed."""
        raise_failure(active)
        response = active.writer.response
        yield self._chunk({}, finish_reason(response))
        if self._more:
            chunk = self._head.resource("chat.completion.chunk", [])
            yield {**chunk, "usage": chat_usage(response)}

    def _of_event(self, event: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        match event["type"]:
            case "response.output_text.delta":
                yield self._text(event)
            case "response.output_text.annotation.added":
                citation = _citation(event["annotation"], self._start)
                if citation is not None:
                    yield self._chunk({"annotations": [citation]})
            case "response.reasoning_text.delta":
                yield self._chunk({"reasoning_content": event["delta"]})
            case "response.output_item.added" if event["item"]["type"] in _CALLS:
                self._calls[event["output_index"]] = len(self._calls)
                yield self._call(event, _call(event["item"]))
            case "response.function_call_arguments.delta":
                yield self._call(event, {"function": {"arguments": event["delta"]}})
            case "response.custom_tool_call_input.delta":
                yield self._call(event, {"custom": {"input": event["delta"]}})
            case _:
                return

    def _text(self, event: Mapping[str, Any]) -> dict[str, Any]:
        text: str = event["delta"]
        if event["output_index"] not in self._messages:
            if self._messages:
                text = _BETWEEN + text
                self._start = self._length + len(_BETWEEN)
            self._messages.append(event["output_index"])
        self._length += len(text)
        return self._chunk({"content": text}, logprobs=event["logprobs"])

    def _call(self, event: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
        index = self._calls[event["output_index"]]
        return self._chunk({"tool_calls": [{"index": index, **fields}]})

    def _chunk(
        self,
        delta: Mapping[str, Any],
        reason: str | None = None,
        logprobs: Sequence[Mapping[str, Any]] = (),
    ) -> dict[str, Any]:
        choice = {
            "index": 0,
            "delta": delta,
            "logprobs": {"content": list(logprobs), "refusal": None} if logprobs else None,
            "finish_reason": reason,
        }
        return {**self._head.resource("chat.completion.chunk", [choice]), **self._more}

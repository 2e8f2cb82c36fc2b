"""A provider that follows a script: one tool call after the other, then a text.

It stands where the network would begin, behind the SDK's own HTTP client, and is the same for all.
"""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import httpx2
from openai import AsyncOpenAI
from workload import PAYLOADS, expected

History = Literal["server", "client"]
"""Who keeps the conversation: the provider (`previous_response_id`), or the one who asks."""

MODEL = "gpt-5"
TASK = "Search the catalogue until every lot is found."
DONE = "Every lot is found."


class Script(httpx2.AsyncBaseTransport):
    """Answers every request with the next reply, and notes the CPU time at which it came."""

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self._replies = [_reply(step, _call(step)) for step in range(steps)]
        self._replies.append(_reply(steps, _message()))
        self.rewind()

    def rewind(self, *, keep: bool = False) -> None:
        """Begin again; with `keep`, remember what is asked, to look at it later."""
        self._at = 0
        self.stamps: list[int] = []
        self.kept: list[bytes] | None = [] if keep else None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.stamps.append(time.process_time_ns())
        self.last_bytes = len(request.content)
        if self.kept is not None:
            self.kept.append(request.content)
        reply = self._replies[self._at]
        self._at += 1
        headers = {"content-type": "application/json", "x-request-id": f"req_{self._at}"}
        return httpx2.Response(200, headers=headers, content=reply)

    def http(self) -> httpx2.AsyncClient:
        """The HTTP client that ends here."""
        return httpx2.AsyncClient(transport=self)

    def client(self) -> AsyncOpenAI:
        """The SDK's client on that."""
        return AsyncOpenAI(api_key="sk-bench", http_client=self.http())


@dataclass(frozen=True, slots=True)
class Fault:
    """What a request of a loop should have said, and what it said."""

    step: int
    wanted: object
    found: object


def fault_in(bodies: Sequence[bytes], history: History, steps: int) -> Fault | None:
    """The first request that is not what the script asks for; None when the work was done."""
    if len(bodies) != steps + 1:
        return Fault(len(bodies), f"{steps + 1} requests", len(bodies))
    for step, raw in enumerate(bodies):
        body = json.loads(raw)
        facts = _facts(body, step)
        wanted = _wanted(step, history)
        if facts != wanted:
            return Fault(step, wanted, facts)
    return None


def _wanted(step: int, history: History) -> dict[str, Any]:
    """What a right request says: the whole conversation, or only what is new in it."""
    is_server = history == "server"
    return {
        "previous": f"resp_{step - 1:04}" if is_server and step else None,
        "store": None if is_server else False,
        "items": 1 if is_server else 1 + 2 * step,
        "answer": expected(PAYLOADS[(step - 1) % len(PAYLOADS)]) if step else None,
    }


def _facts(body: dict[str, Any], step: int) -> dict[str, Any]:
    last = body["input"][-1]
    is_answer = last.get("call_id") == f"call_{step - 1:04}"
    return {
        "previous": body.get("previous_response_id"),
        "store": body.get("store"),
        "items": len(body["input"]),
        "answer": json.loads(last["output"]) if is_answer else None,
    }


def _call(step: int) -> dict[str, Any]:
    return {
        "type": "function_call",
        "id": f"fc_{step:04}",
        "call_id": f"call_{step:04}",
        "name": "search",
        "arguments": PAYLOADS[step % len(PAYLOADS)].decode(),
        "status": "completed",
    }


def _message() -> dict[str, Any]:
    part = {"type": "output_text", "text": DONE, "annotations": [], "logprobs": []}
    item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
    return {**item, "content": [part]}


def _reply(step: int, item: dict[str, Any]) -> bytes:
    """A response with the fields that the real ones have."""
    usage = {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 20,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 120,
    }
    body = {
        "id": f"resp_{step:04}",
        "object": "response",
        "created_at": 1_700_000_000,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "max_output_tokens": None,
        "metadata": {},
        "model": MODEL,
        "output": [item],
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None},
        "store": True,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": usage,
    }
    return json.dumps(body).encode()

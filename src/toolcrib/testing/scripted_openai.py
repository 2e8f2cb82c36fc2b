"""A model that says what its script says: OpenAI's Responses API, without a key or a network."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from httpx2 import Request, Response
    from openai import AsyncOpenAI

Item = Mapping[str, Any]


class ScriptedOpenAI:
    """Stands for OpenAI: `OpenAIAdapter(model="any", client=ScriptedOpenAI(...).client())`.

    Each of `outputs` is the items of one response; a request after the last of them is refused.
    `requests` are the bodies of all requests, in order; `on_request` is called when one arrives.
    """

    def __init__(
        self, *outputs: Sequence[Item], on_request: Callable[[], object] | None = None
    ) -> None:
        self.requests: list[dict[str, Any]] = []
        self.on_request = on_request
        self._outputs = deque(outputs)

    def client(self) -> AsyncOpenAI:
        """A client of the SDK's that asks this script."""
        from httpx2 import AsyncClient, MockTransport
        from openai import AsyncOpenAI

        http = AsyncClient(transport=MockTransport(self._answer))
        return AsyncOpenAI(api_key="none", http_client=http)

    def _answer(self, request: Request) -> Response:
        from httpx2 import Response

        if self.on_request is not None:
            self.on_request()
        body = json.loads(request.content)
        self.requests.append(body)
        if not self._outputs:
            return Response(400, json={"error": {"message": "the script is over"}})
        reply = {
            "id": f"resp_{len(self.requests)}",
            "object": "response",
            "status": "completed",
            "model": body.get("model"),
            "output": list(self._outputs.popleft()),
        }
        if not body.get("stream"):
            return Response(200, json=reply)
        event = json.dumps({"type": "response.completed", "response": reply})
        headers = {"content-type": "text/event-stream"}
        return Response(200, text=f"event: response.completed\ndata: {event}\n\n", headers=headers)


def says(text: str, *annotations: Item) -> dict[str, Any]:
    """A message of the model's."""
    part = {"type": "output_text", "text": text, "annotations": list(annotations)}
    return {"type": "message", "id": "msg_1", "role": "assistant", "content": [part]}


def calls(
    name: str, arguments: Mapping[str, Any] | None = None, *, call_id: str = "call_1"
) -> dict[str, Any]:
    """A call of one of your tools."""
    return {
        "type": "function_call",
        "call_id": call_id,
        "name": name,
        "arguments": json.dumps(dict(arguments or {})),
    }

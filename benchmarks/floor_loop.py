"""The least that a loop on the SDK can cost: a request, a validated call, the next request."""

import json
from abc import ABC, abstractmethod
from typing import Any

from floor import SearchArguments, call_of
from looping import Loop
from openai import HttpxBinaryResponseContent
from pydantic import TypeAdapter
from scripted import MODEL, TASK, History, Script
from workload import search

_call = call_of(search)
_MESSAGE = {"type": "message", "role": "user", "content": TASK}
_TOOL = {
    "type": "function",
    "name": "search",
    "description": search.__doc__,
    "parameters": TypeAdapter(SearchArguments).json_schema(),
    "strict": False,
}


class _Hand(ABC):
    """A conversation kept by hand."""

    def __init__(self, script: Script, history: History) -> None:
        self._client = script.client()
        self._fixed: dict[str, Any] = {"model": MODEL, "tools": [_TOOL]}
        if history == "client":
            self._fixed["store"] = False
        self._is_kept_here = history == "client"
        self._previous: dict[str, str] = {}

    async def run(self) -> str:
        self.begin()
        self.say(_MESSAGE)
        while True:
            body = await self.ask()
            item = body["output"][0]
            if item["type"] == "message":
                return item["content"][0]["text"]
            if self._is_kept_here:
                self.say(item)
            else:
                self.begin()
                self._previous = {"previous_response_id": body["id"]}
            output = await _call(item["arguments"].encode())
            answer = {"call_id": item["call_id"], "output": output}
            self.say({"type": "function_call_output", **answer})

    @abstractmethod
    def begin(self) -> None:
        """Bring nothing so far."""

    @abstractmethod
    def say(self, item: Any) -> None:
        """Bring this with the next request."""

    @abstractmethod
    async def ask(self) -> dict[str, Any]:
        """Make a request."""


class _Created(_Hand):
    def begin(self) -> None:
        self._previous = {}
        self._items: list[Any] = []

    def say(self, item: Any) -> None:
        self._items.append(item)

    async def ask(self) -> dict[str, Any]:
        create: Any = self._client.responses.with_raw_response.create
        return json.loads(
            (await create(**self._fixed, **self._previous, input=self._items)).content
        )


class _Posted(_Hand):
    def begin(self) -> None:
        self._previous = {}
        self._items: list[bytes] = []

    def say(self, item: Any) -> None:
        self._items.append(json.dumps(item).encode())

    async def ask(self) -> dict[str, Any]:
        head = json.dumps({**self._fixed, **self._previous}).encode()[:-1]
        body = b'%b,"input":[%b]}' % (head, b",".join(self._items))
        reply = await self._client.post(
            "/responses", cast_to=HttpxBinaryResponseContent, content=body
        )
        return json.loads(reply.content)


def created(script: Script, history: History) -> Loop:
    """By `responses.create`, which looks at every item of what is sent."""
    return _Created(script, history).run


def posted(script: Script, history: History) -> Loop:
    """By `post`, of a body that is JSON already and whose items were encoded once."""
    return _Posted(script, history).run

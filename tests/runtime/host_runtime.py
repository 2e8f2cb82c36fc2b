"""A runtime with a few host tools, on either store: what the runtime's rules are tried on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

from toolcrib import MemoryStore, RuntimeConfig, SqliteStore, ToolContext, create_runtime
from toolcrib.adapters.openai import OpenAIAdapter
from toolcrib.errors import Refused
from toolcrib.host_tools import HostToolDefinition, HostToolRegistry
from toolcrib.runtime.event_reader import Envelope
from toolcrib.runtime.principal import OWNER, Principal
from toolcrib.runtime.runtime import Runtime
from toolcrib.store.store import Store
from toolcrib.testing import ScriptedOpenAI

Json = dict[str, Any]

NUMBERS: Json = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
    "additionalProperties": False,
}
ANYTHING: Json = {"type": "object"}

CALLER = Principal("bot", frozenset({"caller"}))
BOSS = Principal("ann", frozenset({"approver", "auditor"}))


async def add(given: Json, context: ToolContext) -> int:
    return given["a"] + given["b"]


def host_tool(
    name: str, handler: Any = add, parameters: Json | None = None, **rules: Any
) -> HostToolDefinition:
    schema = parameters or (NUMBERS if handler is add else ANYTHING)
    return HostToolDefinition(name, f"The tool {name}.", schema, handler, **rules)


def registry_of(*definitions: HostToolDefinition) -> HostToolRegistry:
    registry = HostToolRegistry()
    for definition in definitions:
        registry.add(definition)
    return registry


@asynccontextmanager
async def serving(*definitions: HostToolDefinition, **config: Any) -> AsyncGenerator[Runtime]:
    """A started runtime whose registry has these tools."""
    config.setdefault("host_tool_registry", registry_of(*definitions))
    async with create_runtime(RuntimeConfig(**config)) as runtime:
        yield runtime


def stores(path: Path) -> Mapping[str, Callable[[], Store]]:
    """How to make each kind of store."""
    return {"memory": MemoryStore, "sqlite": lambda: SqliteStore(path)}


def model(*outputs: list[Json]) -> OpenAIAdapter:
    """An adapter whose provider says this, response by response."""
    return scripted(ScriptedOpenAI(*outputs))


def scripted(script: ScriptedOpenAI) -> OpenAIAdapter:
    return OpenAIAdapter(model="test-model", client=script.client())


class SlowModel:
    """A provider that does not answer. `is_asked` is set when it is asked, `is_left` when whoever
    asked gives up.
    """

    def __init__(self) -> None:
        self.is_asked = asyncio.Event()
        self.is_left = asyncio.Event()

    def adapter(self) -> OpenAIAdapter:
        from httpx2 import AsyncClient, MockTransport, Request, Response
        from openai import AsyncOpenAI

        async def never(request: Request) -> Response:
            self.is_asked.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.is_left.set()
            raise AssertionError

        http = AsyncClient(transport=MockTransport(never))
        return OpenAIAdapter(model="m", client=AsyncOpenAI(api_key="none", http_client=http))


class Gate:
    """A handler that waits until it is let through. `entered` counts how often it began."""

    def __init__(self) -> None:
        self.is_entered = asyncio.Event()
        self.is_open = asyncio.Event()
        self.was_cancelled = False
        self.entered = 0

    async def __call__(self, given: Json, context: ToolContext) -> str:
        self.entered += 1
        self.is_entered.set()
        try:
            await self.is_open.wait()
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise
        return "through"


async def new_session(runtime: Runtime, who: Principal = OWNER, **params: Any) -> str:
    return cast("str", (await runtime.ask("session.create", params, who)).session_id)


async def call(runtime: Runtime, session_id: str, name: str, /, **arguments: Any) -> Any:
    return await runtime.ask(
        "tools.call", {"session_id": session_id, "name": name, "arguments": arguments}
    )


async def kinds(runtime: Runtime, session_id: str) -> list[str]:
    """The kinds of all events of a session."""
    return [each["kind"] for each in await events(runtime, session_id)]


async def events(runtime: Runtime, session_id: str, kind: str | None = None) -> list[Json]:
    told = await runtime.ask("events.list", {"session_id": session_id, "limit": 10_000})
    return [each for each in told.events if kind in (None, each["kind"])]


async def refusal(runtime: Runtime, name: str, params: Any = None, *who: Principal) -> Refused:
    """What an operation is refused with."""
    try:
        await runtime.ask(name, params, *who)
    except Refused as error:
        return error
    raise AssertionError(f"{name} was not refused")


async def first_event(runtime: Runtime, session_id: str, kind: str, count: int = 1) -> Envelope:
    """Wait for the first event of a kind, or for the one of this number."""
    reader = runtime.service.follow(session_id)
    try:
        async for event in reader:
            count -= event.kind == kind
            if not count:
                return event
    finally:
        reader.close()
    raise AssertionError(f"there was no {kind}")

"""Two replicas on one PostgreSQL database, each with an HTTP server on a real socket."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import pytest

from tests.transports.http.served_runtime import TOKENS
from tests.transports.shop import registry, shop
from toolcrib.adapters.openai import OpenAIAdapter
from toolcrib.host_tools import HostToolDefinition, ToolContext
from toolcrib.runtime.runtime import Runtime
from toolcrib.runtime.service import as_json
from toolcrib.store import PostgresStore
from toolcrib.store.cipher import new_key
from toolcrib.testing import ScriptedOpenAI, calls, says
from toolcrib.transports.http.server import HttpServer

SESSION = "the-session"
TEXT: dict[str, Any] = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
    "additionalProperties": False,
}


@dataclass
class ReplicaHost:
    """One replica: its store, its runtime and its server."""

    store: PostgresStore
    runtime: Runtime
    server: HttpServer
    said: list[str]
    """What its tool `say` was called with."""

    async def ask(self, operation: str, **params: Any) -> Any:
        """The answer to an operation, as JSON."""
        return as_json(await self.runtime.ask(operation, params))


@dataclass
class Pair:
    """The replica that has `SESSION` open, and another one."""

    one: ReplicaHost
    two: ReplicaHost


async def _host(stack: AsyncExitStack, url: str, key: str, **changes: Any) -> ReplicaHost:
    said: list[str] = []

    def say(input: dict[str, Any], context: ToolContext) -> str:
        said.append(input["text"])
        return input["text"]

    tools = registry()
    tools.add(HostToolDefinition("say", "Say it.", TEXT, say))
    store = PostgresStore(url, key=key, uses_process_check=False, lease_seconds=4.0)
    stack.callback(store.close)
    runtime = shop(store=store, host_tool_registry=tools, drain_seconds=1.0, **changes)
    await stack.enter_async_context(runtime)
    server = HttpServer(runtime, port=0, tokens=TOKENS)
    await stack.enter_async_context(server)
    return ReplicaHost(store, runtime, server, said)


@pytest.fixture
async def pair(postgres_url: str) -> AsyncGenerator[Pair]:
    key = new_key()
    async with AsyncExitStack() as stack:
        one = await _host(stack, postgres_url, key)
        two = await _host(stack, postgres_url, key)
        await one.ask("session.create", session_id=SESSION)
        yield Pair(one, two)


@pytest.fixture
async def ringing_pair(postgres_url: str) -> AsyncGenerator[Pair]:
    """Replicas whose model has the client ring twice."""
    key = new_key()
    async with AsyncExitStack() as stack:
        hosts: list[ReplicaHost] = []
        for _ in range(2):
            rings = [[calls("ring", {"times": n}, call_id=f"ring_{n}")] for n in (1, 2)]
            script = ScriptedOpenAI(*rings, [says("all rung")])
            adapter = OpenAIAdapter(model="scripted", client=script.client(), history="client")
            hosts.append(await _host(stack, postgres_url, key, adapter=adapter))
        yield Pair(*hosts)

"""A runtime with a few tools, served on a real socket, and clients of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2

from tests.helpers.patience import PATIENCE
from toolcrib.host_tools import HostToolDefinition, HostToolRegistry, ToolContext
from toolcrib.runtime.config import RuntimeConfig
from toolcrib.runtime.principal import OWNER, Principal
from toolcrib.runtime.runtime import Runtime, create_runtime
from toolcrib.serving.connections import ListenerLimits
from toolcrib.serving.tokens import Token, Tokens
from toolcrib.telemetry.prometheus import PrometheusMetrics
from toolcrib.transports.http.server import HttpServer

OWNERS = "owner-token-0123456789"
CALLERS = "caller-token-0123456789"
READERS = "reader-token-0123456789"
TOKENS = Tokens(
    [
        Token(OWNERS, OWNER),
        Token(CALLERS, Principal("caller", frozenset({"caller"}))),
        Token(READERS, Principal("reader", frozenset({"auditor"}))),
    ]
)
TEXT = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
    "additionalProperties": False,
}


class Gates:
    """Lets a test hold a tool back, and know that it runs."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self.open = asyncio.Event()
        self.calls: list[str] = []

    async def echo(self, input: dict[str, Any], context: ToolContext) -> dict[str, Any]:
        self.calls.append(input["text"])
        return {"echo": input["text"]}

    async def held_back(self, input: dict[str, Any], context: ToolContext) -> str:
        self.entered.set()
        await self.open.wait()
        return input["text"]

    async def broken(self, input: dict[str, Any], context: ToolContext) -> str:
        raise RuntimeError("the shelf fell down")


def registry_of(gates: Gates) -> HostToolRegistry:
    registry = HostToolRegistry()
    for name, handler, asks in (
        ("echo", gates.echo, False),
        ("careful", gates.echo, True),
        ("held_back", gates.held_back, False),
        ("broken", gates.broken, False),
    ):
        registry.add(
            HostToolDefinition(
                name=name,
                description=f"The tool {name}",
                parameters=TEXT,
                handler=handler,
                requires_approval=asks,
            )
        )
    return registry


@dataclass(frozen=True)
class Served:
    """What a test talks to."""

    runtime: Runtime
    server: HttpServer
    gates: Gates
    client: httpx2.AsyncClient

    async def session(self, session_id: str = "s", token: str = OWNERS) -> str:
        answer = await self.client.post(
            "/v1/sessions", json={"session_id": session_id}, headers=self.as_(token)
        )
        assert answer.status_code == 201, answer.text
        return session_id

    def as_(self, token: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {token}"}


@asynccontextmanager
async def served(
    *,
    origins: tuple[str, ...] = (),
    heartbeat: float = 15.0,
    listener: ListenerLimits | None = None,
    access_log: bool = False,
    console: bool = True,
    metrics: PrometheusMetrics | None = None,
    **config: Any,
) -> AsyncGenerator[Served]:
    gates = Gates()
    options: dict[str, Any] = {"drain_seconds": 1.0, **config}
    asked = RuntimeConfig(host_tool_registry=registry_of(gates), **options)
    made = create_runtime(asked)
    if metrics is not None:
        metrics.watch(made.bus)
    async with (
        made as runtime,
        HttpServer(
            runtime,
            port=0,
            tokens=TOKENS,
            allowed_origins=origins,
            heartbeat=heartbeat,
            limits=listener,
            access_log=access_log,
            console=console,
            metrics=metrics,
        ) as server,
        httpx2.AsyncClient(
            base_url=server.url, headers={"Authorization": f"Bearer {OWNERS}"}, timeout=PATIENCE
        ) as client,
    ):
        yield Served(runtime, server, gates, client)


@dataclass(frozen=True)
class Sent:
    """One server-sent event; `comment` is a heartbeat or the opening."""

    event: str = ""
    data: Any = None
    id: str | None = None
    comment: str = ""


async def events_of(response: httpx2.Response) -> AsyncGenerator[Sent]:
    """The events of a stream, as a browser would read them."""
    fields: dict[str, str] = {}
    async for line in response.aiter_lines():
        if line:
            name, _, value = line.partition(":")
            fields[name or "comment"] = value.removeprefix(" ")
            continue
        data = json.loads(fields["data"]) if "data" in fields else None
        yield Sent(fields.get("event", ""), data, fields.get("id"), fields.get("comment", ""))
        fields = {}


STREAM = {"Accept": "text/event-stream"}

"""A host with tools and a scripted model, served to front ends on a real socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
from openai import AsyncOpenAI

from tests.adapters.openai.scripted_provider import Json, Provider, Reply
from tests.helpers.patience import PATIENCE
from toolcrib.adapters.openai import OpenAIAdapter
from toolcrib.host_tools import HostToolDefinition, HostToolRegistry, ToolContext
from toolcrib.runtime.config import RuntimeConfig
from toolcrib.runtime.principal import OWNER, Principal
from toolcrib.runtime.runtime import Runtime, create_runtime
from toolcrib.serving.tokens import Token, Tokens
from toolcrib.transports.http.frontends.chat_turns import ChatTurns
from toolcrib.transports.http.server import HttpServer

OWNERS = "owner-token-0123456789"
ADA, BOB, LEAD = "ada-token-0123456789", "bob-token-0123456789", "lead-token-0123456789"
TOKENS = Tokens(
    [
        Token(OWNERS, OWNER),
        Token(ADA, Principal("ada", frozenset({"caller", "approver"}), may_approve_own=True)),
        Token(BOB, Principal("bob", frozenset({"caller"}))),
        Token(LEAD, Principal("lead", frozenset({"approver"}))),
    ]
)


def seen_approval(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Set once a stream has looked at a request for approval: one that is decided before is not
    shown.
    """
    seen = asyncio.Event()
    look = ChatTurns._approval  # pyright: ignore[reportPrivateUsage]

    async def told(self: ChatTurns, approval_id: str, reader: Any) -> AsyncGenerator[Any]:
        async for part in look(self, approval_id, reader):
            yield part
        seen.set()

    monkeypatch.setattr(ChatTurns, "_approval", told)
    return seen


NAMED: Json = {
    "type": "object",
    "properties": {"name": {"type": "string"}},
    "required": ["name"],
    "additionalProperties": False,
}


class ChatTools:
    """The tools, and what they did."""

    def __init__(self) -> None:
        self.greeted: list[str] = []
        self.entered = asyncio.Event()
        self.open = asyncio.Event()

    def greet(self, input: Json, context: ToolContext) -> str:
        self.greeted.append(input["name"])
        context.progress(1, 2, "half of it")
        return f"Hello, {input['name']}!"

    async def held_back(self, input: Json, context: ToolContext) -> str:
        self.entered.set()
        await self.open.wait()
        return f"At last, {input['name']}!"

    def broken(self, input: Json, context: ToolContext) -> str:
        raise ValueError("the till is jammed")

    def registry(self) -> HostToolRegistry:
        registry = HostToolRegistry()
        for name, handler, asks in (
            ("greet", self.greet, False),
            ("guarded", self.greet, True),
            ("held_back", self.held_back, False),
            ("broken", self.broken, False),
        ):
            registry.add(
                HostToolDefinition(
                    name, f"The tool {name}.", NAMED, handler, requires_approval=asks
                )
            )
        return registry


@dataclass(frozen=True)
class ChatHost:
    """What a test talks to."""

    runtime: Runtime
    server: HttpServer
    tools: ChatTools
    provider: Provider
    client: httpx2.AsyncClient

    @property
    def url(self) -> str:
        return self.server.url

    def as_(self, token: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {token}"}

    async def post(self, path: str, token: str = ADA, **body: Any) -> httpx2.Response:
        return await self.client.post(path, json=body, headers=self.as_(token))


@asynccontextmanager
async def chat_host(
    *replies: Json | Reply,
    origins: tuple[str, ...] = (),
    heartbeat: float = 15.0,
    tokens_file: Path | None = None,
    **config: Any,
) -> AsyncGenerator[ChatHost]:
    tools = ChatTools()
    with Provider(*replies) as provider:
        client = AsyncOpenAI(api_key="none", base_url=provider.url, max_retries=0)
        adapter = OpenAIAdapter(model="scripted", client=client)
        options: dict[str, Any] = {"drain_seconds": 1.0, **config}
        asked = RuntimeConfig(host_tool_registry=tools.registry(), adapter=adapter, **options)
        async with (
            client,
            create_runtime(asked) as runtime,
            HttpServer(
                runtime,
                port=0,
                tokens=TOKENS,
                tokens_file=tokens_file,
                allowed_origins=origins,
                heartbeat=heartbeat,
            ) as server,
            httpx2.AsyncClient(base_url=server.url, timeout=PATIENCE) as http,
        ):
            yield ChatHost(runtime, server, tools, provider, http)

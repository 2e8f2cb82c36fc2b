"""A runtime with tools and a model on a loopback port, for whoever throws requests at it.

Prints its address and stays until its standard input ends.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any
from unittest.mock import patch

from toolcrib.adapters.openai import OpenAIAdapter
from toolcrib.host_tools import HostToolDefinition, HostToolRegistry, ToolContext
from toolcrib.runtime.config import RuntimeConfig
from toolcrib.runtime.principal import OWNER
from toolcrib.runtime.runtime import Runtime, create_runtime
from toolcrib.serving import login
from toolcrib.serving.tokens import Token, Tokens
from toolcrib.testing import ScriptedOpenAI, says
from toolcrib.transports.http.server import HttpServer

TOKEN = "fuzzing-token-0123456789"
ANYTHING = {"type": "object"}


async def echo(given: dict[str, Any], context: ToolContext) -> dict[str, Any]:
    return given


async def broken(given: dict[str, Any], context: ToolContext) -> str:
    raise RuntimeError("the shelf fell down")


def tools() -> HostToolRegistry:
    registry = HostToolRegistry()
    registry.add(HostToolDefinition("echo", "Say it again.", ANYTHING, echo))
    registry.add(HostToolDefinition("broken", "Fail.", ANYTHING, broken))
    registry.add(
        HostToolDefinition("careful", "Ask first.", ANYTHING, echo, requires_approval=True)
    )
    return registry


async def serve() -> None:
    model = ScriptedOpenAI(*([says("done")] for _ in range(100_000)))
    adapter = OpenAIAdapter(model="test-model", client=model.client())
    config = RuntimeConfig(host_tool_registry=tools(), adapter=adapter, drain_seconds=1.0)
    tokens = Tokens([Token(TOKEN, OWNER)])
    async with create_runtime(config) as runtime:
        for name in ("0", "1"):
            await runtime.ask("session.create", {"session_id": name})
        # Wrong tokens by the hundred are part of the check; tests/serving has the delays.
        with patch.object(login, "FREE_FAILURES", 1_000_000):
            await _listen(runtime, tokens)


async def _listen(runtime: Runtime, tokens: Tokens) -> None:
    async with HttpServer(runtime, port=0, tokens=tokens) as server:
        print(server.url, flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(serve())

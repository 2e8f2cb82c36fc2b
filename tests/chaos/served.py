"""What the replicas of the chaos run serve: tools that act on the world, and a model whose reply
follows from the conversation alone, so that any replica may ask it.

`toolcrib serve --adapter tests.chaos.served:adapter --host-tools-module tests.chaos.served`
"""

from __future__ import annotations

import asyncio
import json
import os
import random
from typing import Any, Final, cast

from httpx2 import AsyncClient, MockTransport, Request, Response
from openai import AsyncOpenAI

from tests.chaos.world import KEYED, World
from toolcrib import ToolContext, tool
from toolcrib.adapters.openai import OpenAIAdapter
from toolcrib.testing import ScriptedOpenAI, calls, says

PLAN: Final = ("lookup", "charge", "transfer", "charge", "lookup")
"""The calls of every turn, one in each step."""
TOOL_SECONDS: Final = float(os.environ.get("CHAOS_TOOL_SECONDS", "0.3"))
TOOL_TIMEOUT: Final = 3.0
THINK: Final = "Think."
"""A prompt about which the model thinks for ever when the first replica asks it."""

_world: Final = World(os.environ.get("CHAOS_WORLD", ""))
_replica: Final = os.environ.get("CHAOS_REPLICA", "?")


async def _act(context: ToolContext, name: str) -> None:
    """Have the effect at some moment of the tool's time."""
    place = context.session_id, context.call_id, name, _replica
    before = random.random() * TOOL_SECONDS
    await _world.begin(*place)
    await asyncio.sleep(before)
    key = context.idempotency_key if context.session_id.startswith(KEYED) else None
    await _world.act(*place, key)
    await asyncio.sleep(TOOL_SECONDS - before)


@tool(is_idempotent=True, timeout=TOOL_TIMEOUT)
async def lookup(n: int, context: ToolContext) -> str:
    """Look something up; twice does no harm.

    Args:
        n: The step.
    """
    await _act(context, "lookup")
    return f"found {n}"


@tool(timeout=TOOL_TIMEOUT)
async def charge(n: int, context: ToolContext) -> str:
    """Charge money, never twice.

    Args:
        n: The step.
    """
    await _act(context, "charge")
    return f"charged {n}"


@tool(requires_approval=True, timeout=TOOL_TIMEOUT)
async def transfer(n: int, context: ToolContext) -> str:
    """Transfer money once a person said yes, never twice.

    Args:
        n: The step.
    """
    await _act(context, "transfer")
    return f"transferred {n}"


class PlannedModel(ScriptedOpenAI):
    """Says what comes next in the plan, and `done` at its end."""

    def client(self) -> AsyncOpenAI:
        """A client that asks this model, which may take its time."""

        async def answer(request: Request) -> Response:
            if THINK.encode() in request.content and _replica.startswith("a#"):
                await asyncio.Event().wait()
            return self._answer(request)

        http = AsyncClient(transport=MockTransport(answer))
        return AsyncOpenAI(api_key="none", http_client=http)

    def _answer(self, request: Request) -> Response:
        items: list[Any] = json.loads(request.content)["input"]
        told = [cast("dict[str, Any]", item) for item in items if isinstance(item, dict)]
        prompts = [place for place, item in enumerate(told) if item.get("role") == "user"]
        turn = told[prompts[-1] :] if prompts else told
        step = sum(item.get("type") == "function_call_output" for item in turn)
        self._outputs.append(
            [calls(PLAN[step], {"n": step}, call_id=f"call_{len(prompts)}_{step}")]
            if step < len(PLAN)
            else [says("done")]
        )
        self.requests.clear()
        return super()._answer(request)


adapter: Final = OpenAIAdapter(model="planned", client=PlannedModel().client(), history="client")

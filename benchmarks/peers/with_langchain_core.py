"""langchain-core: a structured tool by itself, and under langgraph's ToolNode."""

import json
from contextlib import AsyncExitStack
from typing import Any

from harness import Call, Variant
from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.messages import AIMessage
from langchain_core.tools import StructuredTool
from langgraph.prebuilt import ToolNode
from langgraph.runtime import Runtime
from workload import call_id, search_json


def _tool() -> StructuredTool:
    return StructuredTool.from_function(coroutine=search_json, name="search")


def _request(payload: bytes) -> dict[str, Any]:
    return {"name": "search", "args": json.loads(payload), "id": call_id(), "type": "tool_call"}


def _tool_call(callbacks: list[Any]) -> Call:
    tool = _tool()

    async def call(payload: bytes) -> str:
        message = await tool.ainvoke(_request(payload), config={"callbacks": callbacks})
        return message.content

    return call


def _node_call() -> Call:
    node = ToolNode([_tool()])
    # A graph sets the runtime at every step; outside one, the caller brings it.
    config = {"configurable": {"__pregel_runtime": Runtime()}}

    async def call(payload: bytes) -> str:
        request = AIMessage("", tool_calls=[_request(payload)])
        reply = await node.ainvoke({"messages": [request]}, config)
        return reply["messages"][0].content

    return call


class _Callbacks(AsyncCallbackHandler):
    async def on_tool_start(self, *args: Any, **kwargs: Any) -> None:
        return None

    async def on_tool_end(self, *args: Any, **kwargs: Any) -> None:
        return None


async def variants(stack: AsyncExitStack) -> list[Variant]:
    """Without hooks."""
    return [
        Variant("langchain-core", "StructuredTool.ainvoke", _tool_call([])),
        Variant("langchain-core", "langgraph ToolNode.ainvoke", _node_call()),
    ]


async def hooked(stack: AsyncExitStack) -> list[Variant]:
    """With one hook before and one after."""
    return [Variant("langchain-core", "StructuredTool + callbacks", _tool_call([_Callbacks()]))]

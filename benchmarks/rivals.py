"""The peers by name, each imported only when a section asks for it."""

import importlib
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Literal, cast

from harness import Variant

PEERS = ("pydantic_ai", "openai_agents", "langchain_core", "fastmcp", "mcp")

Build = Callable[[AsyncExitStack], Awaitable[list[Variant]]]


async def enter(stack: AsyncExitStack, kind: Literal["variants", "hooked"]) -> list[Variant]:
    """All variants of one kind from all peers, their clients connected until the stack closes."""
    found: list[Variant] = []
    for peer in PEERS:
        module = importlib.import_module(f"peers.with_{peer}")
        build = cast("Build", getattr(module, kind))
        found += await build(stack)
    return found

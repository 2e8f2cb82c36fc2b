"""A program with a runtime that exports as its environment says: one call that is approved, one
that fails, and a span of a tool's own.
"""

from __future__ import annotations

import asyncio
import logging

from opentelemetry.trace import get_tracer

from toolcrib import RuntimeConfig, create_runtime, tool
from toolcrib.telemetry.otlp import start_export


@tool
async def look(part: str) -> str:
    """Look up where a part is kept."""
    with get_tracer("shop").start_as_current_span("SELECT shelf"):
        return f"{part}: drawer 3"


@tool
async def broken() -> str:
    """Fail."""
    raise RuntimeError("the shelf fell down")


async def main() -> None:
    logging.basicConfig(format="%(levelname)s %(message)s")
    runtime = create_runtime(RuntimeConfig(tools=[look, broken]))
    export = start_export(runtime.bus)
    async with runtime:
        await runtime.create_session(session_id="s")
        await runtime.call_tool("s", "look", {"part": "hunter2-bolt"})
        await runtime.call_tool("s", "broken", {})
    print("exporting" if export is not None else "silent")
    if export is not None:
        await asyncio.to_thread(export.close)


if __name__ == "__main__":
    asyncio.run(main())

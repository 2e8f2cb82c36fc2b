"""What a running call says of its progress, for the client that asked to hear of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from mcp.shared.jsonrpc_dispatcher import progress_token_from_params

from toolcrib.runtime.messages import OneSession
from toolcrib.session.events import ToolProgress

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

    from toolcrib.runtime.envelope import Reader
    from toolcrib.runtime.runtime import Runtime
    from toolcrib.transports.mcp.seats import Seat


def wants_progress(ctx: ServerRequestContext[Any, Any]) -> bool:
    """Whether the client gave a token to tell progress by."""
    return progress_token_from_params(ctx.params) is not None


@asynccontextmanager
async def told_progress(
    runtime: Runtime, ctx: ServerRequestContext[Any, Any], seat: Seat, call_id: str
) -> AsyncGenerator[None]:
    """Tell the progress of a call that is made in this block; all of it, before the block ends."""
    session = await runtime.service.get_session(OneSession(session_id=seat.session_id), seat.who)
    reader = runtime.service.follow(seat.session_id, session.last_seq)
    telling = asyncio.ensure_future(_tell(reader, ctx, call_id))
    try:
        yield
        reader.close()
        await telling
    finally:
        reader.close()
        telling.cancel()


async def _tell(reader: Reader, ctx: ServerRequestContext[Any, Any], call_id: str) -> None:
    told = float("-inf")
    async for event in reader:
        if event.kind != ToolProgress.kind or event.data["call_id"] != call_id:
            continue
        data = event.data
        # The protocol wants numbers that grow.
        if data["current"] > told:
            told = data["current"]
            await ctx.session.report_progress(told, data["total"], data["message"])

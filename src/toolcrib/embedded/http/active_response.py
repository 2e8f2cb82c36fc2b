"""A response in the making on an HTTP connection: the client that disconnects cancels it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, TypeVar

from starlette.requests import Request

if TYPE_CHECKING:
    from toolcrib.embedded.responses.writer import ActiveResponse

T = TypeVar("T")


async def until_finished(request: Request, active: ActiveResponse) -> None:
    """Wait until a response is complete. A client that disconnects cancels it."""
    leaving = asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait([active.task, leaving], return_when=asyncio.FIRST_COMPLETED)
    finally:
        leaving.cancel()
        await active.stop()


async def until_left(active: ActiveResponse, events: AsyncIterator[T]) -> AsyncIterator[T]:
    """Pass on the events of a response. A reader that ends early cancels it."""
    try:
        async for event in events:
            yield event
    finally:
        await active.stop()


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass

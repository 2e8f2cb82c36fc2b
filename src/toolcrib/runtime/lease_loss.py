"""How a runtime learns that it cannot count on the lease of a live session any more."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolcrib.runtime.live_session import LiveSession

logger = logging.getLogger(__name__)

_tasks: set[asyncio.Future[Any]] = set()
"""Nobody awaits them, and the loop alone would not keep them."""


def when_lost(live: LiveSession, lose: Callable[[LiveSession], Awaitable[None]]) -> None:
    """Have `lose(live)` run in this loop once the lease of the session is lost. A store in memory
    loses none.
    """
    session, loop = live.session, asyncio.get_running_loop()
    if not session.store.is_durable:
        return

    def start() -> None:
        logger.error("the lease of session %s was lost; it is closed here", session.session_id)
        task = asyncio.ensure_future(lose(live))
        _tasks.add(task)
        task.add_done_callback(_tasks.discard)

    def tell() -> None:
        # A loop that is closed runs nothing any more.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(start)

    session.store.watch_lease(session.lease, tell)

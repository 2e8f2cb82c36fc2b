"""`/healthz` and `/readyz`: whether a process lives, and whether it can do its work.

Both answer anybody, before authentication and without detail: load balancers have no token, and
send whatever `Host` they like.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from toolcrib.serving.refusals import send_bytes
from toolcrib.store.store import KeyClaim, ask_store

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from toolcrib.store.store import Store

_log = logging.getLogger(__name__)

LIVE_PATH: Final = "/healthz"
READY_PATH: Final = "/readyz"
HEALTH_PATHS: Final = frozenset((LIVE_PATH, READY_PATH))
KEEP_SECONDS: Final = 2.0
"""How long the answer of a store holds: strangers cannot have it written to more often."""
PATIENCE_SECONDS: Final = 5.0
"""How long a store may take to be written to."""

PLAIN_TEXT: Final = "text/plain; charset=utf-8"


class Readiness:
    """Whether a server can do its work: it is up, and its store can be written to.

    The store is written to when somebody asks, at most once in `KEEP_SECONDS`.
    """

    def __init__(
        self,
        is_up: Callable[[], bool],
        store: Store | None = None,
        *,
        elapsed: Callable[[], float] = time.monotonic,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        self._is_up = is_up
        self._store = store
        self._elapsed = elapsed
        self._patience = patience
        self._probe: asyncio.Task[bool] | None = None
        self._probed_at: float | None = None
        self._is_writable = True
        self.write_seconds = 0.0
        """How long the last write of a probe took."""

    async def check(self) -> bool:
        """Whether requests will be answered."""
        if not self._is_up():
            return False
        if self._store is None or not self._store.is_durable:
            return True
        if self._probe is None and self._is_fresh():
            return self._is_writable
        if self._probe is None:
            self._probe = asyncio.create_task(self._write(self._store))
        # A probe that hangs is waited for by the next request too; no second one is started.
        done, _ = await asyncio.wait([self._probe], timeout=self._patience)
        if not done:
            return False
        self._probe = None
        return self._is_writable

    def _is_fresh(self) -> bool:
        return self._probed_at is not None and self._elapsed() < self._probed_at + KEEP_SECONDS

    async def _write(self, store: Store) -> bool:
        started = self._elapsed()
        try:
            await ask_store(store, _claim_and_release, store)
        except Exception as error:
            if self._is_writable:
                _log.error("not ready: the store cannot be written to: %s", error)
            self._is_writable = False
        else:
            if not self._is_writable:
                _log.info("ready again: the store can be written to")
            self._is_writable = True
        self._probed_at = self._elapsed()
        self.write_seconds = self._probed_at - started
        return self._is_writable


def _claim_and_release(store: Store) -> None:
    """Write a row and delete it again, which needs the lock, the disk and the writer."""
    key = os.urandom(8).hex()
    claim = KeyClaim("", "readyz", key, "", "", time.time())
    store.claim_key(claim)
    store.release_key(claim)


class HealthMiddleware:
    """ASGI middleware that answers the health checks and passes on everything else."""

    def __init__(self, app: ASGIApp, *, is_ready: Callable[[], Awaitable[bool]]) -> None:
        self._app = app
        self._is_ready = is_ready

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        is_check = scope["type"] == "http" and scope["path"] in HEALTH_PATHS
        if not is_check or scope["method"] not in ("GET", "HEAD"):
            await self._app(scope, receive, send)
            return
        is_well = scope["path"] == LIVE_PATH or await self._is_ready()
        # Uvicorn leaves the body of an answer to HEAD out.
        if is_well:
            await send_bytes(send, 200, b"ok\n", PLAIN_TEXT)
        else:
            await send_bytes(send, 503, b"not ready\n", PLAIN_TEXT)

"""A document that the servers on a shared store have in common, such as its tokens.

Every server has it in memory, so that a login asks no database. It looks again when another one
says that it has changed, and every second; a server that cannot look for half a minute says so.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeVar

from toolcrib.errors import StoreError
from toolcrib.store.shared_store import Hint, SharedValue

if TYPE_CHECKING:
    from toolcrib.store.shared_store import SharedStore

_log = logging.getLogger(__name__)

T = TypeVar("T")

LOOK_SECONDS: Final = 1.0
"""How often a server looks, whether or not it was told of a change."""
STALE_SECONDS: Final = 30.0
"""A server that could not look for so long does not go by what it knew."""


class SharedDocument:
    """One shared value, as it was when this server looked last."""

    def __init__(
        self,
        store: SharedStore,
        name: str,
        *,
        elapsed: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self.name = name
        self._elapsed = elapsed
        self._lock = threading.Lock()
        self._content: tuple[int, bytes] = (0, b"")
        self._looked_at = float("-inf")
        self._noted_at = float("-inf")
        self._task: asyncio.Task[None] | None = None

    @property
    def content(self) -> tuple[int, bytes]:
        """The version and the body; version 0 before somebody has written it."""
        return self._content

    @property
    def is_stale(self) -> bool:
        """Whether nobody knows here how it is now."""
        return self._elapsed() - self._looked_at > STALE_SECONDS

    def load(self) -> None:
        """Look now. Raises `StoreError`. May wait for the database."""
        began = self._elapsed()
        value = self._store.value(self.name)
        self._note(value, began)

    def change(self, edit: Callable[[bytes], tuple[bytes, T]]) -> T:
        """Replace the body by what `edit` makes of it: again when another server was faster, so
        that no change is lost. Raises `StoreError`. May wait for the database.
        """
        while True:
            began = self._elapsed()
            value = self._store.value(self.name)
            body, result = edit(b"" if value is None else value.body)
            version = 0 if value is None else value.version
            later = SharedValue(self.name, body, version + 1)
            if self._store.put_value(later, after=None if value is None else version):
                self._note(later, began)
                self._store.hint(Hint("value", self.name))
                return result

    def start(self) -> None:
        """Look again and again, until `close`."""
        self._task = asyncio.ensure_future(self._follow())

    async def close(self) -> None:
        """Stop looking."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _follow(self) -> None:
        loop, is_hinted, failed = asyncio.get_running_loop(), asyncio.Event(), False

        def hear(hint: Hint) -> None:
            if hint.topic == "value" and hint.subject == self.name:
                with suppress(RuntimeError):
                    loop.call_soon_threadsafe(is_hinted.set)

        unhear = self._store.on_hint(hear)
        try:
            while True:
                with suppress(TimeoutError):
                    await asyncio.wait_for(is_hinted.wait(), LOOK_SECONDS)
                is_hinted.clear()
                try:
                    await asyncio.to_thread(self.load)
                    failed = False
                except StoreError as error:
                    if not failed:
                        _log.error(
                            "the %s cannot be read; the last ones stay: %s", self.name, error
                        )
                    failed = True
        finally:
            unhear()

    def _note(self, value: SharedValue | None, began: float) -> None:
        seen = (0, b"") if value is None else (value.version, value.body)
        with self._lock:
            # Of looks that overlap, the one that began last may still have read the older version:
            # a change that this server has just made must not be forgotten for it.
            if began >= self._noted_at or seen[0] > self._content[0]:
                self._content, self._noted_at = seen, self._elapsed()
            self._looked_at = max(self._looked_at, began)

"""Operations that are done once, however often they are asked for."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, TypeVar, cast

from pydantic_core import to_json

from toolcrib.errors import Refused

T = TypeVar("T")

MAX_KEY_CHARS = 255


@dataclass(frozen=True, slots=True)
class _Done:
    digest: str
    at: float
    work: asyncio.Future[Any]


class Once:
    """Remembers what was answered under a key, for `seconds` and for at most `limit` keys."""

    def __init__(
        self, clock: Callable[[], float], *, seconds: float = 86_400, limit: int = 10_000
    ) -> None:
        self._clock = clock
        self._seconds = seconds
        self._limit = limit
        self._done: OrderedDict[tuple[str, str, str], _Done] = OrderedDict()

    async def do(
        self,
        who: str,
        operation: str,
        key: str | None,
        params: object,
        work: Callable[[], Awaitable[T]],
    ) -> T:
        """Do the work, or give the answer it had. The same key with other parameters is refused.

        Who asks again while it is being done waits for the same answer. What was refused is not
        remembered: it may well go next time.
        """
        if key is None:
            return await work()
        if not 0 < len(key) <= MAX_KEY_CHARS:
            raise Refused("invalid", f"an idempotency key has 1 to {MAX_KEY_CHARS} characters")
        self._forget_old()
        digest = sha256(to_json(params)).hexdigest()
        place = (who, operation, key)
        known = self._done.get(place)
        if known is None:
            future: asyncio.Future[Any] = asyncio.ensure_future(work())
            known = self._done[place] = _Done(digest, self._clock(), future)
            future.add_done_callback(lambda done: self._forget_failed(place, done))
        elif known.digest != digest:
            raise Refused(
                "conflict",
                f"the idempotency key {key[:80]!r} was used with other parameters; take a new one",
            )
        # Who stops waiting does not stop the work: that is what the key is for.
        return cast("T", await asyncio.shield(known.work))

    def _forget_failed(self, place: tuple[str, str, str], done: asyncio.Future[Any]) -> None:
        if done.cancelled() or done.exception() is not None:
            self._done.pop(place, None)

    def _forget_old(self) -> None:
        ends = self._clock() - self._seconds
        for place, oldest in list(self._done.items()):
            if oldest.at > ends and len(self._done) < self._limit:
                return
            # What is being done is never forgotten, or it could be done twice at once.
            if oldest.work.done():
                del self._done[place]

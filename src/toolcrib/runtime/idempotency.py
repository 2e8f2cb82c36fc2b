"""Operations that are done once, however often they are asked for.

Calls under an idempotency key: found again in the ledger, also in another process.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from pydantic_core import to_json

from toolcrib.errors import Refused
from toolcrib.ledger.events import ToolInvoked
from toolcrib.ledger.record import events
from toolcrib.runtime.messages import CallResult, CallTool
from toolcrib.store.store import ask_store

if TYPE_CHECKING:
    from toolcrib.session.session import Session


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


_PREFIX: Final = "key_"


def named(asked: CallTool, who: str) -> CallTool:
    """The call with an id that says under which key it was asked, by whom, and what for: the same
    request has the same id wherever it is made.
    """
    place = [asked.session_id, who, asked.idempotency_key]
    return replace(
        asked, call_id=f"{_PREFIX}{_short(place)}_{_short([asked.name, asked.arguments])}"
    )


class KeyedCalls:
    """The calls under keys that earlier processes ended in one session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._ended: dict[str, ToolInvoked] | None = None

    async def answer(self, asked: CallTool) -> CallResult | None:
        """What came of a call that has its name by its key; None when it has not ended yet. Raises
        `Refused` (conflict) when the key was used for another call.
        """
        if self._session.lease.fence == 1:
            # Nobody wrote the session before, and what was asked here is remembered here.
            return None
        if self._ended is None:
            self._ended = await ask_store(self._session.store, self._read)
        place, _, _ = (asked.call_id or "").rpartition("_")
        ended = self._ended.get(place)
        if ended is None:
            return None
        if ended.call_id != asked.call_id:
            key = (asked.idempotency_key or "")[:80]
            raise Refused(
                "conflict",
                f"the idempotency key {key!r} was used with other parameters; take a new one",
            )
        return _result(ended)

    def _read(self) -> dict[str, ToolInvoked]:
        """By the part of the id that stands for the key alone."""
        found: dict[str, ToolInvoked] = {}
        for event in events(self._session.records(kinds=(ToolInvoked.kind,))):
            if isinstance(event, ToolInvoked) and event.call_id.startswith(_PREFIX):
                place, _, what = event.call_id.rpartition("_")
                if place and what:
                    found[place] = event
        return found


def _result(ended: ToolInvoked) -> CallResult:
    return CallResult(
        call_id=ended.call_id,
        tool=ended.name,
        status="completed" if ended.success else "failed",
        text=ended.message,
        value=ended.value,
        failure=ended.failure,
        artifact_id=ended.artifact_id,
    )


def _short(facts: object) -> str:
    return sha256(to_json(facts)).hexdigest()[:24]

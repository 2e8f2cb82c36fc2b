"""Idempotency keys: an operation that is requested twice under one key runs once.

`IdempotencyKeys` shares one run between all requests with the same key. The key of `tools.call` is
also part of the call id, so the ledger has it: `KeyedCallRecords` finds the result there after a
restart, and a call that was interrupted or waits for approval is taken up under the same id.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, cast

from pydantic_core import to_json

from toolcrib.errors import Refused
from toolcrib.ledger.events import ToolInvoked
from toolcrib.ledger.record import events
from toolcrib.runtime.messages import CallResult, CallTool
from toolcrib.store.store import ask_store

if TYPE_CHECKING:
    from toolcrib.session.session import Session


T = TypeVar("T")

MAX_KEY_CHARS: Final = 255
_CALL_ID_PREFIX: Final = "key_"


class _KeyScope(NamedTuple):
    """What a key is unique in: two principals may use the same one."""

    principal: str
    operation: str
    key: str


@dataclass(frozen=True, slots=True)
class _KeyedRun:
    params_digest: str
    started_at: float
    result: asyncio.Future[Any]


class IdempotencyKeys:
    """The keyed operations of a runtime, remembered for `seconds` and at most `limit` keys."""

    def __init__(
        self, clock: Callable[[], float], *, seconds: float = 86_400, limit: int = 10_000
    ) -> None:
        self._clock = clock
        self._seconds = seconds
        self._limit = limit
        self._runs: OrderedDict[_KeyScope, _KeyedRun] = OrderedDict()

    async def run(
        self,
        principal: str,
        operation: str,
        key: str | None,
        params: object,
        work: Callable[[], Awaitable[T]],
    ) -> T:
        """Run `work`, or return the result it had under the same key. Without a key it always runs.

        Raises `Refused` (conflict) when the key was used with other parameters. Requests that come
        while the work runs wait for the same result. A failure is not remembered: the request may
        succeed next time.
        """
        if key is None:
            return await work()
        if not 0 < len(key) <= MAX_KEY_CHARS:
            raise Refused("invalid", f"an idempotency key has 1 to {MAX_KEY_CHARS} characters")
        self._forget_old()
        digest = sha256(to_json(params)).hexdigest()
        scope = _KeyScope(principal, operation, key)
        run = self._runs.get(scope)
        if run is None:
            result: asyncio.Future[Any] = asyncio.ensure_future(work())
            run = self._runs[scope] = _KeyedRun(digest, self._clock(), result)
            result.add_done_callback(lambda done: self._forget_failed(scope, done))
        elif run.params_digest != digest:
            raise _key_conflict(key)
        # Cancelling the wait does not cancel the work: that is what the key is for.
        return cast("T", await asyncio.shield(run.result))

    def _forget_failed(self, scope: _KeyScope, done: asyncio.Future[Any]) -> None:
        if done.cancelled() or done.exception() is not None:
            self._runs.pop(scope, None)

    def _forget_old(self) -> None:
        oldest_kept = self._clock() - self._seconds
        for scope, run in list(self._runs.items()):
            if run.started_at > oldest_kept and len(self._runs) < self._limit:
                return
            # A run that goes on is never forgotten, or it could be started twice at once.
            if run.result.done():
                del self._runs[scope]


def with_keyed_call_id(params: CallTool, principal: str) -> CallTool:
    """The call under an id that is made of its idempotency key, the principal, the tool and the
    arguments: the same request has the same call id in every process.
    """
    if params.idempotency_key is None or params.call_id is not None:
        return params
    key_part = _short_digest([params.session_id, principal, params.idempotency_key])
    call_part = _short_digest([params.name, params.arguments])
    return replace(params, call_id=f"{_CALL_ID_PREFIX}{key_part}_{call_part}")


class KeyedCallRecords:
    """The results of keyed calls in the ledger of one session, from earlier processes."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._by_key: dict[str, ToolInvoked] | None = None

    async def find(self, params: CallTool) -> CallResult | None:
        """The result of a call with a keyed id; None when the call has not ended. Raises `Refused`
        (conflict) when the key was used for another call.
        """
        if params.idempotency_key is None or not _is_keyed(params.call_id):
            return None
        if self._session.lease.fence == 1:
            # No process has written this session before, and this one remembers its keys.
            return None
        if self._by_key is None:
            self._by_key = await ask_store(self._session.store, self._read)
        key_part, _, _ = (params.call_id or "").rpartition("_")
        invoked = self._by_key.get(key_part)
        if invoked is None:
            return None
        if invoked.call_id != params.call_id:
            raise _key_conflict(params.idempotency_key)
        return _result(invoked)

    def _read(self) -> dict[str, ToolInvoked]:
        """The ended calls by the part of their id that stands for the key."""
        by_key: dict[str, ToolInvoked] = {}
        for event in events(self._session.records()):
            if isinstance(event, ToolInvoked) and _is_keyed(event.call_id):
                key_part, _, call_part = event.call_id.rpartition("_")
                if key_part and call_part:
                    by_key[key_part] = event
        return by_key


def _is_keyed(call_id: str | None) -> bool:
    return call_id is not None and call_id.startswith(_CALL_ID_PREFIX)


def _result(invoked: ToolInvoked) -> CallResult:
    return CallResult(
        call_id=invoked.call_id,
        tool=invoked.name,
        status="completed" if invoked.success else "failed",
        text=invoked.message,
        value=invoked.value,
        failure=invoked.failure,
        artifact_id=invoked.artifact_id,
    )


def _key_conflict(key: str) -> Refused:
    return Refused(
        "conflict",
        f"the idempotency key {key[:80]!r} was used with other parameters; use a new key",
    )


def _short_digest(facts: object) -> str:
    return sha256(to_json(facts)).hexdigest()[:24]

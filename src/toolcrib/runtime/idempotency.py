"""Idempotency keys: an operation that is requested twice under one key is done once.

Requests that come while the work runs share it. What was done is in the store, and goes with its
session: the key of `tools.call` is the id of the call, and every other key is claimed before the
work begins and settled when it ends. A request under a settled key, in whatever process, gets the
result again; one under a key whose work was cut off goes on with it. On a store that several
replicas share, a claim names the replica that does the work: the others wait for its outcome, and
one of them goes on with it once that replica is gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from pydantic_core import to_json

from toolcrib.errors import Refused
from toolcrib.store.shared_store import is_shared
from toolcrib.store.store import KeyClaim, ask_store

if TYPE_CHECKING:
    from toolcrib.clock import Clock
    from toolcrib.runtime.messages import CallTool, CreateSession
    from toolcrib.store.store import Store


T = TypeVar("T")

MAX_KEY_CHARS: Final = 255
LOOK_SECONDS: Final = 0.2
"""How often a replica looks whether another one has done what both were asked for."""


@dataclass(frozen=True, slots=True)
class KeyScope:
    """What a key is unique in: two principals may use the same one, also for two operations."""

    principal: str
    operation: str
    key: str


@dataclass(frozen=True, slots=True)
class _KeyedRun:
    params_digest: str
    result: asyncio.Future[Any]


class IdempotencyKeys:
    """The keyed operations of a runtime."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._runs: dict[KeyScope, _KeyedRun] = {}
        self._holder = store.replica_id if is_shared(store) else None

    @property
    def running(self) -> int:
        """How many runs are under way."""
        return len(self._runs)

    async def share(
        self,
        principal: str,
        operation: str,
        key: str,
        params: object,
        work: Callable[[str], Awaitable[T]],
    ) -> T:
        """Run `work` (of the digest of `params`), or wait for the run that is under way under this
        key. Raises `Refused` (conflict) when that run has other parameters.
        """
        digest = sha256(to_json(params)).hexdigest()
        if not 0 < len(key) <= MAX_KEY_CHARS:
            raise Refused("invalid", f"an idempotency key has 1 to {MAX_KEY_CHARS} characters")
        scope = KeyScope(principal, operation, key)
        run = self._runs.get(scope)
        if run is None:
            result: asyncio.Future[Any] = asyncio.ensure_future(work(digest))
            run = self._runs[scope] = _KeyedRun(digest, result)
            result.add_done_callback(lambda _: self._runs.pop(scope, None))
        elif run.params_digest != digest:
            raise key_conflict(key)
        # Cancelling the wait does not cancel the work: that is what the key is for.
        return cast("T", await asyncio.shield(run.result))

    async def run(
        self,
        scope: tuple[str, str, str | None],
        params: object,
        work: Callable[[], Awaitable[T]],
        repeat: Callable[[KeyClaim], Awaitable[T]],
        *,
        session_id: str,
        after_turn: int = 0,
        outcome: Callable[[T], bytes] = lambda _: b"",
    ) -> T:
        """Do `work` under the key of `scope` (principal, operation, key) as `share` does, once for
        as long as the session lives. When it was begun before, `repeat` says what came of it.
        Without a key the work is always done.

        A refusal is not remembered: the request may succeed next time.
        """
        principal, operation, key = scope
        if key is None:
            return await work()

        async def once(digest: str) -> T:
            claim = KeyClaim(
                principal,
                operation,
                key,
                digest,
                session_id,
                self._clock(),
                after_turn,
                holder=self._holder,
            )
            earlier = await ask_store(self._store, self._store.claim_key, claim)
            while earlier is not None and self._runs_elsewhere(earlier, digest):
                await asyncio.sleep(LOOK_SECONDS)
                earlier = await ask_store(self._store, self._store.claim_key, claim)
            if earlier is None:
                return await self._settled(claim, work(), outcome)
            if earlier.params_digest != digest:
                raise key_conflict(key)
            return await self._settled(earlier, repeat(earlier), outcome)

        return await self.share(principal, operation, key, params, once)

    def _runs_elsewhere(self, claim: KeyClaim, digest: str) -> bool:
        is_held = claim.holder is not None and claim.holder != self._holder
        return is_held and claim.outcome is None and claim.params_digest == digest

    async def _settled(
        self, claim: KeyClaim, work: Awaitable[T], outcome: Callable[[T], bytes]
    ) -> T:
        try:
            result = await work
        except Refused:
            if claim.outcome is None:
                await ask_store(self._store, self._store.release_key, claim)
            raise
        except Exception:
            if claim.holder is not None:
                # What was begun stays begun; whoever asks next, here or elsewhere, goes on with it.
                await ask_store(self._store, self._store.settle_key, claim)
            raise
        settled = replace(claim, outcome=outcome(result))
        if settled != claim:
            await ask_store(self._store, self._store.settle_key, settled)
        return result


def with_keyed_call_id(params: CallTool, principal: str) -> CallTool:
    """The call under an id that is made of its idempotency key: the same in every process."""
    if params.idempotency_key is None or params.call_id is not None:
        return params
    call_id = _short_digest([params.session_id, principal, params.idempotency_key])
    return replace(params, call_id=f"key_{call_id}")


def with_keyed_session_id(params: CreateSession, principal: str) -> CreateSession:
    """The session under an id that is made of its idempotency key, unless it has one."""
    if params.idempotency_key is None or params.session_id is not None:
        return params
    return replace(params, session_id=f"ses_{_short_digest([principal, params.idempotency_key])}")


def key_conflict(key: str) -> Refused:
    """The refusal of a key that was used for something else."""
    return Refused(
        "conflict",
        f"the idempotency key {key[:80]!r} was used with other parameters; use a new key",
    )


def about_key(refused: Refused, key: str) -> Refused:
    """The refusal of a call, in words of the key that its caller gave and not of its id."""
    if refused.kind != "conflict":
        return refused
    return Refused(
        "conflict",
        f"the idempotency key {key[:80]!r} cannot be used for this call: {refused}; use a new key",
    )


def _short_digest(facts: object) -> str:
    return sha256(to_json(facts)).hexdigest()[:32]

"""What one principal may take of a runtime at a time: calls, sessions, bytes."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from toolcrib.errors import Refused, UsageError

if TYPE_CHECKING:
    from toolcrib.runtime.principal import Principal

_DAY: Final = 86_400.0
_MAX_PRINCIPALS: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PrincipalLimits:
    """What each principal may take; None is no limit. Admins have none."""

    concurrent_calls: int | None = 200
    """Calls and prompts that run at once."""
    calls_per_minute: int | None = 12_000
    """Calls and prompts that begin, evenly: as many at once, and then as they are refilled."""
    open_sessions: int | None = 1_000
    """Sessions that are open in this process."""
    payload_bytes_per_day: int | None = 20_000_000_000
    """Bytes of requests that it sends over HTTP, sockets and stdio."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            limit = getattr(self, name)
            if limit is not None and limit < 1:
                raise UsageError(f"principal_limits: {name} must be 1 or more, or None")


NO_LIMITS: Final = PrincipalLimits(
    concurrent_calls=None, calls_per_minute=None, open_sessions=None, payload_bytes_per_day=None
)


class Quota:
    """What one principal has taken. Every check takes the same small time."""

    __slots__ = ("_bucket", "_bytes", "_clock", "_day", "_limits", "_refilled_at", "running")

    def __init__(self, limits: PrincipalLimits, clock: Callable[[], float]) -> None:
        self._limits = limits
        self._clock = clock
        self._refilled_at = self._day = clock()
        self._bucket = float(limits.calls_per_minute or 0)
        self._bytes = 0
        self.running = 0
        """Calls and prompts that run now."""

    def begin_call(self) -> None:
        """Count a call that begins; `end_call` when it is over. Raises `Refused`."""
        limits = self._limits
        if limits.concurrent_calls is not None and self.running >= limits.concurrent_calls:
            raise too_many(
                f"{self.running} calls of yours are running, the most at a time; wait for one", 1
            )
        if limits.calls_per_minute is not None:
            self._take_from_bucket(limits.calls_per_minute)
        self.running += 1

    def end_call(self) -> None:
        """Count a call that is over."""
        self.running -= 1

    def take_bytes(self, count: int) -> None:
        """Count the bytes of a request. Raises `Refused`."""
        most = self._limits.payload_bytes_per_day
        if most is None:
            return
        now = self._clock()
        if now - self._day >= _DAY:
            self._day, self._bytes = now, 0
        if self._bytes + count > most:
            raise too_many(
                f"your requests of a day have more than {most} bytes, the maximum",
                self._day + _DAY - now,
            )
        self._bytes += count

    def _take_from_bucket(self, per_minute: int) -> None:
        now = self._clock()
        refill = max(0.0, now - self._refilled_at) * per_minute / 60
        self._refilled_at = now
        self._bucket = min(float(per_minute), self._bucket + refill)
        if self._bucket < 1:
            raise too_many(
                f"more than {per_minute} calls a minute, the maximum; slow down",
                (1 - self._bucket) * 60 / per_minute,
            )
        self._bucket -= 1


class Quotas:
    """The quota of every principal that has limits."""

    def __init__(self, limits: PrincipalLimits, clock: Callable[[], float]) -> None:
        self.limits = limits
        self._clock = clock
        self._is_unlimited = limits == NO_LIMITS
        self._of: OrderedDict[str, Quota] = OrderedDict()

    def of(self, who: Principal) -> Quota | None:
        """The quota of a principal; None when it has no limits."""
        if self._is_unlimited or "admin" in who.roles:
            return None
        quota = self._of.get(who.name)
        if quota is None:
            quota = self._of[who.name] = Quota(self.limits, self._clock)
            if len(self._of) > _MAX_PRINCIPALS:
                self._forget_one()
        return quota

    @contextmanager
    def call(self, who: Principal) -> Generator[None]:
        """Count a call or prompt for as long as the block lasts. Raises `Refused`."""
        quota = self.of(who)
        if quota is None:
            yield
            return
        quota.begin_call()
        try:
            yield
        finally:
            quota.end_call()

    def take_bytes(self, who: Principal, count: int) -> None:
        """Count the bytes of a request. Raises `Refused` (too_many_requests)."""
        quota = self.of(who)
        if quota is not None:
            quota.take_bytes(count)

    def check_open(self, who: Principal, is_open: int) -> None:
        """Raise `Refused` when a principal with this many open sessions may open no other."""
        most = self.limits.open_sessions
        if most is not None and is_open >= most and "admin" not in who.roles:
            raise too_many(f"{is_open} sessions of yours are open, the maximum; close one", 1)

    def _forget_one(self) -> None:
        """Drop the oldest quota under which nothing runs: names may come from outside."""
        for name, quota in self._of.items():
            if not quota.running:
                del self._of[name]
                return


def too_many(message: str, retry_after: float) -> Refused:
    """The refusal of a principal that is over its limits."""
    return Refused(
        "too_many_requests", message, {"retry_after_seconds": max(1, math.ceil(retry_after))}
    )

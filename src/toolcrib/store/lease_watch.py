"""Whether a lease can still be counted on, by the clock of this process alone.

A fence keeps a process that lost its lease out of the ledger, but not out of the world: a handler
that runs on while another process has taken the session over may do what the other does, too. So a
process that could not renew in time gives its leases up before anybody may take them.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from toolcrib.clock import Clock
    from toolcrib.store.store import Lease

SURE_PART = 2 / 3
"""For how much of its time a lease that was renewed is counted on. The rest is for handlers to end
before another process may take it.
"""

_log = logging.getLogger("toolcrib.store")


class LeaseStore(Protocol):
    """What a process may know about its leases, and the time, without asking anybody."""

    @property
    def clock(self) -> Clock:
        """The time of day that its sessions go by: that of this machine, or of a database that
        machines share.
        """
        ...

    def is_sure(self, lease: Lease) -> bool:
        """True while no other process can have taken the lease. Asks neither a disk nor a network;
        a handler is not started without it.
        """
        ...

    def watch_lease(self, lease: Lease, on_lost: Callable[[], None]) -> Callable[[], None]:
        """Call `on_lost` once, in a thread of the store, when the lease cannot be counted on any
        more; at once when that is so already. A lease that is released is not lost. Returns the
        function that ends the watch.
        """
        ...

    def is_gone(self, holder: str) -> bool:
        """True only when the process that a lease names as its holder certainly runs no more."""
        ...


def seconds_since_boot() -> float:
    """A clock that nobody sets and that also runs while the machine sleeps, where there is one."""
    return time.clock_gettime(_CLOCK)


_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class LeaseWatch:
    """The leases of a store that renews all of them together.

    `clock` is one that nobody sets. With `patience_seconds`, leases whose time is over are lost
    only when no renewal follows within so long: a store in which a process that stood still finds
    out by renewing whether anybody took its leases.
    """

    def __init__(
        self,
        lease_seconds: float,
        *,
        patience_seconds: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.clock = clock
        self._sure_seconds = lease_seconds * SURE_PART
        self._patience_seconds = patience_seconds
        self._sure_until = 0.0
        self._fences: dict[str, int] = {}
        self._watchers: dict[tuple[str, int], list[Callable[[], None]]] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def is_sure(self, lease: Lease) -> bool:
        """See `LeaseStore`."""
        return self.holds(lease) and self.clock() < self._sure_until

    def watch(self, lease: Lease, on_lost: Callable[[], None]) -> Callable[[], None]:
        """See `LeaseStore`."""
        key = lease.session_id, lease.fence
        with self._changed:
            is_held = self.holds(lease)
            if is_held:
                self._watchers.setdefault(key, []).append(on_lost)
                self._start()
        if not is_held:
            _call(on_lost)

        def end() -> None:
            with self._changed:
                watchers = self._watchers.get(key, [])
                if on_lost in watchers:
                    watchers.remove(on_lost)
                if not watchers:
                    self._watchers.pop(key, None)

        return end

    def holds(self, lease: Lease) -> bool:
        """Whether the lease is neither lost nor given back. One that was lost stays so: the store
        renews it no more, and lets others have it.
        """
        return self._fences.get(lease.session_id) == lease.fence

    def hold(self, lease: Lease, *, at: float | None = None) -> None:
        """The store got a lease. `at` is the time before it asked, when the lease was renewed with
        that; else it counts from the last renewal.
        """
        with self._changed:
            if at is not None and not self._fences:
                self._sure_until = at + self._sure_seconds
            self._fences[lease.session_id] = lease.fence

    def renew(self, at: float) -> None:
        """Every lease was renewed; `at` is the time before the store asked."""
        with self._changed:
            self._sure_until = max(self._sure_until, at + self._sure_seconds)
            self._changed.notify()

    def release(self, lease: Lease) -> None:
        """The lease was given back; nobody is told."""
        with self._changed:
            self._forget(lease.session_id, lease.fence)

    def lose(self, lease: Lease) -> None:
        """Somebody else has the lease, or the session is gone."""
        with self._changed:
            watchers = self._forget(lease.session_id, lease.fence)
        for on_lost in watchers:
            _call(on_lost)

    def lose_all(self) -> None:
        """No lease can be counted on."""
        with self._changed:
            fences = list(self._fences.items())
            watchers = [each for session in fences for each in self._forget(*session)]
        for on_lost in watchers:
            _call(on_lost)

    def close(self) -> None:
        """Every lease was given back; nobody is told."""
        with self._changed:
            self._fences.clear()
            self._watchers.clear()
            self._changed.notify()

    def _forget(self, session_id: str, fence: int) -> list[Callable[[], None]]:
        if self._fences.get(session_id) == fence:
            del self._fences[session_id]
        return self._watchers.pop((session_id, fence), [])

    def _start(self) -> None:
        # Not the thread that renews: what keeps that from renewing must not keep this from telling.
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._main, name="toolcrib-lease-watch", daemon=True
            )
            self._thread.start()

    def _main(self) -> None:
        while True:
            with self._changed:
                if not self._watchers:
                    # The next watcher starts another thread.
                    self._thread = None
                    return
                left = self._sure_until - self.clock()
                if left > 0:
                    self._changed.wait(left)
                    continue
                before = self._sure_until
                if self._patience_seconds:
                    self._changed.wait_for(
                        lambda until=before: self._sure_until > until, self._patience_seconds
                    )
                if self._sure_until > before:
                    continue
                count = len(self._fences)
            if count:
                _log.error(
                    "%d leases could not be renewed in time; what runs under them is stopped here, "
                    "before another process takes them",
                    count,
                )
            self.lose_all()


def _call(on_lost: Callable[[], None]) -> None:
    try:
        on_lost()
    except Exception:
        _log.exception("whoever was told of a lost lease failed")

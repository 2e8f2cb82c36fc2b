"""The leases that this replica holds, and those that only the database still shows as its own."""

from __future__ import annotations

import threading
from collections.abc import Callable

from toolcrib.store.lease_watch import LeaseWatch, seconds_since_boot
from toolcrib.store.store import Lease


class HeldLeases:
    """Used by any thread."""

    def __init__(self, lease_seconds: float) -> None:
        self.watch = LeaseWatch(lease_seconds, clock=seconds_since_boot)
        self._lock = threading.Lock()
        self._leases: dict[str, Lease] = {}
        self._orphans: set[str] = set()

    def add(self, lease: Lease) -> None:
        """This replica has become the writer."""
        with self._lock:
            self._leases[lease.session_id] = lease
            self._orphans.discard(lease.session_id)
        self.watch.hold(lease)

    def remove(self, lease: Lease) -> None:
        """This replica has let go, on purpose: nobody is told."""
        self.watch.release(lease)
        self._forget(lease)

    def lose(self, lease: Lease) -> None:
        """Another replica has the session, or it is gone."""
        self._forget(lease)
        self.watch.lose(lease)

    def all(self) -> list[Lease]:
        """Every lease that somebody here counts on."""
        with self._lock:
            return [lease for lease in self._leases.values() if self.watch.holds(lease)]

    def is_held(self, session_id: str) -> bool:
        """Whether somebody here writes the session."""
        with self._lock:
            lease = self._leases.get(session_id)
        return lease is not None and self.watch.holds(lease)

    def abandon(self, session_id: str) -> None:
        """The database may show the session as this replica's though nobody here writes it: the
        answer to its acquisition, or its release, was lost.
        """
        with self._lock:
            self._orphans.add(session_id)

    def orphans(self) -> set[str]:
        """Sessions that were abandoned, or given up because no renewal came in time."""
        with self._lock:
            given_up = [each for each in self._leases.values() if not self.watch.holds(each)]
            for lease in given_up:
                del self._leases[lease.session_id]
                self._orphans.add(lease.session_id)
            return self._orphans - self._leases.keys()

    def settle(self, session_ids: set[str]) -> None:
        """These orphans are this replica's no more."""
        with self._lock:
            self._orphans -= session_ids

    def is_sure(self, lease: Lease) -> bool:
        """See `LeaseStore`."""
        return self.watch.is_sure(lease)

    def watch_lease(self, lease: Lease, on_lost: Callable[[], None]) -> Callable[[], None]:
        """See `LeaseStore`."""
        return self.watch.watch(lease, on_lost)

    def _forget(self, lease: Lease) -> None:
        with self._lock:
            if self._leases.get(lease.session_id) == lease:
                del self._leases[lease.session_id]

"""The leases that this replica holds, and those that only the database still shows as its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager

from toolcrib.store.lease_watch import LeaseWatch, seconds_since_boot
from toolcrib.store.store import Lease


class HeldLeases:
    """Used by any thread."""

    def __init__(self, lease_seconds: float) -> None:
        self.watch = LeaseWatch(lease_seconds, clock=seconds_since_boot)
        self._lock = threading.Lock()
        self._leases: dict[str, Lease] = {}
        self._orphans: dict[str, int | None] = {}
        """The fence that each was abandoned under; None when nobody here was told it."""
        self._takes_begun = 0
        self._takes_under_way = 0

    @contextmanager
    def taking(self) -> Generator[None]:
        """Around whatever may make this replica the writer of a session, until it is added here:
        so long a session of the database that nobody here holds need not be an orphan.
        """
        with self._lock:
            self._takes_begun += 1
            self._takes_under_way += 1
        try:
            yield
        finally:
            with self._lock:
                self._takes_under_way -= 1

    def add(self, lease: Lease) -> None:
        """This replica has become the writer."""
        with self._lock:
            known = self._leases.get(lease.session_id)
            # Answers may come in another order than the leases were given out.
            if known is not None and known.fence > lease.fence:
                return
            self._leases[lease.session_id] = lease
            self._orphans.pop(lease.session_id, None)
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

    def abandon(self, session_id: str, fence: int | None = None) -> None:
        """The database may show the session as this replica's though nobody here writes it: its
        release, or the answer to its acquisition, was lost. In the second case there is no fence.
        """
        with self._lock:
            self._orphans[session_id] = fence

    def orphans(self) -> set[str]:
        """Sessions that were abandoned, or given up because no renewal came in time."""
        with self._lock:
            self._give_up()
            return self._orphans.keys() - self._leases.keys()

    def orphan_fences(self) -> dict[str, int]:
        """The orphans whose fences are known. Under any other fence they are not orphans."""
        with self._lock:
            self._give_up()
            return {
                session_id: fence
                for session_id, fence in self._orphans.items()
                if fence is not None and session_id not in self._leases
            }

    def unknown_orphans(self) -> tuple[list[str], int] | None:
        """The orphans without a fence, and a mark for `name_orphans`; None while sessions are being
        taken, which look the same in the database.
        """
        with self._lock:
            unknown = [name for name, fence in self._orphans.items() if fence is None]
            return (unknown, self._takes_begun) if unknown and not self._takes_under_way else None

    def name_orphans(self, fences: Mapping[str, int | None], mark: int) -> None:
        """What the database says of orphans without a fence: None for one that is not this
        replica's. It counts only if nothing was taken since the mark.
        """
        with self._lock:
            if mark != self._takes_begun:
                return
            for session_id, fence in fences.items():
                if session_id not in self._orphans or self._orphans[session_id] is not None:
                    continue
                if fence is None:
                    del self._orphans[session_id]
                else:
                    self._orphans[session_id] = fence

    def settle(self, fences: Mapping[str, int]) -> None:
        """These orphans are this replica's no more."""
        with self._lock:
            for session_id, fence in fences.items():
                if self._orphans.get(session_id) == fence:
                    del self._orphans[session_id]

    def _give_up(self) -> None:
        for lease in [each for each in self._leases.values() if not self.watch.holds(each)]:
            del self._leases[lease.session_id]
            self._orphans[lease.session_id] = lease.fence

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

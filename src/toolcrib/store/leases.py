"""Leases: which process may write a session, as the sessions table has it.

The fence is the truth: it grows with every writer and every commit is checked against it. The
holder and the expiry only say when another process may become the writer. A holder that has
certainly died is not waited for.
"""

from __future__ import annotations

import os
import socket
import sqlite3
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from toolcrib.clock import Clock
from toolcrib.errors import LeaseHeld, LeaseLost, LedgerBroken, SessionNotFound
from toolcrib.ledger.record import GENESIS
from toolcrib.store.codec import encode_settings
from toolcrib.store.lease_watch import LeaseWatch
from toolcrib.store.store import Lease
from toolcrib.store.stored_text import check_new_id


@dataclass(frozen=True, slots=True)
class Holder:
    """A process, told apart from later ones of the same number.

    Process numbers mean something only within one `realm`: one boot of one machine and, in
    containers, one process namespace.
    """

    host: str
    realm: str
    pid: int
    started: str

    def __str__(self) -> str:
        return f"{self.host}/{self.realm}/{self.pid}/{self.started}"

    @classmethod
    def parse(cls, text: str) -> Holder | None:
        """Read what `str(holder)` wrote; None when it is something else."""
        match text.split("/"):
            case [host, realm, pid, started] if pid.isdecimal():
                return cls(host, realm, int(pid), started)
            case _:
                return None

    def describe(self) -> str:
        """For error messages."""
        return f"process {self.pid} on {self.host}"


def this_process() -> Holder:
    """The running process; a forked child gets its own."""
    return _process(os.getpid())


def is_gone(holder: Holder) -> bool:
    """True only when it is certain that the process no longer runs."""
    # A process number of another machine, boot or namespace says nothing about a process here.
    if holder.realm != this_process().realm:
        return False
    try:
        os.kill(holder.pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        # Another user's process has the number; the start time tells whether it is the holder.
        pass
    started = _started(holder.pid)
    return started is not None and started != holder.started


@lru_cache(maxsize=1)
def _process(pid: int) -> Holder:
    host = socket.gethostname().replace("/", "_")
    return Holder(host, _realm(), pid, _started(pid) or "")


def _realm() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        return f"{boot}:{os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return f"{uuid.getnode():x}"


def _started(pid: int) -> str | None:
    """When a process started, in its kernel's ticks; None where that cannot be read.

    A killed process stays in the table until its parent looks; it runs no more, so it gets a
    start time that no living process has.
    """
    stat = _stat(pid)
    if stat is None:
        return None
    state, started = stat
    return "ended" if state in ("Z", "X") else started


_STOPPED = frozenset("TtZX")
"""The states of processes that do nothing until somebody lets them, or ever."""


def _stat(pid: int) -> tuple[str, str] | None:
    """The state of a process and when it started; None where that cannot be read."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return None
    # The name in parentheses may itself hold spaces and parentheses.
    state, *rest = stat.rpartition(")")[2].split()
    return state, rest[18]


class Leases:
    """The leases this store holds. Used only by the store's writer thread, but for `watch`."""

    def __init__(self, clock: Clock, lease_seconds: float) -> None:
        self.clock = clock
        # A process that stood still finds out by renewing whether anybody took its leases, and
        # while a file is locked nobody takes them.
        self.watch = LeaseWatch(lease_seconds, patience_seconds=lease_seconds / 3)
        self._lease_seconds = lease_seconds
        self._leases: dict[str, Lease] = {}

    @property
    def has_any(self) -> bool:
        """True while there is a lease to renew."""
        return bool(self._leases)

    def acquire(
        self,
        connection: sqlite3.Connection,
        session_id: str,
        settings: dict[str, Any] | None,
        *,
        create: bool,
        owner: str | None = None,
    ) -> Lease:
        """Take the lease unless a live process has it; make the session if there is none."""
        at = self.watch.clock()
        if create:
            check_new_id("session", session_id)
        row = connection.execute(
            "SELECT fence, holder, expires_at, head_seq, head_hash FROM sessions"
            " WHERE session_id = ?",
            (session_id,),
        ).fetchone()
        if row is None and not create:
            raise SessionNotFound(f"there is no session {session_id!r}")
        if row is None:
            lease = self._create(connection, session_id, settings or {}, owner)
        else:
            fence, holder, expires_at, seq, digest = row
            check_free(session_id, holder, expires_at, self.clock())
            _check_end(connection, session_id, seq, digest)
            # The fence grows in the same transaction, so a writer that was only slow finds its
            # next commit refused.
            lease = self._take_over(connection, session_id, fence + 1)
        self._leases[session_id] = lease
        self.watch.hold(lease, at=at)
        return lease

    def release(self, connection: sqlite3.Connection, lease: Lease) -> None:
        """Let go of the lease; nothing happens when it is void."""
        connection.execute(
            "UPDATE sessions SET holder = NULL, expires_at = 0 WHERE session_id = ? AND fence = ?",
            (lease.session_id, lease.fence),
        )
        if self._leases.get(lease.session_id) == lease:
            del self._leases[lease.session_id]
        self.watch.release(lease)

    def release_all(self, connection: sqlite3.Connection) -> None:
        """Let go of everything, when the store closes."""
        for lease in list(self._leases.values()):
            self.release(connection, lease)

    def renew(self, connection: sqlite3.Connection) -> list[Lease]:
        """Push the expiry of every lease that is still held; returns those that are not."""
        lost_leases: list[Lease] = []
        for lease in list(self._leases.values()):
            if not self.watch.holds(lease):
                # What ran under it was stopped; whoever wants the session may have it.
                self.release(connection, lease)
                continue
            renewed = connection.execute(
                "UPDATE sessions SET expires_at = ? WHERE session_id = ? AND fence = ?",
                (self._expiry(), lease.session_id, lease.fence),
            ).rowcount
            # Another writer raised the fence, or the session is gone: nothing is left to renew.
            if not renewed:
                del self._leases[lease.session_id]
                lost_leases.append(lease)
        return lost_leases

    def _create(
        self,
        connection: sqlite3.Connection,
        session_id: str,
        settings: dict[str, Any],
        owner: str | None,
    ) -> Lease:
        # Above the fence of every deleted session, so that no lease on one of them is honoured.
        (floor,) = connection.execute("SELECT fence FROM fence_floor").fetchone()
        lease = Lease(session_id, str(this_process()), floor + 1)
        connection.execute(
            "INSERT INTO sessions (session_id, created_at, settings, head_seq, head_hash, fence,"
            " holder, expires_at, owner) VALUES (?, ?, ?, 0, ?, ?, ?, ?, ?)",
            (
                session_id,
                self.clock(),
                encode_settings(settings),
                GENESIS,
                lease.fence,
                lease.holder,
                self._expiry(),
                owner,
            ),
        )
        return lease

    def _take_over(self, connection: sqlite3.Connection, session_id: str, fence: int) -> Lease:
        lease = Lease(session_id, str(this_process()), fence)
        connection.execute(
            "UPDATE sessions SET fence = ?, holder = ?, expires_at = ? WHERE session_id = ?",
            (fence, lease.holder, self._expiry(), session_id),
        )
        return lease

    def _expiry(self) -> float:
        return self.clock() + self._lease_seconds


def is_held(holder: str | None, expires_at: float, now: float) -> bool:
    """True while a process that may be alive holds the lease.

    A process of this machine that runs keeps its lease, whatever the clock says: a clock that was
    set ahead takes it from nobody. One that stands still loses it when it expires.
    """
    if holder is None:
        return False
    process = Holder.parse(holder)
    # A holder that cannot be read may be alive; only the expiry frees its lease.
    if process is None:
        return expires_at > now
    if is_gone(process):
        return False
    return expires_at > now or _is_at_work(process)


def _is_at_work(holder: Holder) -> bool:
    """True only when it is certain that another process of this machine runs and is not stopped."""
    me = this_process()
    if holder.realm != me.realm or holder == me:
        return False
    stat = _stat(holder.pid)
    return stat is not None and stat[0] not in _STOPPED and stat[1] == holder.started


def check_free(session_id: str, holder: str | None, expires_at: float, now: float) -> None:
    """Raise `LeaseHeld`, saying by whom and until when, unless the lease can be taken."""
    if not is_held(holder, expires_at, now):
        return
    process = Holder.parse(holder or "")
    if process == this_process():
        raise LeaseHeld(f"session {session_id!r} is already open in this process; close it first")
    if expires_at <= now:
        raise LeaseHeld(
            f"session {session_id!r} is written by {process.describe() if process else holder}, "
            "which runs; close the session there first"
        )
    until = datetime.fromtimestamp(expires_at, UTC).isoformat(timespec="seconds")
    raise LeaseHeld(
        f"session {session_id!r} is written by {process.describe() if process else holder}, "
        f"whose lease runs until {until} unless it is renewed; close the session there first"
    )


def check_lease(connection: sqlite3.Connection, lease: Lease) -> None:
    """Raise `LeaseLost` unless this lease is the newest and not released."""
    row = connection.execute(
        "SELECT 1 FROM sessions WHERE session_id = ? AND fence = ? AND holder IS NOT NULL",
        (lease.session_id, lease.fence),
    ).fetchone()
    if row is None:
        raise lost(lease)


def lost(lease: Lease) -> LeaseLost:
    """The error for a void lease."""
    return LeaseLost(
        f"session {lease.session_id!r} is no longer written by this process: the lease was "
        "released or another process took it over; open the session again"
    )


def _check_end(connection: sqlite3.Connection, session_id: str, seq: int, digest: str) -> None:
    """The last record must be the one the session's row names, or something was cut off."""
    row = connection.execute(
        "SELECT seq, hash FROM records WHERE session_id = ? ORDER BY seq DESC LIMIT 1",
        (session_id,),
    ).fetchone()
    if (row or (0, GENESIS)) != (seq, digest):
        raise LedgerBroken(
            f"the ledger of session {session_id!r} should end at record {seq} but does not; "
            "run `toolcrib audit verify`",
            seq=seq,
        )

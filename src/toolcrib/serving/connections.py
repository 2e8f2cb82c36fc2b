"""Limits of a listener before anybody has authenticated: how many connections there may be, how
large and how slow a request, and how much may wait to be read.

A connection is a stranger's until one of its requests has been authenticated. Strangers who stay
get at most half of the room, and the one that has been there longest makes room for the next. Where
there are no strangers, a principal that has more than half of the room makes room.
"""

from __future__ import annotations

import logging
import resource
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, Final, Protocol

from toolcrib.errors import UsageError

if TYPE_CHECKING:
    from toolcrib.runtime.principal import Principal

_log = logging.getLogger(__name__)

CUT: Final = "toolcrib.cut"
"""Where the scope of a WebSocket has the function that ends its connection at once."""

_MOST_CONNECTIONS: Final = 10_000
_RESERVED_DESCRIPTORS: Final = 64
_FEWEST_CONNECTIONS: Final = 16
_GRACE_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerLimits:
    """What one client may take of a server. The times are in seconds."""

    header_bytes: int = 65_536
    header_count: int = 128
    header_seconds: float = 10.0
    """How long the headers of a request may take, and the TLS handshake before them."""
    body_seconds: float = 30.0
    """How long a body or a WebSocket message may take, beyond the time of its bytes at the slowest
    rate."""
    body_bytes_per_second: int = 1_024
    """The slowest rate of a body."""
    keep_alive_seconds: int = 5
    """How long a connection may be idle between two requests."""
    stall_seconds: float = 30.0
    """How long a client may stop reading."""
    unsent_bytes: int = 32_000_000
    """How much may wait for one client to read it."""
    unsent_bytes_in_all: int = 256_000_000
    """How much for all clients; what has come of unfinished WebSocket messages counts too."""
    connections: int | None = None
    """How many connections there may be; None takes what the limit on open files leaves."""
    connections_per_peer: int = 512
    """How many of them from one address, or one IPv6 network of 64 bits. Loopback has no such
    limit: proxies and all local clients share it."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and value <= 0:
                raise UsageError(f"{field.name} of a listener must be more than 0")

    @property
    def capacity(self) -> int:
        """How many connections there may be in this process."""
        if self.connections is not None:
            return self.connections
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft == resource.RLIM_INFINITY:
            return _MOST_CONNECTIONS
        reserved = max(_RESERVED_DESCRIPTORS, soft // 10)
        return max(_FEWEST_CONNECTIONS, min(soft - reserved, _MOST_CONNECTIONS))


class Guarded(Protocol):
    """The protocol of a connection, as the table needs it."""

    @property
    def principal(self) -> Principal | None:
        """The principal of its last authenticated request; None is a stranger."""
        ...

    @property
    def unsent_bytes(self) -> int:
        """How much waits to be read by the client."""
        ...

    @property
    def unfinished_bytes(self) -> int:
        """How much of a message has come that is not complete."""
        ...

    def enforce(self, now: float) -> None:
        """End it when one of its deadlines has passed."""
        ...

    def cut(self, reason: str) -> None:
        """End it at once."""
        ...


@dataclass(slots=True)
class _Place:
    protocol: Guarded
    peer: str
    since: float


class ConnectionTable:
    """The open connections of a server, by the identity of their transports. An address that
    `is_shared` (a trusted proxy) stands for many clients, and has no limit of its own.
    """

    def __init__(
        self, limits: ListenerLimits, is_shared: Callable[[str], bool] | None = None
    ) -> None:
        self._limits = limits
        self._is_shared = is_shared
        self._capacity = limits.capacity
        self._places: dict[int, _Place] = {}
        self._peers: Counter[str] = Counter()
        self._strangers: dict[int, _Place] = {}
        """In the order in which they came."""

    def __len__(self) -> int:
        return len(self._places)

    def admit(self, key: int, protocol: Guarded, address: str | None, now: float) -> bool:
        """Take a new connection in. False when there is no room for it: no stranger can be cut,
        and nobody but admins has more than half of the room.
        """
        is_shared = self._is_shared is not None and self._is_shared(address or "")
        peer = "" if is_shared else _peer(address)
        is_bounded = peer != "" and self._peers[peer] >= self._limits.connections_per_peer
        if is_bounded and not self._make_room(now, peer):
            return False
        if len(self._strangers) >= max(1, self._capacity // 2):
            # Many clients may connect at once, and are no strangers a moment later.
            self._make_room(now - _GRACE_SECONDS)
        is_full = len(self._places) >= self._capacity
        if is_full and not self._make_room(now) and not self._cut_greedy():
            return False
        place = _Place(protocol, peer, now)
        self._places[key] = self._strangers[key] = place
        self._peers[peer] += 1
        return True

    def hand_over(self, key: int, protocol: Guarded) -> None:
        """A connection goes on with another protocol: its WebSocket."""
        if (place := self._places.get(key)) is not None:
            place.protocol = protocol

    def release(self, key: int) -> None:
        """A connection has ended."""
        place = self._places.pop(key, None)
        self._strangers.pop(key, None)
        if place is not None:
            self._peers[place.peer] -= 1
            if not self._peers[place.peer]:
                del self._peers[place.peer]

    def enforce(self, now: float) -> None:
        """Look at every connection: deadlines, and how much waits to be read."""
        for place in list(self._places.values()):
            place.protocol.enforce(now)
        self._enforce_memory()

    def _enforce_memory(self) -> None:
        sizes = [
            (place.protocol.unsent_bytes + place.protocol.unfinished_bytes, place)
            for place in self._places.values()
        ]
        total = sum(size for size, _ in sizes)
        if total <= self._limits.unsent_bytes_in_all:
            return
        for size, place in sorted(sizes, key=lambda pair: pair[0], reverse=True):
            if total <= self._limits.unsent_bytes_in_all:
                return
            place.protocol.cut("too much waits of all clients together")
            total -= size

    def _make_room(self, before: float, peer: str | None = None) -> bool:
        """Cut the stranger that has been here longest, of one peer or of any, if it came before
        that time.
        """
        for key, place in self._oldest():
            if place.since > before:
                return False
            if peer is None or place.peer == peer:
                self.release(key)
                place.protocol.cut("a newer connection needs its place")
                return True
        return False

    def _cut_greedy(self) -> bool:
        """Cut the newest connection of the principal that has more than half of the room, unless
        that is an admin.
        """
        names = Counter(
            principal.name
            for place in self._places.values()
            if (principal := place.protocol.principal) and "admin" not in principal.roles
        )
        for name, count in names.most_common(1):
            if count <= self._capacity // 2:
                break
            for key, place in reversed(self._places.items()):
                principal = place.protocol.principal
                if principal is not None and principal.name == name:
                    self.release(key)
                    place.protocol.cut(f"{name} has more than half of all connections")
                    return True
        return False

    def _oldest(self) -> Iterator[tuple[int, _Place]]:
        for key, place in list(self._strangers.items()):
            if place.protocol.principal is not None:
                del self._strangers[key]
            else:
                yield key, place


def _peer(address: str | None) -> str:
    """What counts as one peer; empty for loopback and for sockets without an address."""
    try:
        parsed = ip_address((address or "").partition("%")[0])
    except ValueError:
        return ""
    mapped = getattr(parsed, "ipv4_mapped", None)
    plain = parsed if mapped is None else mapped
    if plain.is_loopback:
        return ""
    return str(plain) if plain.version == 4 else str(ip_network(f"{plain}/64", strict=False))

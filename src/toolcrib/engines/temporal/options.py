"""How a process reaches a Temporal server, and how it works there."""

from __future__ import annotations

from dataclasses import dataclass, field

from toolcrib.errors import UsageError

DEFAULT_ADDRESS = "127.0.0.1:7233"
"""Where a Temporal server listens unless it is told otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TemporalTls:
    """How the connection is secured. Without a certificate of its own, a client is known by its API
    key alone, or not at all.
    """

    server_ca: bytes | None = None
    """Certificates in PEM that the server's is signed with; None takes those of the machine."""
    cert: bytes | None = None
    key: bytes | None = field(default=None, repr=False)
    server_name: str | None = None
    """The name that the server's certificate must have, where it is not that of the address."""

    def __post_init__(self) -> None:
        if (self.cert is None) != (self.key is None):
            raise UsageError("a certificate for Temporal needs its key, and a key its certificate")


@dataclass(frozen=True, slots=True, kw_only=True)
class TemporalOptions:
    """A Temporal server, and what a process does there."""

    address: str = DEFAULT_ADDRESS
    namespace: str = "default"
    task_queue: str = "toolcrib"
    """The queue that the processes of one store share. Stores have queues of their own."""
    api_key: str | None = field(default=None, repr=False)
    tls: TemporalTls | None = None
    """None is a connection in the clear, unless there is an API key."""
    runs_turns: bool = True
    """Whether this process advances turns. One that does not only asks for them."""
    max_turns: int = 16
    """How many turns this process advances at once."""
    heartbeat_seconds: float = 10.0
    """After how long without a sign of life the server gives a turn to another process. As long as
    the lease of the store: before that nobody else can open the session."""
    turn_seconds: float = 86_400.0
    """How long one run of a turn may take, from what wakes it to its answer or its next wait."""
    poll_seconds: float = 2.0
    """How often the store is asked for turns that nobody is advancing."""

    def __post_init__(self) -> None:
        host, _, port = self.address.rpartition(":")
        if not host or not port.isdigit():
            raise UsageError(
                f"the address of Temporal is HOST:PORT, like {DEFAULT_ADDRESS}, not "
                f"{self.address!r}"
            )
        for name in ("namespace", "task_queue"):
            if not getattr(self, name).strip():
                raise UsageError(f"the {name.replace('_', ' ')} of Temporal must not be empty")
        if self.max_turns < 1:
            raise UsageError("max_turns must be 1 or more")
        for name in ("heartbeat_seconds", "turn_seconds", "poll_seconds"):
            if getattr(self, name) <= 0:
                raise UsageError(f"{name} must be more than 0")

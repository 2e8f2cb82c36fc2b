"""The load of one mounted server: how many calls run there, how many wait, and whether it is left
alone for a while because its calls fail.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeVar

from toolcrib.errors import CallEnded

if TYPE_CHECKING:
    from toolcrib.clock import Clock

T = TypeVar("T")

CircuitState = Literal["closed", "open", "trial"]
"""`open`: calls fail at once. `trial`: the next call, or the one that runs, shows whether the
server works again."""

MAX_QUEUED: Final = 100
"""How many calls may wait for a place, unless the configuration says it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CircuitTerms:
    """After so many failures in a row a server is left alone for so many seconds."""

    failures: int
    seconds: float = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """What a server is asked to bear. None sets no limit."""

    max_concurrent: int | None = None
    """How many calls run there at the same time; others wait."""
    max_queued: int = MAX_QUEUED
    """How many calls may wait; further ones fail."""
    circuit: CircuitTerms | None = None
    ping: float | None = None
    """Seconds between two looks whether it still answers, where the protocol has a ping."""


class ServerLoad:
    """The calls of one server within its limits."""

    def __init__(self, limits: ServerLimits, server: str, clock: Clock) -> None:
        self._limits = limits
        self.is_limited = limits.max_concurrent is not None or limits.circuit is not None
        """Whether calls may have to wait or to fail because of the others."""
        self._server = server
        self._clock = clock
        self.running = 0
        self.queued = 0
        self.failures = 0
        """Calls that failed in a row, because the server did not answer."""
        self.open_until: float | None = None
        """When the circuit is tried again, by the clock; None while it is closed."""
        self._is_trying = False
        most = limits.max_concurrent
        self._slots = None if most is None else asyncio.Semaphore(most)

    @property
    def circuit(self) -> CircuitState:
        """The state of the circuit."""
        if self.open_until is None:
            return "closed"
        return "open" if self._clock() < self.open_until else "trial"

    @contextmanager
    def counted(self) -> Generator[None]:
        """Count a call that runs within the block."""
        self.running += 1
        try:
            yield
        finally:
            self.running -= 1

    async def run(self, work: Callable[[], Awaitable[T]], deadline: float | None) -> T:
        """Run a call when there is a place for it. `deadline` is when it times out, in the loop's
        time. Raises `CallEnded` (unavailable) when the server is left alone or has too many calls.
        """
        self._check_circuit()
        await self._take_slot()
        try:
            # Others may have failed while this one waited.
            is_trial = self._check_circuit()
            self._is_trying = self._is_trying or is_trial
            try:
                with self.counted():
                    return await self._watched(work, deadline)
            finally:
                if is_trial:
                    self._is_trying = False
        finally:
            if self._slots is not None:
                self._slots.release()

    async def _watched(self, work: Callable[[], Awaitable[T]], deadline: float | None) -> T:
        try:
            result = await work()
        except CallEnded as ended:
            self._note(is_failure=ended.failure.kind == "unavailable")
            raise
        except asyncio.CancelledError:
            # Somebody's wish to stop says nothing about the server.
            if deadline is not None and asyncio.get_running_loop().time() >= deadline:
                self._note(is_failure=True)
            raise
        self._note(is_failure=False)
        return result

    async def _take_slot(self) -> None:
        if self._slots is None:
            return
        if self._slots.locked() and self.queued >= self._limits.max_queued:
            raise CallEnded(
                "unavailable",
                f"The MCP server {self._server} is busy: {self.running} calls run there and "
                f"{self.queued} wait; try again later.",
            )
        self.queued += 1
        try:
            await self._slots.acquire()
        finally:
            self.queued -= 1

    def _check_circuit(self) -> bool:
        """Whether the next call is the trial. Raises `CallEnded` while there is none to be made."""
        if self.open_until is None:
            return False
        wait = self.open_until - self._clock()
        if wait <= 0 and not self._is_trying:
            return True
        when = f"in {wait:.0f} seconds" if wait > 0 else "when the call that tries it has ended"
        raise CallEnded(
            "unavailable",
            f"The MCP server {self._server} failed {self.failures} times in a row and is left "
            f"alone; it is tried again {when}.",
        )

    def _note(self, *, is_failure: bool) -> None:
        terms = self._limits.circuit
        if not is_failure:
            self.failures, self.open_until = 0, None
            return
        self.failures += 1
        if terms is not None and self.failures >= terms.failures:
            self.open_until = self._clock() + terms.seconds

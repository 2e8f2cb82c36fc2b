"""State derived from events: each reducer folds the events it asks for into one slice."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from toolcrib.errors import UsageError
from toolcrib.ledger.events import Event

logger = logging.getLogger(__name__)

S = TypeVar("S")
E = TypeVar("E", bound=Event)


@dataclass(slots=True)
class _Slice:
    event_type: type[Event]
    reducer: Callable[[Any, Any], Any]
    state: Any


class Reducers:
    """The slices of a session's state, by key.

    Events come from several threads. Like a subscriber, a reducer cannot break a run: when it
    raises, the error is logged and counted in `failures`, and its state stays as it was.
    """

    def __init__(self) -> None:
        self.slices: dict[str, _Slice] = {}
        self.failures = 0
        # Folding reads the state and writes it: two threads at once would lose an event.
        self._folding = threading.RLock()

    def add(
        self,
        key: str,
        event_type: type[E],
        reducer: Callable[[S, E], S],
        initial: S,
        past: Iterable[Event] = (),
    ) -> None:
        """Fold every `event_type`, of `past` and of what comes, into the slice `key`."""
        if key in self.slices:
            raise UsageError(f"there is a reducer for {key!r} already; choose another key")
        state = initial
        for event in past:
            if isinstance(event, event_type):
                state = reducer(state, event)
        self.slices[key] = _Slice(event_type, reducer, state)

    def apply(self, event: Event) -> None:
        """Fold one event into every slice that asked for its type."""
        if not self.slices:
            return
        with self._folding:
            for key, slice_ in tuple(self.slices.items()):
                if isinstance(event, slice_.event_type):
                    self._fold(key, slice_, event)

    def _fold(self, key: str, slice_: _Slice, event: Event) -> None:
        try:
            slice_.state = slice_.reducer(slice_.state, event)
        except Exception:
            self.failures += 1
            logger.exception("the reducer of %r failed on %s", key, event.kind)

    def state(self, key: str) -> Any:
        """The current state of a slice."""
        try:
            return self.slices[key].state
        except KeyError:
            known = ", ".join(sorted(self.slices)) or "none"
            raise UsageError(f"there is no reducer for {key!r}; there are: {known}") from None

"""State derived from events: each reducer folds the events it asks for into one slice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from toolcrib.errors import UsageError
from toolcrib.session.events import Event

S = TypeVar("S")
E = TypeVar("E", bound=Event)


@dataclass(slots=True)
class _Slice:
    event_type: type[Event]
    reducer: Callable[[Any, Any], Any]
    state: Any


class Reducers:
    """The slices of a session's state, by key."""

    def __init__(self) -> None:
        self.slices: dict[str, _Slice] = {}

    def add(self, key: str, event_type: type[E], reducer: Callable[[S, E], S], initial: S) -> None:
        """Fold every `event_type` into the slice `key`, starting from `initial`."""
        if key in self.slices:
            raise UsageError(f"there is a reducer for {key!r} already; choose another key")
        self.slices[key] = _Slice(event_type, reducer, initial)

    def apply(self, event: Event) -> None:
        """Fold one event into every slice that asked for its type."""
        for slice_ in self.slices.values():
            if isinstance(event, slice_.event_type):
                slice_.state = slice_.reducer(slice_.state, event)

    def fold(self, key: str, event: Event) -> None:
        """Fold one event into the slice `key` alone."""
        slice_ = self.slices[key]
        if isinstance(event, slice_.event_type):
            slice_.state = slice_.reducer(slice_.state, event)

    def state(self, key: str) -> Any:
        """The current state of a slice."""
        try:
            return self.slices[key].state
        except KeyError:
            known = ", ".join(sorted(self.slices)) or "none"
            raise UsageError(f"there is no reducer for {key!r}; there are: {known}") from None

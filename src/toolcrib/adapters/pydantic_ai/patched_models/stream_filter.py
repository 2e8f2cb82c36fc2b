"""`StreamFilter`: reads the events of a provider's stream before pydantic-ai does."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from copy import deepcopy
from typing import Any


class StreamFilter(ABC):
    """Each event becomes any number of events. Some servers send every event twice: then the
    second of two equal ones is dropped.

    Two equal pieces of text in a row are no repetition, so one pair of equal events proves nothing
    unless `is_unique` says that such an event never comes twice. Until a second pair has come, the
    doubtful events are held back.
    """

    def __init__(self) -> None:
        self._is_repeated: bool | None = None
        """None while it is not known."""
        self._held: list[Any] = []
        self._last: Any = None

    @abstractmethod
    def expand(self, event: Any) -> Iterable[Any]:
        """What pydantic-ai reads in place of the event."""

    @abstractmethod
    def at_end(self) -> None:
        """Runs once pydantic-ai has read all events."""

    @abstractmethod
    def is_unique(self, event: Any) -> bool:
        """Whether the first event of a stream is one that never comes twice."""

    def read(self, event: Any) -> Iterator[Any]:
        """The events to read now."""
        if self._is_repeated is False:
            yield from self.expand(event)
            return
        events = self._once(event) if self._is_repeated else self._decide(event)
        for single in events:
            yield from self.expand(single)

    def end(self) -> Iterator[Any]:
        """The events to read when the stream is over."""
        for event in self._released():
            yield from self.expand(event)
        self.at_end()

    def _decide(self, event: Any) -> list[Any]:
        # A copy, because reading an event may change it.
        self._held.append(deepcopy(event))
        match self._held:
            case [_]:
                return [event]
            case [first, second] if first != second:
                self._is_repeated = False
            case [first, _] if self.is_unique(first):
                self._is_repeated = True
            case [_, _, third, fourth] if third == fourth:
                self._is_repeated = True
                return [third]
            case [_, _, _, _]:
                self._is_repeated = False
            case _:
                pass
        return self._released() if self._is_repeated is False else []

    def _released(self) -> list[Any]:
        """The events that were held back; the first one has been read."""
        held = [] if self._is_repeated else self._held[1:]
        self._held = []
        return held

    def _once(self, event: Any) -> list[Any]:
        if self._last is not None and event == self._last:
            self._last = None
            return []
        self._last = deepcopy(event)
        return [event]

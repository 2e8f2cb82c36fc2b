"""A subscriber that remembers."""

from __future__ import annotations

from typing import TypeVar

from toolcrib.ledger.events import Event
from toolcrib.session.bus import EventBus

E = TypeVar("E", bound=Event)


class Recorder:
    """Collects the events of a bus, in order."""

    def __init__(self, bus: EventBus) -> None:
        self.events: list[Event] = []
        bus.subscribe(Event, self.events.append)

    def of(self, event_type: type[E]) -> list[E]:
        """The events of one type."""
        return [event for event in self.events if isinstance(event, event_type)]

    @property
    def kinds(self) -> list[str]:
        """The kinds of all events, in order."""
        return [event.kind for event in self.events]

"""The event bus: who wants to hear of what."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar

from toolcrib.ledger.events import Event

E = TypeVar("E", bound=Event)
Subscriber = Callable[[Any], None]

logger = logging.getLogger(__name__)


class EventBus:
    """Delivers events to subscribers, in the order they happen, in the thread they happen in.

    A subscriber watches; it cannot break a run. When it raises, the error is logged and counted
    in `failures`, and the others still hear the event.
    """

    def __init__(self) -> None:
        self.subscribers: dict[type[Event], list[Subscriber]] = {}
        self.failures = 0

    def subscribe(self, event_type: type[E], subscriber: Callable[[E], None]) -> Callable[[], None]:
        """Hear every event of `event_type` (`Event` for all); returns what ends it."""
        self.subscribers.setdefault(event_type, []).append(subscriber)

        def unsubscribe() -> None:
            subscribers = self.subscribers.get(event_type, [])
            if subscriber in subscribers:
                subscribers.remove(subscriber)
            if not subscribers:
                self.subscribers.pop(event_type, None)

        return unsubscribe

    def forward_to(self, other: EventBus) -> None:
        """Let another bus hear everything too; asking twice changes nothing."""
        if other is not self and other.publish not in self.subscribers.get(Event, ()):
            self.subscribe(Event, other.publish)

    def publish(self, event: Event) -> None:
        """Deliver `event` to whoever subscribed to its type or to a base of it."""
        for event_type in type(event).__mro__[:-1]:
            for subscriber in tuple(self.subscribers.get(event_type, ())):
                self._deliver(subscriber, event)

    def _deliver(self, subscriber: Subscriber, event: Event) -> None:
        try:
            subscriber(event)
        except Exception:
            self.failures += 1
            logger.exception("a subscriber failed on %s", event.kind)

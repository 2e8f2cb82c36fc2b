"""Resuming a broken stream of the handshake protocol: the last messages of each session.

A client that lost the stream of an answer, or that of a `GET`, comes back with the id of the
last message that it got (`Last-Event-ID`), and gets those after it. They are kept in memory, by the
server that sent them.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary, ref

from mcp.server.streamable_http import EventMessage, EventStore
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types import JSONRPCError, JSONRPCResponse

if TYPE_CHECKING:
    from mcp.server.streamable_http import EventCallback
    from mcp_types import JSONRPCMessage

RETRY_MS: Final = 1_000
"""When a client is to come back after a stream has broken."""
_MOST_EVENTS: Final = 500
"""How many messages of one session are kept."""
_MOST_CHARS: Final = 32_000_000
"""About how much the messages of all sessions may have."""
_EVENT_CHARS: Final = 500
"""What a message has without its content."""


@dataclass(frozen=True, slots=True)
class _StreamEvent:
    number: int
    stream_id: str
    message: JSONRPCMessage | None


class StreamEvents:
    """The messages of all sessions of a server. The oldest go first."""

    def __init__(self, most_chars: int = _MOST_CHARS) -> None:
        self._most_chars = most_chars
        self._chars = 0
        self._order: deque[tuple[ref[ResumableEvents], int]] = deque()
        self._sessions: WeakValueDictionary[str, ResumableEvents] = WeakValueDictionary()

    def session(self) -> ResumableEvents:
        """A place for the messages of a new session."""
        events = ResumableEvents(self)
        self._sessions[events.token] = events
        return events

    def has(self, event_id: str) -> bool:
        """Whether everything after a message is still kept."""
        token, _, number = event_id.partition("-")
        events = self._sessions.get(token)
        return events is not None and number.isdecimal() and events.has(int(number))

    def count(self, events: ResumableEvents, message: JSONRPCMessage | None) -> None:
        """Count a message that a session keeps, and drop the oldest ones that are too many."""
        chars = _EVENT_CHARS + _content_chars(message)
        self._chars += chars
        self._order.append((ref(events), chars))
        while self._chars > self._most_chars:
            oldest, chars = self._order.popleft()
            self._chars -= chars
            if (session := oldest()) is not None:
                session.drop_oldest()


class ResumableEvents(EventStore):
    """The last messages of one session; nobody else's id finds them."""

    def __init__(self, all_events: StreamEvents) -> None:
        self.token = token_hex(8)
        self._all = all_events
        self._last = 0
        self._events: deque[_StreamEvent] = deque()

    async def store_event(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        """Keep a message. None stands for the beginning of a stream."""
        self._last += 1
        self._events.append(_StreamEvent(self._last, stream_id, message))
        if len(self._events) > _MOST_EVENTS:
            self.drop_oldest()
        self._all.count(self, message)
        return f"{self.token}-{self._last}"

    async def replay_events_after(
        self, last_event_id: str, send_callback: EventCallback
    ) -> str | None:
        """Send the messages of one stream after one of them. None when the stream is over, or the
        message is not known.
        """
        token, _, text = last_event_id.partition("-")
        number = int(text) if token == self.token and text.isdecimal() else 0
        begun = next((each for each in self._events if each.number == number), None)
        if begun is None:
            return None
        later = [each for each in self._events if each.number > number]
        for event in later:
            if event.stream_id == begun.stream_id and event.message is not None:
                await send_callback(EventMessage(event.message, f"{self.token}-{event.number}"))
                if isinstance(event.message, JSONRPCResponse | JSONRPCError):
                    return None
        return begun.stream_id

    def has(self, number: int) -> bool:
        """Whether a message is still kept, and so all after it."""
        return bool(self._events) and self._events[0].number <= number <= self._last

    def drop_oldest(self) -> None:
        """Keep one message less."""
        if self._events:
            self._events.popleft()


class ResumableSessions(StreamableHTTPSessionManager):
    """The sessions of the SDK, whose messages are kept for each session alone. The SDK has one
    place for all sessions, where the streams of two clients have the same names.
    """

    events: StreamEvents | None = None

    @property
    def event_store(self) -> EventStore | None:
        """The place for the messages of the session that the SDK makes right now."""
        return None if self.events is None else self.events.session()

    @event_store.setter
    def event_store(self, event_store: EventStore | None) -> None:
        """The SDK sets None, which says nothing here."""


def _content_chars(message: JSONRPCMessage | None) -> int:
    """About how long a message is, without writing it down."""
    result: Any = getattr(message, "result", None)
    try:
        parts: list[dict[str, Any]] = result["content"]
        texts = [part.get("text") or part.get("data") or "" for part in parts]
        return 2 * sum(map(len, texts))
    except (TypeError, KeyError, AttributeError):
        # It has no content, or an odd one.
        return 0

"""The events of a session as typed facts, for programs: in order, each once, across gaps."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from pydantic import ValidationError

from toolcrib.ledger.encoding import event_of
from toolcrib.ledger.events import Event
from toolcrib.runtime.event_reader import GAP

if TYPE_CHECKING:
    from toolcrib.runtime.event_reader import Envelope, SessionReader


class EnvelopeSource(Protocol):
    """The envelopes of a session, from the moment that it is followed."""

    async def __anext__(self) -> Envelope: ...

    async def aclose(self) -> None:
        """Follow the session no longer."""
        ...


class ReaderSource:
    """The envelopes of a reader in this process."""

    def __init__(self, reader: SessionReader) -> None:
        self._reader = reader
        self._envelopes = aiter(reader)

    async def __anext__(self) -> Envelope:
        return await anext(self._envelopes)

    async def aclose(self) -> None:
        self._reader.close()


Follow = Callable[[int], Awaitable[EnvelopeSource]]
"""Begins to follow a session after a record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownEvent(Event):
    """An event that this version cannot read: its kind is that of a newer version, or its payload
    was deleted. `kind_name` is its kind, `data` what it holds.
    """

    kind: ClassVar[str] = "unknown"
    kind_name: str
    data: dict[str, Any] = field(default_factory=dict[str, Any])


def typed_event(envelope: Envelope) -> Event:
    """The event in an envelope; an `UnknownEvent` when this version cannot read it."""
    try:
        event = event_of(envelope.kind, envelope.data, envelope.session_id, envelope.at)
    except ValidationError:
        event = None
    return event or UnknownEvent(
        session_id=envelope.session_id,
        at=envelope.at,
        kind_name=envelope.kind,
        data=envelope.data,
    )


class SessionEvents:
    """Iterates over the events of a session: those recorded after `seq`, then those that happen.

    Use it with `async for`. As an async context manager it follows the session from the moment that
    it is entered, and stops at the end. Where the runtime cuts off a reader that is too slow, it
    goes on after the last recorded event. It ends when the session is closed.
    """

    def __init__(self, follow: Follow, after: int = 0) -> None:
        self.seq = after
        """The number of the last recorded event that was yielded; pass it as `after` to go on."""
        self._follow = follow
        self._envelopes: EnvelopeSource | None = None

    async def __aenter__(self) -> SessionEvents:
        await self._begin()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Stop following the session."""
        envelopes, self._envelopes = self._envelopes, None
        if envelopes is not None:
            await envelopes.aclose()

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        while True:
            envelopes = await self._begin()
            envelope = await envelopes.__anext__()
            if envelope.kind == GAP:
                await self.aclose()
            elif not envelope.is_kept:
                return typed_event(envelope)
            elif envelope.seq > self.seq:
                self.seq = envelope.seq
                return typed_event(envelope)

    async def _begin(self) -> EnvelopeSource:
        if self._envelopes is None:
            self._envelopes = await self._follow(self.seq)
        return self._envelopes

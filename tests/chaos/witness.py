"""What clients were told during a chaos run. All of it must be in the ledgers at its end."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tests.chaos.replicas import OWNER_TOKEN, Replicas, ServedReplica
from toolcrib.client.address import server_location
from toolcrib.client.event_source import StreamedEnvelopes
from toolcrib.client.http_requests import HttpRequests
from toolcrib.errors import Refused
from toolcrib.ledger.record import Record
from toolcrib.runtime.event_reader import GAP, Envelope, envelope_of

_QUIET_SECONDS: Final = 4.0
"""A follower that heard nothing for so long tries another replica; its own may stand still."""


def fingerprint(kind: str, at: float, data: Mapping[str, Any]) -> str:
    """What makes an event this one, however it was delivered."""
    return json.dumps([kind, at, data], sort_keys=True)


def fingerprint_of(record: Record) -> str:
    """The fingerprint of the event in a record."""
    envelope = envelope_of(record)
    return fingerprint(envelope.kind, envelope.at, envelope.data)


@dataclass(slots=True)
class Witness:
    """Everything that was acknowledged to somebody."""

    sessions: set[str] = field(default_factory=set[str])
    """Those that a client was told are there."""
    prompts: dict[str, str] = field(default_factory=dict[str, str])
    """The key of every prompt that was sent, and how it ended for its sender."""
    results: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    """The status of every call whose result a client has, by session and call."""
    hashes: dict[tuple[str, int], str] = field(default_factory=dict[tuple[str, int], str])
    """The records that a client has seen, by session and number."""
    events: dict[tuple[str, int], str] = field(default_factory=dict[tuple[str, int], str])
    """The events that a follower has seen."""
    refusals: Counter[str] = field(default_factory=Counter[str])
    faults: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])
    """What should not have been said, and did no harm."""
    followers: int = 0
    streams: int = 0
    """How many streams the followers opened in all, on whichever replica."""

    def saw_record(self, session_id: str, seq: int, hash: str) -> None:
        """A client has a record. One that changes is a fault at once."""
        if self.hashes.setdefault((session_id, seq), hash) != hash:
            self.faults.append(f"{session_id}: record {seq} had two hashes")

    def saw_event(self, session_id: str, seq: int, print_: str) -> None:
        """A follower has an event."""
        if self.events.setdefault((session_id, seq), print_) != print_:
            self.faults.append(f"{session_id}: event {seq} was two different ones")


class Follower:
    """Follows one session over server-sent events, at any replica, over the death of each."""

    def __init__(self, session_id: str, replicas: Replicas, witness: Witness) -> None:
        self._session_id = session_id
        self._replicas = replicas
        self._witness = witness
        self.seq = 0

    async def follow(self) -> None:
        """Take down every event until this is cancelled."""
        self._witness.followers += 1
        while True:
            replica = self._replicas.any()
            try:
                await self._listen(replica)
            except Refused as refused:
                self._witness.refusals[f"events: {refused.kind}"] += 1
                await asyncio.sleep(0.2)

    async def _listen(self, replica: ServedReplica) -> None:
        location = server_location(replica.url, OWNER_TOKEN)
        requests = HttpRequests(location, timeout=_QUIET_SECONDS)
        source = StreamedEnvelopes(
            requests, self._session_id, self.seq, resume=_never, reconnect_seconds=0.0
        )
        try:
            async with asyncio.timeout(_QUIET_SECONDS):
                await source.connect()
            self._witness.streams += 1
            while True:
                async with asyncio.timeout(_QUIET_SECONDS):
                    envelope = await source.__anext__()
                if envelope.kind == GAP:
                    return
                self._take(envelope, replica)
        except (TimeoutError, StopAsyncIteration):
            return
        finally:
            await source.aclose()
            await requests.aclose()

    def _take(self, envelope: Envelope, replica: ServedReplica) -> None:
        if not envelope.is_kept:
            return
        if envelope.seq != self.seq + 1:
            word = "twice" if envelope.seq <= self.seq else "after a gap"
            self._witness.faults.append(
                f"{self._session_id}: event {envelope.seq} came {word} (after {self.seq}) "
                f"from replica {replica.name}#{replica.life}"
            )
        self.seq = max(self.seq, envelope.seq)
        print_ = fingerprint(envelope.kind, envelope.at, envelope.data)
        self._witness.saw_event(self._session_id, envelope.seq, print_)


async def _never(session_id: str) -> None:
    """A replica shows a session of the store to whoever asks; nothing has to be resumed."""
    raise Refused("not_found", f"session {session_id} is not open")

"""Answers of clients that come to another replica than the one that asked.

A replica asks over a stream that is open to it, and the client answers with a request of its own,
which a balancer may send to any replica. That one forwards it to the replica that asked.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final, Protocol

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json, to_json

from toolcrib.errors import AnswerLost, Refused, ReplicaUnreachable
from toolcrib.store.store import ask_store

if TYPE_CHECKING:
    from toolcrib.store.shared_store import Replica, SharedStore

_FORWARD_SECONDS: Final = 5.0
"""How long the replica that asked may take to accept an answer."""

_log = logging.getLogger(__name__)


class AnswerLink(Protocol):
    """The way to replicas that have asked a client, provided by a transport."""

    async def bring_answer(self, replica: Replica, body: bytes) -> bytes:
        """The reply of another replica to a `ForwardedAnswer`. Raises `ReplicaUnreachable` and
        `AnswerLost`.
        """
        ...


@dataclass(frozen=True, slots=True)
class ForwardedAnswer:
    """What a client answered, on its way to the replica that asked."""

    client_id: str
    """The client, as its transport knows it at every replica."""
    name: str
    standing: str
    """The principal of the client, and what tells principals of one name apart."""
    request_id: str
    message: str
    """As the client wrote it."""

    @classmethod
    def read(cls, body: bytes) -> ForwardedAnswer:
        """What another replica wrote. Raises `Refused` (invalid)."""
        try:
            return _adapter().validate_json(body)
        except ValidationError:
            raise Refused("invalid", "this is not a forwarded answer") from None


class AnswerTaker(Protocol):
    """Where answers to requests of this replica go, provided by a transport."""

    async def take_answer(self, answer: ForwardedAnswer) -> bool:
        """Give an answer to the request that waits for it; False if none waits, or it was sent to
        another client.
        """
        ...


class ClientAnswers:
    """Forwards answers to the replicas that asked, and takes those that are forwarded here."""

    def __init__(self) -> None:
        self.link: AnswerLink | None = None
        """How other replicas are reached; without it they are not."""
        self.taker: AnswerTaker | None = None

    async def take(self, answer: ForwardedAnswer) -> bytes:
        """The reply to an answer that another replica forwards."""
        is_taken = self.taker is not None and await self.taker.take_answer(answer)
        return to_json({"is_taken": is_taken})

    async def forward(self, store: SharedStore, replica_id: str, answer: ForwardedAnswer) -> bool:
        """Bring an answer to the replica that asked. False, with a warning in the log, when that
        one cannot be asked or nothing waits for the answer there. Raises `StoreError`.
        """
        why = "nothing waits for it there"
        try:
            replicas = await ask_store(store, store.replicas)
            asker = next((each for each in replicas if each.replica_id == replica_id), None)
            if self.link is None or asker is None or asker.address is None:
                raise ReplicaUnreachable("it is not there, or takes no requests")
            async with asyncio.timeout(_FORWARD_SECONDS):
                reply = from_json(await self.link.bring_answer(asker, to_json(answer)))
            if reply == {"is_taken": True}:
                return True
        except (ReplicaUnreachable, AnswerLost, TimeoutError) as error:
            why = str(error) or "it did not reply in time"
        _log.warning("an answer of %s to replica %s is dropped: %s", answer.name, replica_id, why)
        return False


@cache
def _adapter() -> TypeAdapter[ForwardedAnswer]:
    return TypeAdapter(ForwardedAnswer)

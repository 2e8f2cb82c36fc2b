"""Calls under an idempotency key: found again in the ledger, also in another process."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from pydantic_core import to_json

from toolcrib.errors import Refused
from toolcrib.runtime.messages import CallResult, CallTool
from toolcrib.session.events import ToolInvoked
from toolcrib.session.record import events

if TYPE_CHECKING:
    from toolcrib.session.session import Session

_PREFIX: Final = "key_"


def named(asked: CallTool, who: str) -> CallTool:
    """The call with an id that says under which key it was asked, by whom, and what for: the same
    request has the same id wherever it is made.
    """
    place = [asked.session_id, who, asked.idempotency_key]
    return replace(
        asked, call_id=f"{_PREFIX}{_short(place)}_{_short([asked.name, asked.arguments])}"
    )


class KeyedCalls:
    """The calls under keys that earlier processes ended in one session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._ended: dict[str, ToolInvoked] | None = None

    async def answer(self, asked: CallTool) -> CallResult | None:
        """What came of a call that has its name by its key; None when it has not ended yet. Raises
        `Refused` (conflict) when the key was used for another call.
        """
        if self._session.lease.fence == 1:
            # Nobody wrote the session before, and what was asked here is remembered here.
            return None
        if self._ended is None:
            self._ended = await self._session.ask_store(self._read)
        place, _, _ = (asked.call_id or "").rpartition("_")
        ended = self._ended.get(place)
        if ended is None:
            return None
        if ended.call_id != asked.call_id:
            key = (asked.idempotency_key or "")[:80]
            raise Refused(
                "conflict",
                f"the idempotency key {key!r} was used with other parameters; take a new one",
            )
        return _result(ended)

    def _read(self) -> dict[str, ToolInvoked]:
        """By the part of the id that stands for the key alone."""
        found: dict[str, ToolInvoked] = {}
        for event in events(self._session.records()):
            if isinstance(event, ToolInvoked) and event.call_id.startswith(_PREFIX):
                place, _, what = event.call_id.rpartition("_")
                if place and what:
                    found[place] = event
        return found


def _result(ended: ToolInvoked) -> CallResult:
    return CallResult(
        call_id=ended.call_id,
        tool=ended.name,
        status="completed" if ended.success else "failed",
        text=ended.message,
        value=ended.value,
        failure=ended.failure,
        artifact_id=ended.artifact_id,
    )


def _short(facts: object) -> str:
    return sha256(to_json(facts)).hexdigest()[:24]

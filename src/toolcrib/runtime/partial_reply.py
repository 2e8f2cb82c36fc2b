"""The replies that models have begun to write in a session: for those who begin to follow it then.

Pieces of a reply are announced and not kept, so a page that is loaded again in the middle of an
answer would show the rest of it alone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from toolcrib.ledger.prompt_events import (
    ArgumentsDelta,
    ModelAsked,
    ModelResponded,
    PartialArguments,
    PartialReply,
    ReasoningDelta,
    TextDelta,
    TurnEnded,
)

if TYPE_CHECKING:
    from toolcrib.ledger.events import Event
    from toolcrib.session.session import Session

Delta: TypeAlias = TextDelta | ReasoningDelta | ArgumentsDelta

DELTAS: Final = (TextDelta, ReasoningDelta, ArgumentsDelta)
"""The pieces that a partial reply is made of."""


@dataclass(slots=True)
class _WrittenReply:
    """What came of the reply of one step."""

    step: int
    last: Delta | ModelAsked
    """What it was announced by last."""
    text: list[str] = field(default_factory=list[str])
    reasoning: dict[int, list[str]] = field(default_factory=dict[int, list[str]])
    calls: dict[str, tuple[str, list[str]]] = field(
        default_factory=dict[str, tuple[str, list[str]]]
    )
    """By the id of a call: its tool, and its arguments."""

    def add(self, delta: Delta) -> None:
        self.last = delta
        match delta:
            case TextDelta(text=text, is_restart=is_restart):
                if is_restart:
                    self.text.clear()
                self.text.append(text)
            case ReasoningDelta(index=index, text=text, is_restart=is_restart):
                if is_restart:
                    self.reasoning[index] = []
                self.reasoning.setdefault(index, []).append(text)
            case ArgumentsDelta(call_id=call_id, tool=tool, text=text):
                self.calls.setdefault(call_id, (tool, []))[1].append(text)

    def reply(self) -> PartialReply:
        last = self.last
        return PartialReply(
            session_id=last.session_id,
            at=last.at,
            turn=last.turn,
            step=self.step,
            text="".join(self.text),
            reasoning=tuple("".join(self.reasoning[index]) for index in sorted(self.reasoning)),
            calls=tuple(
                PartialArguments(call_id=call_id, tool=tool, text="".join(pieces))
                for call_id, (tool, pieces) in self.calls.items()
            ),
        )


@dataclass(frozen=True, slots=True)
class RepliesNow:
    """The unfinished replies at one moment, and the last event that each holds."""

    replies: tuple[PartialReply, ...] = ()
    last: tuple[Delta | ModelAsked, ...] = ()

    def without(self, steps: Collection[tuple[int, int]]) -> RepliesNow:
        """These without those of some turns and steps."""
        left = [
            (reply, last)
            for reply, last in zip(self.replies, self.last, strict=True)
            if (reply.turn, reply.step) not in steps
        ]
        return RepliesNow(tuple(reply for reply, _ in left), tuple(last for _, last in left))

    def holds(self, event: Event) -> bool:
        """Whether a piece that is announced now is in a reply already: it was on its way."""
        return any(event is delta for delta in self.last)


class PartialReplies:
    """The unfinished replies of a session, by turn. Prompts that a tool evaluates have turns."""

    def __init__(self) -> None:
        self._written: dict[int, _WrittenReply] = {}
        self._guard = threading.Lock()
        """Prompts of handlers in worker threads announce there."""

    def now(self) -> RepliesNow:
        """The replies as far as they are written."""
        if not self._written:
            return RepliesNow()
        with self._guard:
            written = list(self._written.values())
            return RepliesNow(
                tuple(each.reply() for each in written), tuple(each.last for each in written)
            )

    @contextmanager
    def collected(self, session: Session) -> Generator[None]:
        """Collect what models write while a prompt of the session runs."""
        subscribe = session.bus.subscribe
        # By the exact types, which hear of an event before those who follow all of them.
        ends: list[Callable[[], None]] = [
            *(subscribe(delta, self._add) for delta in DELTAS),
            subscribe(ModelAsked, self._begin),
            *(subscribe(end, self._end) for end in (ModelResponded, TurnEnded)),
        ]
        try:
            yield
        finally:
            for end in ends:
                end()
            with self._guard:
                self._written.clear()

    def _begin(self, event: ModelAsked) -> None:
        with self._guard:
            self._of_step(event)

    def _add(self, delta: Delta) -> None:
        with self._guard:
            self._of_step(delta).add(delta)

    def _of_step(self, event: Delta | ModelAsked) -> _WrittenReply:
        """The reply of a step. A request that is made again goes on with what it said before."""
        written = self._written.get(event.turn)
        if written is None or written.step != event.step:
            written = self._written[event.turn] = _WrittenReply(event.step, event)
        return written

    def _end(self, event: ModelResponded | TurnEnded) -> None:
        with self._guard:
            self._written.pop(event.turn, None)

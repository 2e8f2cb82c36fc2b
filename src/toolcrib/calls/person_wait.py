"""Time in which a running call waits for a person: its time limit stands still meanwhile.

So do the limits of the calls that it is part of. A deadline that the caller set does not move.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolcrib.calls.call import Call


class PersonWait:
    """How long a call has waited for people, whether it does now, and what it has asked them."""

    __slots__ = ("_began", "_count", "_over", "questions", "seconds", "secrets")

    def __init__(self) -> None:
        self.questions = 0
        """How many questions the call has asked."""
        self.secrets: list[Any] = []
        """What people answered that must not be recorded."""
        self.seconds = 0.0
        """How long it waited while its handler ran, without the wait that goes on."""
        self._count = 0
        self._began = 0.0
        self._over = asyncio.Event()

    @property
    def is_on(self) -> bool:
        """Whether the call waits now."""
        return self._count > 0

    def begin(self, now: float) -> None:
        """One more wait begins; several may go on at once."""
        if self._count == 0:
            self._began = now
            self._over = asyncio.Event()
        self._count += 1

    def end(self, now: float) -> float:
        """One wait is over. Returns by how much the time limit moves: 0 while others go on."""
        self._count -= 1
        if self._count:
            return 0.0
        waited = max(0.0, now - self._began)
        self.seconds += waited
        self._over.set()
        return waited

    async def until_over(self) -> None:
        """Wait until the call no longer waits for anybody."""
        await self._over.wait()


@contextmanager
def waiting_for_person(call: Call, *, runs: bool = True) -> Generator[None]:
    """Let the time limits of a call, and of those that it is part of, stand still within. Without
    `runs` the call itself has not begun, and only those around it run.
    """
    loop = asyncio.get_running_loop()
    began = loop.time()
    parts = _with_enclosing(call if runs else call.enclosing)
    for part in parts:
        person_of(part).begin(began)
    try:
        yield
    finally:
        if not runs:
            _move_limit(call, loop.time() - began)
        for part in parts:
            seconds = person_of(part).end(loop.time())
            part.waited += seconds
            _move_limit(part, seconds)


def person_of(call: Call) -> PersonWait:
    """The call's waits for people; most calls have none."""
    if call.person is None:
        call.person = PersonWait()
    return call.person


def hard_deadline(call: Call) -> float | None:
    """The deadline, in the loop's time, that no wait for a person moves: the one that whoever made
    the outermost call has set.
    """
    while call.parent is not None:
        call = call.parent
    return call.deadline


def _with_enclosing(call: Call | None) -> list[Call]:
    parts: list[Call] = []
    part = call
    while part is not None:
        parts.append(part)
        part = part.enclosing
    return parts


def _move_limit(call: Call, seconds: float) -> None:
    if not seconds or call.ends_at is None:
        return
    hard = hard_deadline(call)
    call.ends_at = _moved(call.ends_at, seconds, hard)
    if call.parent is not None and call.deadline is not None:
        # It was the limit of the call around it, which has moved as well.
        call.deadline = _moved(call.deadline, seconds, hard)
    if call.context is not None:
        call.context.deadline = call.ends_at


def _moved(end: float, seconds: float, hard: float | None) -> float:
    return end + seconds if hard is None else min(end + seconds, hard)

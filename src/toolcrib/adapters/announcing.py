"""What can be seen while an answer is produced, put on the bus as it comes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, TypeVar

from toolcrib.session.events import HostedToolProgress, TextDelta, TurnEnded, TurnOutcome

if TYPE_CHECKING:
    from toolcrib.adapters.credentials import Pieces
    from toolcrib.adapters.response import PromptResponse
    from toolcrib.session.session import Session

R = TypeVar("R", bound="PromptResponse[Any]")


class Announcer:
    """Announces the pieces of one step. The whole response counts; these only show."""

    def __init__(self, session: Session, turn: int, step: int, pieces: Pieces) -> None:
        self._session = session
        self._turn = turn
        self._step = step
        self._pieces = pieces

    def text(self, text: str) -> None:
        """A piece of the answer's text."""
        self._say(self._pieces.add(text))

    def progress(self, item_id: str, item_type: str, what: str) -> None:
        """A call that was asked for, or that the provider runs, got further."""
        self.flush()
        session = self._session
        session.announce(
            HostedToolProgress(
                session_id=session.session_id,
                at=session.clock(),
                turn=self._turn,
                step=self._step,
                item_id=item_id,
                item_type=item_type,
                what=what,
            )
        )

    def flush(self) -> None:
        """Say what was held back: no text follows for now."""
        self._say(self._pieces.rest())

    def _say(self, text: str) -> None:
        if not text:
            return
        session = self._session
        session.announce(
            TextDelta(
                session_id=session.session_id,
                at=session.clock(),
                turn=self._turn,
                step=self._step,
                text=text,
            )
        )


async def told_to_end(session: Session, turn: int, work: Awaitable[R]) -> R:
    """Do the work of a turn, and announce how it ends, whichever way."""
    outcome: TurnOutcome = "failed"
    try:
        response = await work
        outcome = response.status
    except asyncio.CancelledError:
        outcome = "cancelled"
        raise
    finally:
        if session.is_heard:
            session.announce(
                TurnEnded(
                    session_id=session.session_id, at=session.clock(), turn=turn, outcome=outcome
                )
            )
    return response

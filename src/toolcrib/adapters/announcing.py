"""What can be seen while an answer is produced, put on the bus as it comes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolcrib.session.events import HostedToolProgress, TextDelta

if TYPE_CHECKING:
    from toolcrib.adapters.credentials import Pieces
    from toolcrib.session.session import Session


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

"""What can be seen while an answer is produced, put on the bus as it comes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolcrib.adapters.items import mapping_of, maybe_text, text_of
from toolcrib.session.events import HostedToolProgress, TextDelta

if TYPE_CHECKING:
    from toolcrib.adapters.credentials import Pieces
    from toolcrib.session.session import Session


class Watcher:
    """Turns stream events into events of ours. The final response counts; these only show."""

    def __init__(self, session: Session, turn: int, step: int, pieces: Pieces) -> None:
        self._session = session
        self._turn = turn
        self._step = step
        self._pieces = pieces

    def hear(self, event: dict[str, Any]) -> None:
        """Announce an event that people want to see; pass over the rest."""
        kind = maybe_text(event, "type") or ""
        if kind == "response.output_text.delta":
            self._text(self._pieces.add(text_of(event, "delta")))
            return
        self._text(self._pieces.rest())
        if kind == "response.output_item.added":
            item = mapping_of(event, "item")
            self._progress(text_of(item, "id"), text_of(item, "type"), "added")
        elif "_call" in kind:
            name, _, what = kind.removeprefix("response.").partition(".")
            self._progress(text_of(event, "item_id"), name, what)

    def _text(self, text: str) -> None:
        session = self._session
        if not text:
            return
        session.announce(
            TextDelta(
                session_id=session.session_id,
                at=session.clock(),
                turn=self._turn,
                step=self._step,
                text=text,
            )
        )

    def _progress(self, item_id: str, item_type: str, what: str) -> None:
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

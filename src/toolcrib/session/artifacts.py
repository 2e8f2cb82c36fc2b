"""Whole results of which the model saw only the beginning, readable page by page."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from toolcrib.errors import UsageError
from toolcrib.ledger.kept_text import KeptText, restored
from toolcrib.store.store import Store


@dataclass(frozen=True, slots=True)
class Page:
    """A piece of an artifact. `next_offset` is None on the last page."""

    text: str
    offset: int
    total_chars: int
    next_offset: int | None


class Artifacts:
    """The artifacts of one session."""

    def __init__(self, store: Store, session_id: str) -> None:
        self._store = store
        self._session_id = session_id

    def text(self, artifact_id: str) -> str:
        """The whole of an artifact. Raises `UsageError` when there is none."""
        return self.read(artifact_id).text

    def whole(self, data: Any, kept: Iterable[KeptText]) -> Any:
        """JSON of an event with the texts in place of the references to them; `kept` are those that
        the event names.
        """
        return restored(data, kept, self.text)

    def read(self, artifact_id: str, *, offset: int = 0, limit: int | None = None) -> Page:
        """Read `limit` characters from `offset` (all of the rest when None)."""
        if offset < 0 or (limit is not None and limit <= 0):
            raise UsageError("offset must be 0 or more and limit more than 0")
        text = self._store.artifact(self._session_id, artifact_id)
        if text is None:
            raise UsageError(
                f"there is no artifact {artifact_id!r} in this session; its payloads may have "
                "been deleted"
            )
        end = len(text) if limit is None else min(len(text), offset + limit)
        return Page(text[offset:end], offset, len(text), end if end < len(text) else None)

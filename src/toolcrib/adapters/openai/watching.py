"""Which events of a stream people want to see."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolcrib.adapters.items import mapping_of, maybe_text, text_of

if TYPE_CHECKING:
    from toolcrib.adapters.announcing import Announcer


class Watcher:
    """Announces the events of a stream, and passes over the rest."""

    def __init__(self, announcer: Announcer) -> None:
        self._announcer = announcer

    def hear(self, event: dict[str, Any]) -> None:
        """Take in one event."""
        kind = maybe_text(event, "type") or ""
        if kind == "response.output_text.delta":
            self._announcer.text(text_of(event, "delta"))
            return
        self._announcer.flush()
        if kind == "response.output_item.added":
            item = mapping_of(event, "item")
            self._announcer.progress(text_of(item, "id"), text_of(item, "type"), "added")
        elif "_call" in kind:
            name, _, what = kind.removeprefix("response.").partition(".")
            self._announcer.progress(text_of(event, "item_id"), name, what)

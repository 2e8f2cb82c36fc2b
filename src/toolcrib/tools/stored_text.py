"""Texts that are kept elsewhere and loaded when somebody wants them."""

from __future__ import annotations

from collections.abc import Callable


class StoredText(str):
    """A reference that can load the text it stands for."""

    load: Callable[[], str]

    @classmethod
    def of(cls, reference: str, load: Callable[[], str]) -> StoredText:
        """The reference, with the way to its text."""
        stored = cls(reference)
        stored.load = load
        return stored


def whole_text(text: str) -> str:
    """The text that a `StoredText` stands for; any other text as it is."""
    return text.load() if isinstance(text, StoredText) else text

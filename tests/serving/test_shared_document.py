"""A document that servers share is never seen older than this server has made it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import cast

from toolcrib.serving.shared_document import SharedDocument
from toolcrib.store.shared_store import Hint, SharedStore, SharedValue


class OneValue:
    """A store with one value; `after_read` runs once, between a look at it and the look's end."""

    def __init__(self) -> None:
        self.kept: SharedValue | None = None
        self.after_read: Callable[[], object] | None = None

    def value(self, name: str) -> SharedValue | None:
        seen, after_read = self.kept, self.after_read
        if after_read is not None:
            self.after_read = None
            after_read()
        return seen

    def put_value(self, value: SharedValue, *, after: int | None) -> bool:
        if (None if self.kept is None else self.kept.version) != after:
            return False
        self.kept = value
        return True

    def hint(self, hint: Hint) -> None:
        """Nobody else is there to hear it."""


def document_of(store: OneValue) -> SharedDocument:
    ticks = itertools.count()
    return SharedDocument(cast(SharedStore, store), "tokens", elapsed=lambda: float(next(ticks)))


def write(document: SharedDocument, body: bytes) -> None:
    document.change(lambda before: (body, None))


def test_a_change_is_not_undone_by_a_slow_look() -> None:
    """The look reads before the change and ends after it."""
    store = OneValue()
    document = document_of(store)
    write(document, b"first")

    store.after_read = lambda: write(document, b"second")
    document.load()

    assert document.content == (2, b"second")


def test_a_look_in_the_middle_of_a_change_does_not_hide_it() -> None:
    """The look begins after the change began, and reads before it is written: whoever signs in is
    signed in at once.
    """
    store = OneValue()
    document = document_of(store)
    write(document, b"first")

    store.after_read = document.load
    write(document, b"second")

    assert document.content == (2, b"second")


def test_a_later_look_believes_the_store() -> None:
    """A value that somebody took away is gone here too: nothing is let in by what was."""
    store = OneValue()
    document = document_of(store)
    write(document, b"first")

    store.kept = None
    document.load()

    assert document.content == (0, b"")

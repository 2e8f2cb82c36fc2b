"""The shelf behind its locks: every change is checked, made, told and can be taken back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from contextlib import AbstractContextManager, contextmanager

from toolcrib.host_tools.announcing import Announcer
from toolcrib.host_tools.registration import Key, Listener, Registration, RegistryChange
from toolcrib.host_tools.shelf import Shelf
from toolcrib.host_tools.undo import Step, taken_back_on_error, write_down


class GuardedShelf:
    """Safe for any number of threads. Readers never wait for listeners; writers do, so that all
    listeners hear all changes in one order.
    """

    def __init__(self) -> None:
        self._shelf = Shelf()
        self._announcer = Announcer()
        self._look = threading.Lock()
        # A listener may write in its turn, in the same thread.
        self._writing = threading.RLock()

    @contextmanager
    def looking(self) -> Generator[Shelf]:
        """The shelf while nothing on it changes; for a look, not for work."""
        with self._look:
            yield self._shelf

    def writing(self) -> AbstractContextManager[object]:
        """Keep other writers out over several steps."""
        return self._writing

    def edit(
        self, leaving: Iterable[Key], new: Iterable[Registration]
    ) -> tuple[RegistryChange, ...]:
        """Take some away and put others there, in one step. Raises `DuplicateTool`, and then
        nothing has changed.
        """
        going, coming = list(leaving), list(new)
        by_key = {each.key: each for each in coming}
        with self._writing:
            with self._look:
                self._shelf.check(coming, set(going))
                steps = [
                    Step(key, before, by_key.get(key))
                    for key in dict.fromkeys([*going, *by_key])
                    if (before := self._shelf.at(key)) is not None or key in by_key
                ]
            write_down(self, steps)
            return self._carry_out(steps)

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Hear of every change; returns what ends it."""
        token = object()
        with self._writing:
            self._announcer.add(token, listener)

        def unsubscribe() -> None:
            with self._writing:
                self._announcer.remove(token)

        return unsubscribe

    def all_or_nothing(self) -> AbstractContextManager[Sequence[Step]]:
        """Take back what a block changes here, if it raises; the block sees its own changes."""
        return taken_back_on_error(self, self._take_back)

    def _take_back(self, steps: Sequence[Step]) -> None:
        with self._writing:
            for step in reversed(steps):
                with self._look:
                    # What somebody else has changed since is theirs.
                    is_ours = self._shelf.at(step.key) is step.after
                if is_ours:
                    self._carry_out([Step(step.key, step.after, step.before)])

    def _carry_out(self, steps: Collection[Step]) -> tuple[RegistryChange, ...]:
        with self._look:
            for step in steps:
                if step.after is None:
                    self._shelf.drop(step.key)
                else:
                    self._shelf.put(step.after)
        changes = tuple(change for step in steps if (change := _change(step)) is not None)
        self._announcer.announce(changes)
        return changes


def _change(step: Step) -> RegistryChange | None:
    old = step.before.definition if step.before else None
    new = step.after.definition if step.after else None
    if old == new:
        return None
    return RegistryChange(step.key.name, old, new, step.key.session_id)

"""What a registry holds, and what it says when that changes.

Registrations by session and name, and which of them may stand side by side.

Tells listeners what changed, in the order it changed.

Keeps what a block of code changed, so that it can be taken back.

The shelf behind its locks: every change is checked, made, told and can be taken back.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TypeAlias

from toolcrib.errors import DuplicateTool
from toolcrib.host_tools.definition import HostToolDefinition


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a tool was loaded from: a file, a module or a plugin, and the place in it."""

    group: str
    """What is loaded, and loaded again, as one."""
    place: str = ""

    def __str__(self) -> str:
        return self.group + self.place


@dataclass(frozen=True, slots=True)
class Key:
    """One place on the shelf: a name, for one session or (None) for all."""

    session_id: str | None
    name: str


@dataclass(frozen=True, slots=True)
class Registration:
    """A definition as it was registered. `number` is its place in the order of all."""

    definition: HostToolDefinition
    number: int
    session_id: str | None = None
    override: bool = False
    """Whether it may stand before a tool of the same name from elsewhere."""
    origin: Origin | None = None

    @property
    def key(self) -> Key:
        """Where it stands."""
        return Key(self.session_id, self.definition.name)

    def in_place_of(self, old: Registration) -> Registration:
        """This one with the place of `old` in the order, which models are shown. An equal
        definition stays the one it was, with the handlers that sessions have from it.
        """
        definition = old.definition if old.definition == self.definition else self.definition
        return replace(self, definition=definition, number=old.number)


@dataclass(frozen=True, slots=True)
class RegistryChange:
    """A tool was added (`old` is None), replaced, or removed (`new` is None), for one session or
    (None) for all.
    """

    name: str
    old: HostToolDefinition | None
    new: HostToolDefinition | None
    session_id: str | None = None


Listener: TypeAlias = Callable[[tuple[RegistryChange, ...]], None]
"""Hears what changed in one step, in the thread that changed it. It must not block."""


class Shelf:
    """Not locked: its registry locks it. A session sees its own tools and those of all sessions;
    of two with one name it sees its own.
    """

    def __init__(self) -> None:
        self._shared: dict[str, Registration] = {}
        self._own: dict[str, dict[str, Registration]] = {}
        self._numbers = count(1)

    def next_number(self) -> int:
        """The place in the order for a registration that is made now."""
        return next(self._numbers)

    def at(self, key: Key) -> Registration | None:
        """What stands exactly there."""
        return self._row(key.session_id).get(key.name)

    def find(self, name: str, session_id: str | None) -> Registration | None:
        """The tool of that name that a session sees; without a session, the one for all."""
        own = None if session_id is None else self.at(Key(session_id, name))
        return own or self._shared.get(name)

    def visible(self, session_id: str | None) -> list[Registration]:
        """What a session sees, in the order of registration."""
        found = self._shared if session_id is None else self._shared | self._row(session_id)
        return sorted(found.values(), key=lambda each: each.number)

    def of_group(self, group: str) -> list[Registration]:
        """All that was loaded from one file, module or plugin."""
        return [
            each
            for row in (self._shared, *self._own.values())
            for each in row.values()
            if each.origin is not None and each.origin.group == group
        ]

    def of_session(self, session_id: str) -> list[Registration]:
        """What was registered for one session."""
        return list(self._row(session_id).values())

    def check(self, new: Sequence[Registration], leaving: Collection[Key]) -> None:
        """Raise `DuplicateTool` if one of these could not stand here once `leaving` is gone."""
        added: dict[Key, Registration] = {}
        for each in new:
            at_key = added.get(each.key) or (None if each.key in leaving else self.at(each.key))
            if at_key is not None:
                raise _taken(each, at_key, "")
            self._check_other_level(each, leaving)
            added[each.key] = each

    def put(self, registration: Registration) -> None:
        """Stand it in its place, whatever was there."""
        key = registration.key
        row = self._shared if key.session_id is None else self._own.setdefault(key.session_id, {})
        row[key.name] = registration

    def drop(self, key: Key) -> Registration | None:
        """Take away what stands there."""
        found = self._row(key.session_id).pop(key.name, None)
        if key.session_id is not None and not self._row(key.session_id):
            self._own.pop(key.session_id, None)
        return found

    def _check_other_level(self, new: Registration, leaving: Collection[Key]) -> None:
        name = new.definition.name
        if new.session_id is not None:
            shared = self._shared.get(name)
            if shared is not None and shared.key not in leaving and not new.override:
                hint = "; a tool of one session stands before it only with override=True"
                raise _taken(new, shared, hint)
            return
        for row in self._own.values():
            own = row.get(name)
            if own is not None and own.key not in leaving and not own.override:
                raise _taken(new, own, f", of the session {own.session_id!r} alone")

    def _row(self, session_id: str | None) -> dict[str, Registration]:
        return self._shared if session_id is None else self._own.get(session_id, {})


def _taken(new: Registration, old: Registration, hint: str) -> DuplicateTool:
    where = f"{new.origin}: " if new.origin else ""
    source = f" from {old.origin}" if old.origin else ""
    return DuplicateTool(
        f"{where}there is a tool named {new.definition.name!r} already{source}{hint}"
    )


logger = logging.getLogger(__name__)


class Announcer:
    """Used by one thread at a time: the registry's lock for writers is held meanwhile.

    When a listener changes the registry itself, that is told after the others have heard what it
    was told, so that all of them hear the same order.
    """

    def __init__(self) -> None:
        self._listeners: dict[object, Listener] = {}
        self._waiting: deque[tuple[RegistryChange, ...]] = deque()
        self._is_speaking = False

    def add(self, token: object, listener: Listener) -> None:
        """Tell this listener too."""
        self._listeners[token] = listener

    def remove(self, token: object) -> None:
        """Tell it no more; asking twice changes nothing."""
        self._listeners.pop(token, None)

    def announce(self, changes: tuple[RegistryChange, ...]) -> None:
        """Tell every listener, or have it told by whoever is telling already."""
        if not changes:
            return
        self._waiting.append(changes)
        if self._is_speaking:
            return
        self._is_speaking = True
        try:
            while self._waiting:
                self._tell(self._waiting.popleft())
        finally:
            self._is_speaking = False

    def _tell(self, changes: tuple[RegistryChange, ...]) -> None:
        for token, listener in list(self._listeners.items()):
            if token not in self._listeners:
                continue
            try:
                listener(changes)
            except Exception:
                logger.exception("a listener failed on changed host tools")


@dataclass(frozen=True, slots=True)
class Step:
    """What stood in one place before a change and after it."""

    key: Key
    before: Registration | None
    after: Registration | None


@dataclass(frozen=True, slots=True, eq=False)
class _Journal:
    owner: object
    outer: _Journal | None
    steps: list[Step] = field(default_factory=list[Step])


_JOURNAL: ContextVar[_Journal | None] = ContextVar("toolcrib_host_tools_journal", default=None)


def write_down(owner: object, steps: Sequence[Step]) -> None:
    """Add to the journal that the running code keeps for `owner`, if it keeps one."""
    journal = _JOURNAL.get()
    while journal is not None and journal.owner is not owner:
        journal = journal.outer
    if journal is not None:
        journal.steps.extend(steps)


@contextmanager
def taken_back_on_error(
    owner: object, take_back: Callable[[Sequence[Step]], None]
) -> Generator[Sequence[Step]]:
    """Keep a journal of `owner` for a block, and hand it to `take_back` if the block raises.

    The block gets to see what is written down.
    """
    journal = _Journal(owner, _JOURNAL.get())
    token = _JOURNAL.set(journal)
    try:
        yield journal.steps
    except BaseException:
        _JOURNAL.reset(token)
        take_back(journal.steps)
        raise
    _JOURNAL.reset(token)
    # A block around this one may still fail, and takes this one back with it.
    write_down(owner, journal.steps)


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

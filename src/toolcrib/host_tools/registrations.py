"""The registrations behind a host tool registry: which tools there are, who hears of changes, and
how a failed block of changes is rolled back.

`RegistrationTable` is the plain, unlocked data. `Registrations` puts it behind locks: every edit
is checked, applied, reported to the listeners, and can be rolled back.
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

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a tool was loaded from: a file, a module or a plugin, and the place in it."""

    group: str
    """The unit that is loaded, and reloaded, as a whole."""
    place: str = ""

    def __str__(self) -> str:
        return self.group + self.place


@dataclass(frozen=True, slots=True)
class RegistrationKey:
    """A tool name, for one session or (None) for all sessions."""

    session_id: str | None
    name: str


@dataclass(frozen=True, slots=True)
class Registration:
    """A registered definition. `number` is its position in the order of all registrations."""

    definition: HostToolDefinition
    number: int
    session_id: str | None = None
    override: bool = False
    """Whether it may take precedence over a tool of the same name from elsewhere."""
    origin: Origin | None = None

    @property
    def key(self) -> RegistrationKey:
        """The key it is registered under."""
        return RegistrationKey(self.session_id, self.definition.name)

    def replacing(self, old: Registration) -> Registration:
        """This registration at the position of `old`. An equal definition stays the same object,
        so that sessions keep the handlers made from it.
        """
        definition = old.definition if old.definition == self.definition else self.definition
        return replace(self, definition=definition, number=old.number)


@dataclass(frozen=True, slots=True)
class RegistryChange:
    """A tool was added (`old` is None), replaced, or removed (`new` is None), for one session or
    (None) for all sessions.
    """

    name: str
    old: HostToolDefinition | None
    new: HostToolDefinition | None
    session_id: str | None = None


ChangeListener: TypeAlias = Callable[[tuple[RegistryChange, ...]], None]
"""Called with the changes of one edit, in the thread that made it. It must not block."""


class RegistrationTable:
    """Registrations by session and name. Not locked: `Registrations` holds the lock.

    A session sees its own tools and those of all sessions. When two share a name, it sees its own.
    """

    def __init__(self) -> None:
        self._shared: dict[str, Registration] = {}
        self._own: dict[str, dict[str, Registration]] = {}
        self._numbers = count(1)

    def next_number(self) -> int:
        """The position of the next registration in the order of all registrations."""
        return next(self._numbers)

    def at(self, key: RegistrationKey) -> Registration | None:
        """The registration under exactly this key."""
        return self._row(key.session_id).get(key.name)

    def find(self, name: str, session_id: str | None) -> Registration | None:
        """The tool of that name that a session sees; without a session, the shared one."""
        own = None if session_id is None else self.at(RegistrationKey(session_id, name))
        return own or self._shared.get(name)

    def visible(self, session_id: str | None) -> list[Registration]:
        """The registrations that a session sees, in the order of registration."""
        rows = self._shared if session_id is None else self._shared | self._row(session_id)
        return sorted(rows.values(), key=lambda registration: registration.number)

    def names(self) -> set[str]:
        """The names of all registrations, those of single sessions included."""
        return {name for row in (self._shared, *self._own.values()) for name in row}

    def of_group(self, group: str) -> list[Registration]:
        """The registrations loaded from one file, module or plugin."""
        return [
            registration
            for row in (self._shared, *self._own.values())
            for registration in row.values()
            if registration.origin is not None and registration.origin.group == group
        ]

    def of_session(self, session_id: str) -> list[Registration]:
        """The registrations made for one session."""
        return list(self._row(session_id).values())

    def check(self, new: Sequence[Registration], removed: Collection[RegistrationKey]) -> None:
        """Raise `DuplicateTool` if a new registration clashes once `removed` is gone."""
        added: dict[RegistrationKey, Registration] = {}
        for registration in new:
            key = registration.key
            existing = added.get(key) or (None if key in removed else self.at(key))
            if existing is not None:
                raise _duplicate(registration, existing, "")
            self._check_other_level(registration, removed)
            added[key] = registration

    def put(self, registration: Registration) -> None:
        """Store a registration under its key, in place of any other."""
        key = registration.key
        row = self._shared if key.session_id is None else self._own.setdefault(key.session_id, {})
        row[key.name] = registration

    def drop(self, key: RegistrationKey) -> None:
        """Remove the registration under this key, if there is one."""
        self._row(key.session_id).pop(key.name, None)
        if key.session_id is not None and not self._row(key.session_id):
            self._own.pop(key.session_id, None)

    def _check_other_level(self, new: Registration, removed: Collection[RegistrationKey]) -> None:
        """A session's tool and a shared tool share a name only if the session's one overrides."""
        name = new.definition.name
        if new.session_id is not None:
            shared = self._shared.get(name)
            if shared is not None and shared.key not in removed and not new.override:
                hint = "; a tool of one session takes precedence only with override=True"
                raise _duplicate(new, shared, hint)
            return
        for row in self._own.values():
            own = row.get(name)
            if own is not None and own.key not in removed and not own.override:
                raise _duplicate(new, own, f", for the session {own.session_id!r} only")

    def _row(self, session_id: str | None) -> dict[str, Registration]:
        return self._shared if session_id is None else self._own.get(session_id, {})


def _duplicate(new: Registration, old: Registration, hint: str) -> DuplicateTool:
    where = f"{new.origin}: " if new.origin else ""
    source = f" from {old.origin}" if old.origin else ""
    return DuplicateTool(
        f"{where}there is a tool named {new.definition.name!r} already{source}{hint}"
    )


class ChangeNotifier:
    """Calls the listeners with changes, in the order of the changes.

    Used by one thread at a time, under the writers' lock. A listener may change the registry: its
    changes are queued until all listeners have heard the current ones, so that every listener
    hears the same order.
    """

    def __init__(self) -> None:
        self._listeners: dict[object, ChangeListener] = {}
        self._queue: deque[tuple[RegistryChange, ...]] = deque()
        self._is_notifying = False

    def add(self, token: object, listener: ChangeListener) -> None:
        """Add a listener; `token` removes it."""
        self._listeners[token] = listener

    def remove(self, token: object) -> None:
        """Remove a listener. Removing it twice changes nothing."""
        self._listeners.pop(token, None)

    def notify(self, changes: tuple[RegistryChange, ...]) -> None:
        """Call every listener, or queue the changes when called from within a listener."""
        if not changes:
            return
        self._queue.append(changes)
        if self._is_notifying:
            return
        self._is_notifying = True
        try:
            while self._queue:
                self._call_listeners(self._queue.popleft())
        finally:
            self._is_notifying = False

    def _call_listeners(self, changes: tuple[RegistryChange, ...]) -> None:
        for token, listener in list(self._listeners.items()):
            # A listener before this one may have removed it.
            if token not in self._listeners:
                continue
            try:
                listener(changes)
            except Exception:
                logger.exception("a listener failed on changed host tools")


@dataclass(frozen=True, slots=True)
class RegistrationEdit:
    """The registration under one key before and after an edit."""

    key: RegistrationKey
    before: Registration | None
    after: Registration | None

    def inverse(self) -> RegistrationEdit:
        """The edit that undoes this one."""
        return RegistrationEdit(self.key, self.after, self.before)

    def change(self) -> RegistryChange | None:
        """The edit as listeners hear it; None when the definition stays equal."""
        old = self.before.definition if self.before else None
        new = self.after.definition if self.after else None
        if old == new:
            return None
        return RegistryChange(self.key.name, old, new, self.key.session_id)


@dataclass(frozen=True, slots=True, eq=False)
class _Journal:
    owner: object
    outer: _Journal | None
    edits: list[RegistrationEdit] = field(default_factory=list[RegistrationEdit])


# Per task and thread: a block rolls back its own edits, never those of concurrent code.
_JOURNAL: ContextVar[_Journal | None] = ContextVar("toolcrib_host_tools_journal", default=None)


class Registrations:
    """The registrations of one registry, safe for any number of threads.

    Readers never wait for listeners. Writers do, so that all listeners hear all changes in one
    order.
    """

    def __init__(self) -> None:
        self._table = RegistrationTable()
        self._notifier = ChangeNotifier()
        self._read_lock = threading.Lock()
        # Reentrant: a listener may write in its turn, in the same thread.
        self._write_lock = threading.RLock()

    @contextmanager
    def reading(self) -> Generator[RegistrationTable]:
        """The table while nothing changes in it. For short reads: the lock is held."""
        with self._read_lock:
            yield self._table

    def writing(self) -> AbstractContextManager[object]:
        """Keep other writers out over several edits."""
        return self._write_lock

    def edit(
        self, remove: Iterable[RegistrationKey], add: Iterable[Registration]
    ) -> tuple[RegistryChange, ...]:
        """Remove some registrations and add others, in one step.

        Raises `DuplicateTool`, and then nothing has changed.
        """
        removed, added = list(remove), list(add)
        by_key = {registration.key: registration for registration in added}
        with self._write_lock:
            with self._read_lock:
                self._table.check(added, set(removed))
                edits = [
                    RegistrationEdit(key, before, by_key.get(key))
                    for key in dict.fromkeys([*removed, *by_key])
                    if (before := self._table.at(key)) is not None or key in by_key
                ]
            self._record(edits)
            return self._apply(edits)

    def subscribe(self, listener: ChangeListener) -> Callable[[], None]:
        """Call `listener` on every change; returns the function that unsubscribes it."""
        token = object()
        with self._write_lock:
            self._notifier.add(token, listener)

        def unsubscribe() -> None:
            with self._write_lock:
                self._notifier.remove(token)

        return unsubscribe

    @contextmanager
    def all_or_nothing(self) -> Generator[Sequence[RegistrationEdit]]:
        """Roll back the edits of a block if it raises. The block gets the list of its edits."""
        journal = _Journal(self, _JOURNAL.get())
        token = _JOURNAL.set(journal)
        try:
            yield journal.edits
        except BaseException:
            _JOURNAL.reset(token)
            self._roll_back(journal.edits)
            raise
        _JOURNAL.reset(token)
        # A block around this one may still fail, and then rolls back these edits too.
        self._record(journal.edits)

    def _record(self, edits: Sequence[RegistrationEdit]) -> None:
        """Add edits to the journal that the running code keeps for these registrations, if any."""
        journal = _JOURNAL.get()
        while journal is not None and journal.owner is not self:
            journal = journal.outer
        if journal is not None:
            journal.edits.extend(edits)

    def _roll_back(self, edits: Sequence[RegistrationEdit]) -> None:
        with self._write_lock:
            for edit in reversed(edits):
                with self._read_lock:
                    # Other code may have changed it since; its change stays.
                    is_current = self._table.at(edit.key) is edit.after
                if is_current:
                    self._apply([edit.inverse()])

    def _apply(self, edits: Collection[RegistrationEdit]) -> tuple[RegistryChange, ...]:
        with self._read_lock:
            for edit in edits:
                if edit.after is None:
                    self._table.drop(edit.key)
                else:
                    self._table.put(edit.after)
        changes = tuple(change for edit in edits if (change := edit.change()) is not None)
        self._notifier.notify(changes)
        return changes

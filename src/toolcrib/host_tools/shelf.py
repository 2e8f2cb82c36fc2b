"""Registrations by session and name, and which of them may stand side by side."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import count

from toolcrib.errors import DuplicateTool
from toolcrib.host_tools.registration import Key, Registration


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

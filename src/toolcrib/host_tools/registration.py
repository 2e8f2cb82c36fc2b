"""What a registry holds, and what it says when that changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

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

"""The names of arguments: an argument with an alias goes by the key in the schema, by the name of
its field, and by each further alias.

Canonical arguments have the key in the schema. Whoever writes a rule or an edit may know the other
names only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from toolcrib.tools.secrets import ArgumentShape, shape_of

Spellings = Mapping[str, tuple[str, ...]]
"""The keys in the schema by each other name. One name may stand for other keys in other objects."""


@dataclass(frozen=True, slots=True)
class UnknownPlace:
    """Where a pointer leaves the schema: the name that is not there, and those that are.

    `is_certain` says that nothing else may stand there: the schema refuses other keys.
    """

    name: str
    known: tuple[str, ...]
    is_certain: bool


class ArgumentNames:
    """The names of the arguments of one tool, with the places where they are used."""

    __slots__ = ("shape", "spellings")

    def __init__(self, schema: Mapping[str, Any], spellings: Spellings) -> None:
        self.shape = shape_of(schema)
        self.spellings = spellings

    def keys(self, name: str, shape: ArgumentShape | None) -> tuple[str, ...]:
        """Return the keys that `name` may mean in an object of this shape, itself first.

        Itself even where the shape has no such key: an object may take any further keys.
        """
        others = self.spellings.get(name, ())
        return (name, *(key for key in others if shape is not None and key in shape.properties))

    def first_unknown(self, path: Sequence[str]) -> UnknownPlace | None:
        """Return where the schema ends on a path of keys, indices and `*`, if it does."""
        shapes: list[ArgumentShape] = [self.shape]
        for name in path:
            below = [inner for shape in shapes for inner in self._below(shape, name)]
            if not below:
                known = {key: None for shape in shapes for key in shape.properties}
                others = (
                    other
                    for other, keys in self.spellings.items()
                    if not known.keys().isdisjoint(keys)
                )
                is_certain = all(shape.is_closed for shape in shapes)
                return UnknownPlace(name, (*known, *others), is_certain)
            shapes = below
        return None

    def _below(self, shape: ArgumentShape, name: str) -> list[ArgumentShape]:
        if name == "*":
            return shape.members()
        keys = [key for key in self.keys(name, shape) if key in shape.properties]
        members: list[ArgumentShape | None] = [shape.properties[key] for key in keys]
        members += [] if keys else [shape.others]
        members += [shape.member(int(name))] if name.isdecimal() else []
        return [member for member in members if member is not None]

    def respell(self, value: Any, shape: ArgumentShape | None) -> Any:
        """Return JSON of this shape in which every object has the keys of the schema.

        A key stays where the schema has it, and where its argument is there under its own key too.
        """
        if shape is None:
            return value
        if isinstance(value, list):
            elements = enumerate(cast("list[Any]", value))
            return [self.respell(element, shape.member(index)) for index, element in elements]
        if not isinstance(value, dict):
            return value
        members = cast("dict[str, Any]", value)
        respelt: dict[str, Any] = {}
        for name, member in members.items():
            keys = self.keys(name, shape)
            is_other = len(keys) == 2 and name not in shape.properties and keys[1] not in members
            key = keys[1] if is_other and keys[1] not in respelt else name
            respelt[key] = self.respell(member, shape.member(key))
        return respelt

"""Patterns: what a rule or a grant says about one argument, which a JSON pointer names. `*` in a
pointer stands for every element.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Literal, assert_never, cast

from toolcrib.approval.globs import Stance, check_regex, is_plain_path, path_matches, regex_matches
from toolcrib.errors import InvalidPolicy
from toolcrib.yaml_source import Scalar

if TYPE_CHECKING:
    from toolcrib.tools.argument_names import ArgumentNames
    from toolcrib.tools.secrets import ArgumentShape

_BAD_ESCAPE = re.compile(r"~(?![01])")
_INDEX = re.compile(r"0|[1-9][0-9]*")


Json = Mapping[str, Any]


class Missing(Enum):
    """Marks a pointer that leads nowhere; unlike `None` it is no JSON value."""

    MISSING = "missing"


MISSING: Final = Missing.MISSING


def check_pointer(pointer: str) -> None:
    """Refuse a text that is not a JSON pointer. The empty pointer means all arguments together."""
    if pointer and not pointer.startswith("/"):
        raise InvalidPolicy(f'{pointer!r} is not a JSON pointer; write "/{pointer}"')
    if _BAD_ESCAPE.search(pointer):
        raise InvalidPolicy(f"{pointer!r} is not a JSON pointer; write ~0 for ~ and ~1 for /")


def resolve(
    pointer: str, arguments: Mapping[str, Any], names: ArgumentNames | None = None
) -> tuple[Any, ...]:
    """Return every value at `pointer`, with `MISSING` for each branch that leads nowhere.

    With `names`, a segment stands for every argument that goes by it.
    """
    return tuple(value for value, _ in places_at(pointer, arguments, names))


def segments(pointer: str) -> list[str]:
    """Return the keys and indices that a JSON pointer consists of."""
    parts = pointer.split("/")[1:]
    return [part.replace("~1", "/").replace("~0", "~") for part in parts]


ArgumentPlace = tuple[object, "ArgumentShape | None"]
"""A value, and what the schema says about it where that is known."""


def places_at(
    pointer: str, arguments: Json, names: ArgumentNames | None
) -> tuple[ArgumentPlace, ...]:
    """Return every value at `pointer` with its shape; `resolve` has the values alone."""
    places: tuple[ArgumentPlace, ...] = ((arguments, names.shape if names else None),)
    for segment in segments(pointer):
        places = tuple(inner for place in places for inner in _step(place, segment, names))
    return places


def _step(place: ArgumentPlace, key: str, names: ArgumentNames | None) -> Iterable[ArgumentPlace]:
    value, shape = place
    if isinstance(value, Mapping):
        members = cast("Mapping[str, object]", value)
        keys = members.keys() if key == "*" else _keys(members, key, shape, names)
        places = [(members.get(name, MISSING), shape and shape.member(name)) for name in keys]
        return places or _nowhere(key)
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        elements = cast("Sequence[object]", value)
        indices = range(len(elements)) if key == "*" else _indices(elements, key)
        return [(elements[index], shape and shape.member(index)) for index in indices] or _nowhere(
            key
        )
    return ((MISSING, None),)


def _nowhere(key: str) -> Iterable[ArgumentPlace]:
    return () if key == "*" else ((MISSING, None),)


def _keys(
    members: Mapping[str, object],
    name: str,
    shape: ArgumentShape | None,
    names: ArgumentNames | None,
) -> list[str]:
    """The keys that a name stands for. One that the schema has counts also where it is missing: of
    two arguments that go by one name, the one that is there must not speak for the other.
    """
    keys = (name,) if names is None else names.keys(name, shape)
    declared = () if shape is None else shape.properties
    return [key for key in keys if key in members or key in declared]


def _indices(elements: Sequence[object], key: str) -> Sequence[int]:
    is_there = _INDEX.fullmatch(key) and int(key) < len(elements)
    return (int(key),) if is_there else ()


@dataclass(frozen=True, slots=True)
class Equals:
    """Exactly this JSON value. Types count: true is not 1, and "1" is not 1."""

    value: Any
    kind: Literal["equals"] = "equals"


@dataclass(frozen=True, slots=True)
class Glob:
    """A name or path: `*` stops at "/", `**` does not. Not for command lines."""

    glob: str
    kind: Literal["glob"] = "glob"

    def __post_init__(self) -> None:
        if not self.glob:
            raise InvalidPolicy('an empty glob matches nothing; write "**" for any path')


@dataclass(frozen=True, slots=True)
class Regex:
    """A regular expression that must match the whole value; runs in linear time."""

    regex: str
    kind: Literal["regex"] = "regex"

    def __post_init__(self) -> None:
        check_regex(self.regex)


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of these scalars, each compared as `Equals` does."""

    one_of: tuple[Scalar, ...]
    kind: Literal["one_of"] = "one_of"

    def __post_init__(self) -> None:
        if not self.one_of:
            raise InvalidPolicy("one_of is empty and matches nothing; list at least one value")


@dataclass(frozen=True, slots=True)
class Between:
    """A number from `min` to `max`, both inclusive; either may be omitted."""

    min: int | float | None = None
    max: int | float | None = None
    kind: Literal["between"] = "between"

    def __post_init__(self) -> None:
        limits = [limit for limit in (self.min, self.max) if limit is not None]
        if not limits or not all(_is_number(limit) and math.isfinite(limit) for limit in limits):
            raise InvalidPolicy("a range needs min, max or both, as finite numbers")
        if limits[0] > limits[-1]:
            raise InvalidPolicy(f"min {self.min} is above max {self.max}; swap them")


@dataclass(frozen=True, slots=True)
class Not:
    """Anything of the right type that `pattern` does not match."""

    pattern: Pattern
    kind: Literal["not"] = "not"


Pattern = Equals | Glob | Regex | OneOf | Between | Not
Patterns = Mapping[str, Pattern]
"""Patterns by the JSON pointer of their argument; all of them must match."""


def checked_patterns(patterns: Patterns) -> Patterns:
    """Return a copy of `patterns`. Refuses pointers and patterns that can never match."""
    for pointer, pattern in patterns.items():
        check_pointer(pointer)
        # Callers without a type checker pass plain values, and those would never match.
        if not isinstance(cast("object", pattern), Pattern):
            raise InvalidPolicy(f"{pointer}: {pattern!r} is not a pattern; write Equals(...)")
    return dict(patterns)


def first_mismatch(
    patterns: Patterns, arguments: Json, stance: Stance, names: ArgumentNames | None = None
) -> str | None:
    """Return the first pointer whose pattern does not match, or `None` when all match."""
    for pointer, pattern in patterns.items():
        places = places_at(pointer, arguments, names)
        verdicts = [
            value is not MISSING and matches(respelt(pattern, shape, names), value, stance)
            for value, shape in places
        ]
        # Behind a `*`, and under two names, one bad value must stop an allow, and is enough for a
        # deny.
        is_match = any(verdicts) if stance == "wide" else bool(verdicts) and all(verdicts)
        if not is_match:
            return pointer
    return None


def respelt(pattern: Pattern, shape: ArgumentShape | None, names: ArgumentNames | None) -> Pattern:
    """Return the pattern with the keys of the schema in the objects that it compares with."""
    match pattern:
        case Equals() if names is not None:
            return Equals(names.respell(pattern.value, shape))
        case Not(pattern=inner):
            return Not(respelt(inner, shape, names))
        case _:
            return pattern


def matches(pattern: Pattern, value: object, stance: Stance) -> bool:
    """Whether the whole of `value` matches `pattern`."""
    match pattern:
        case Equals():
            return _is_same(pattern.value, value)
        case Glob():
            return isinstance(value, str) and path_matches(pattern.glob, value, stance)
        case Regex():
            return isinstance(value, str) and regex_matches(pattern.regex, value, stance)
        case OneOf():
            return any(_is_same(option, value) for option in pattern.one_of)
        case Between():
            return _is_within(pattern, value if stance == "narrow" else _as_number(value))
        case Not(pattern=inner):
            # Doubt changes sides under a negation: what a deny may not miss, an allow may not use.
            if stance == "wide":
                return not matches(inner, value, "narrow")
            return _can_judge(inner, value) and not matches(inner, value, "wide")
    assert_never(pattern)


def _can_judge(pattern: Pattern, value: object) -> bool:
    """Whether `pattern` applies to values of this type, so that a mismatch means something."""
    match pattern:
        case Equals() | OneOf():
            return isinstance(value, Scalar)
        case Glob():
            return isinstance(value, str) and is_plain_path(value)
        case Regex():
            return isinstance(value, str)
        case Between():
            return _is_number(value)
        case Not(pattern=inner):
            return _can_judge(inner, value)
    assert_never(pattern)


def _is_within(pattern: Between, value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return False
    is_low = pattern.min is not None and not value >= pattern.min
    is_high = pattern.max is not None and not value <= pattern.max
    return not is_low and not is_high


def _as_number(value: object) -> object:
    """The number that a text spells: a decimal with more digits than a number has is a text."""
    if not isinstance(value, str):
        return value
    try:
        number = Decimal(value)
    except ArithmeticError:
        return value
    return value if number.is_nan() else number


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_same(left: object, right: object) -> bool:
    """JSON equality: types count, but JSON has one kind of number."""
    match left, right:
        case (Mapping(), Mapping()):
            return _are_same_objects(cast("Json", left), cast("Json", right))
        case (list() | tuple(), list() | tuple()):
            return _are_same_arrays(cast("Sequence[object]", left), cast("Sequence[object]", right))
        case _ if _is_number(left) and _is_number(right):
            return left == right
        case _:
            return type(left) is type(right) and left == right


def _are_same_objects(left: Json, right: Json) -> bool:
    return left.keys() == right.keys() and all(_is_same(left[key], right[key]) for key in left)


def _are_same_arrays(left: Sequence[object], right: Sequence[object]) -> bool:
    return len(left) == len(right) and all(map(_is_same, left, right))

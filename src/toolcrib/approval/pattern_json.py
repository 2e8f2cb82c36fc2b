"""Patterns as people write them in policy files and at the terminal."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, assert_never, cast

from toolcrib.approval.pattern import (
    Between,
    Equals,
    Glob,
    Not,
    OneOf,
    Pattern,
    Patterns,
    Regex,
    checked_patterns,
)
from toolcrib.errors import InvalidPolicy
from toolcrib.yaml_source import Scalar, unknown_key

_KEYS = ("glob", "regex", "one_of", "min", "max", "not")
_ONE_KEY = "a pattern has one of glob, regex, one_of, not, or min and max"


def read_patterns(written: object) -> Patterns:
    """Read patterns by pointer from JSON. Raises `InvalidPolicy`."""
    if not isinstance(written, Mapping):
        raise InvalidPolicy('arguments are written as {"/pointer": pattern}')
    members = cast("Mapping[str, object]", written)
    return checked_patterns({at: read_pattern(pattern) for at, pattern in members.items()})


def read_pattern(written: object) -> Pattern:
    """Read one pattern from JSON: a scalar means itself, an object names the kind of pattern."""
    if isinstance(written, Scalar):
        return Equals(written)
    if not isinstance(written, Mapping):
        raise InvalidPolicy("a pattern is not a list; write {one_of: [...]}")
    members = cast("Mapping[str, object]", written)
    for key in members:
        check_key(key, _KEYS)
    return _read_object(members)


def check_key(key: str, known: Iterable[str]) -> None:
    """Refuse a key that is not among the `known` ones."""
    names = tuple(known)
    if key not in names:
        raise InvalidPolicy(unknown_key(key, names))


def pattern_text(pattern: Pattern) -> str:
    """Return the pattern on one line, as a policy file writes it."""
    return json.dumps(write_pattern(pattern), ensure_ascii=False)


def write_pattern(pattern: Pattern) -> Any:
    """Return the JSON from which `read_pattern` reads the pattern."""
    match pattern:
        case Equals(value=value):
            return value
        case Glob(glob=glob):
            return {"glob": glob}
        case Regex(regex=regex):
            return {"regex": regex}
        case OneOf(one_of=options):
            return {"one_of": list(options)}
        case Between(min=low, max=high):
            limits = {"min": low, "max": high}
            return {name: limit for name, limit in limits.items() if limit is not None}
        case Not(pattern=inner):
            return {"not": write_pattern(inner)}
    assert_never(pattern)


def _read_object(members: Mapping[str, object]) -> Pattern:
    match dict(members):
        case {"glob": glob, **rest} if not rest:
            return Glob(_text("glob", glob))
        case {"regex": regex, **rest} if not rest:
            return Regex(_text("regex", regex))
        case {"one_of": options, **rest} if not rest:
            return OneOf(_options(options))
        case {"not": inner, **rest} if not rest:
            return Not(read_pattern(inner))
        case limits if limits and limits.keys() <= {"min", "max"}:
            return Between(min=_limit("min", limits), max=_limit("max", limits))
        case _:
            raise InvalidPolicy(_ONE_KEY)


def _text(key: str, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidPolicy(f"{key} is {json.dumps(value)}; write text in quotes")
    return value


def _options(value: object) -> tuple[Scalar, ...]:
    options = cast("list[object]", value) if isinstance(value, list | tuple) else None
    if options is None or not all(isinstance(option, Scalar) for option in options):
        raise InvalidPolicy("one_of takes a list of texts, numbers, true, false or null")
    return tuple(cast("list[Scalar]", options))


def _limit(key: str, limits: Mapping[str, object]) -> int | float | None:
    if key not in limits:
        return None
    value = limits[key]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidPolicy(f"{key} is {json.dumps(value)}; write a number")
    return value

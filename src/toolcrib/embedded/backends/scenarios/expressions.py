"""Expressions `{{ … }}` in a scenario, which stand for the answers of the tools of this run.

`{{ sales.rows.0.total }}` walks into an answer. `{{ sales.total | round 2 }}` shapes a value.
`{{ cite web 0 }}` cites the source of a result. `{{ "{{" }}` is text as it stands. There are no
defaults: a value that no tool answered is a `MissingFact`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

_EXPRESSION: Final = re.compile(r"\{\{\s*(.+?)\s*\}\}", re.DOTALL)
_CITE: Final = re.compile(r"cite\s+([A-Za-z_][\w-]*)(?:\s+([0-9]+))?")
_PATH: Final = re.compile(r"[A-Za-z_][\w-]*(?:\.[\w-]+)*")


class MissingFact(Exception):
    """A scenario refers to a fact that no tool of this run answered."""


@dataclass(frozen=True, slots=True)
class Fact:
    """The answer of one call: its text, its value, and the marks of its sources."""

    text: str
    value: Any = None
    marks: Sequence[str] = ()


@dataclass(slots=True)
class Facts:
    """The facts of a run by the names of their calls."""

    by_name: dict[str, Fact] = field(default_factory=dict[str, Fact])

    def __getitem__(self, name: str) -> Fact:
        """Raises `MissingFact`."""
        if name not in self.by_name:
            raise MissingFact(f"no call of this run is named {name!r}")
        return self.by_name[name]


def filled(value: Any, facts: Facts) -> Any:
    """A value of the scenario with its expressions filled in. Text that is one expression keeps
    the type of its value. Raises `MissingFact`.
    """
    if isinstance(value, str):
        whole = _EXPRESSION.fullmatch(value.strip())
        if whole is not None and "{{" not in whole[1]:
            return _evaluated(whole[1], facts)
        return _EXPRESSION.sub(lambda match: _shown(_evaluated(match[1], facts)), value)
    if isinstance(value, Mapping):
        members = cast(Mapping[str, Any], value)
        return {key: filled(member, facts) for key, member in members.items()}
    if isinstance(value, Sequence):
        return [filled(member, facts) for member in cast(Sequence[Any], value)]
    return value


def filled_text(text: str, facts: Facts) -> str:
    """Fill in the expressions of a text; the result is always text."""
    return _shown(filled(text, facts))


def _evaluated(expression: str, facts: Facts) -> Any:
    cite = _CITE.fullmatch(expression)
    if cite is not None:
        return _cited(facts[cite[1]], cite[1], int(cite[2] or 0))
    if expression.startswith('"'):
        return _literal(expression)
    path, *filters = (part.strip() for part in expression.split("|"))
    if not _PATH.fullmatch(path):
        raise MissingFact(f"{expression!r} is no path; write NAME.KEY.KEY")
    value = _walked(path, facts)
    for call in filters:
        name, *arguments = call.split(None, 1)
        value = _filter(name)(value, arguments[0] if arguments else "")
    return value


def _literal(expression: str) -> str:
    try:
        return str(json.loads(expression))
    except ValueError:
        raise MissingFact(f"{expression!r} is no text in quotes") from None


def _cited(fact: Fact, name: str, place: int) -> str:
    if place >= len(fact.marks):
        raise MissingFact(f"{name!r} has no source {place}; it answered with {len(fact.marks)}")
    return f"[{fact.marks[place]}]"


def _walked(path: str, facts: Facts) -> Any:
    head, *rest = path.split(".")
    fact = facts[head]
    if rest == ["text"]:
        return fact.text
    value = fact.value
    for key in rest:
        value = _member(value, key, path)
    if value is None:
        raise MissingFact(f"{path!r} was not answered: {fact.text[:200]!r}")
    return value


def _member(value: Any, key: str, path: str) -> Any:
    if isinstance(value, Mapping) and key in value:
        return cast(Mapping[str, Any], value)[key]
    if isinstance(value, list) and key.isdecimal() and int(key) < len(cast(list[Any], value)):
        return cast(list[Any], value)[int(key)]
    raise MissingFact(f"{path!r} was not answered: there is no {key!r}")


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def _rounded(value: Any, argument: str) -> Any:
    places = int(argument or 0)
    return round(value) if places == 0 else round(value, places)


def _grouped(value: Any, argument: str) -> str:
    return f"{value:,.{int(argument or 0)}f}"


def _percent(value: Any, argument: str) -> str:
    return f"{value:.{int(argument or 0)}%}"


def _length(value: Any, argument: str) -> int:
    return len(value)


def _first_line(value: Any, argument: str) -> str:
    lines = str(value).strip().splitlines()
    return lines[0] if lines else ""


def _as_json(value: Any, argument: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _parsed(value: Any, argument: str) -> Any:
    return json.loads(value)


def _joined(value: Any, argument: str) -> str:
    return (argument or ", ").join(map(_shown, value))


_FILTERS: Final[Mapping[str, Callable[[Any, str], Any]]] = {
    "round": _rounded,
    "group": _grouped,
    "percent": _percent,
    "length": _length,
    "first_line": _first_line,
    "json": _as_json,
    "parse": _parsed,
    "join": _joined,
}


def _filter(name: str) -> Callable[[Any, str], Any]:
    """A filter by name. It raises `MissingFact` for a value of the wrong type."""
    known = _FILTERS.get(name)
    if known is None:
        raise MissingFact(f"there is no filter {name!r}; there are {', '.join(_FILTERS)}")

    def apply(value: Any, argument: str) -> Any:
        try:
            return known(value, argument)
        except (TypeError, ValueError) as error:
            raise MissingFact(f"{name} cannot be applied to {str(value)[:80]!r}") from error

    return apply

"""Finds in what a brain said the values that tools had answered, and names them by expressions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from toolcrib.local.brains.scripted.expressions import Fact, Facts, filled_text

SHORTEST: Final = 3
"""Shorter texts are in other words by chance."""

_KEY: Final = re.compile(r"[\w-]+")
_NUMBER: Final = re.compile(r"(?<![\w.])-?[0-9][0-9,]*(?:\.[0-9]+)?%?(?![\w])")
_MARK: Final = re.compile(r"\[(S[0-9]+)\]")
_MOST_PLACES: Final = 6


@dataclass(frozen=True, slots=True)
class Leaf:
    """A value in an answer, and the path to it."""

    path: str
    value: Any


@dataclass(slots=True)
class Tracer:
    """Knows what was answered so far, and what the user said. `untraced` gathers the numbers of
    which neither is the source.
    """

    facts: Facts
    said: str
    untraced: list[str] = field(default_factory=list[str])

    def value(self, value: Any) -> Any:
        """A JSON value with expressions in place of what tools had answered."""
        if isinstance(value, str):
            return self._exact(value) or self.text(value)
        if isinstance(value, Mapping):
            members = cast(Mapping[str, Any], value)
            return {key: self.value(member) for key, member in members.items()}
        if isinstance(value, Sequence):
            members = cast(Sequence[Any], value)
            whole = self._exact(list(members)) if members else None
            return whole or [self.value(member) for member in members]
        if isinstance(value, bool) or value is None:
            return value
        return value if str(value) in self.said else self._exact(value) or self._number(value)

    def text(self, text: str) -> str:
        """The same for text, in which values are found within."""
        pieces: list[str] = []
        last = 0
        for start, end, expression in self._found(text):
            if start >= last:
                pieces += [_escaped(text[last:start]), f"{{{{ {expression} }}}}"]
                last = end
        return "".join([*pieces, _escaped(text[last:])])

    def _exact(self, value: Any) -> str | None:
        """The expression for a whole value, if it was answered as it is."""
        if isinstance(value, str) and len(value) < SHORTEST:
            return None
        for leaf in self._leaves():
            if type(leaf.value) is type(value) and leaf.value == value:
                return f"{{{{ {leaf.path} }}}}"
        return None

    def _number(self, value: Any) -> Any:
        rounded = self._shaped(str(value))
        if rounded is None:
            self.untraced.append(str(value))
            return value
        return f"{{{{ {rounded} }}}}"

    def _found(self, text: str) -> list[tuple[int, int, str]]:
        """The places of values: the longer of two that overlap, and of numbers those that are
        not the user's own.
        """
        places = [*self._marks(text), *self._texts(text), *self._numbers(text)]
        longest: list[tuple[int, int, str]] = []
        for place in sorted(places, key=lambda each: (each[0] - each[1], each[0])):
            if all(place[1] <= other[0] or place[0] >= other[1] for other in longest):
                longest.append(place)
        covered = [(start, end) for start, end, _ in longest]
        self._note_untraced(text, covered)
        return sorted(longest)

    def _note_untraced(self, text: str, covered: Sequence[tuple[int, int]]) -> None:
        for number in _NUMBER.finditer(text):
            is_covered = any(a <= number.start() and number.end() <= b for a, b in covered)
            if not is_covered and number[0] not in self.said:
                self.untraced.append(number[0])

    def _marks(self, text: str) -> Iterator[tuple[int, int, str]]:
        for found in _MARK.finditer(text):
            for name, fact in self.facts.by_name.items():
                if found[1] in fact.marks:
                    at = list(fact.marks).index(found[1])
                    yield found.start(), found.end(), f"cite {name} {at}"

    def _texts(self, text: str) -> Iterator[tuple[int, int, str]]:
        for leaf in self._leaves():
            if isinstance(leaf.value, str) and len(leaf.value.strip()) >= SHORTEST:
                pattern = rf"(?<!\w){re.escape(leaf.value)}(?!\w)"
                for found in re.finditer(pattern, text):
                    yield found.start(), found.end(), leaf.path

    def _numbers(self, text: str) -> Iterator[tuple[int, int, str]]:
        for found in _NUMBER.finditer(text):
            if found[0] in self.said:
                continue
            expression = self._shaped(found[0])
            if expression is not None:
                yield found.start(), found.end(), expression

    def _shaped(self, shown: str) -> str | None:
        """The expression that shows a number as it was written: as it is, or shaped."""
        places = min(len(shown.rstrip("%").partition(".")[2]), _MOST_PLACES)
        for shape in ("", f" | round {places}", f" | group {places}", f" | percent {places}"):
            for leaf in self._leaves():
                if isinstance(leaf.value, int | float) and not isinstance(leaf.value, bool):
                    expression = f"{leaf.path}{shape}"
                    if filled_text(f"{{{{ {expression} }}}}", self.facts) == shown:
                        return expression
        return None

    def _leaves(self) -> Iterator[Leaf]:
        """All that was answered, the newest first."""
        for name, fact in reversed(self.facts.by_name.items()):
            yield from _within(name, fact.value)
            yield from _as_text(name, fact)


def _as_text(name: str, fact: Fact) -> Iterator[Leaf]:
    if fact.text:
        yield Leaf(f"{name}.text", fact.text)
        first = fact.text.strip().partition("\n")[0]
        if first != fact.text:
            yield Leaf(f"{name}.text | first_line", first)


def _within(path: str, value: Any) -> Iterator[Leaf]:
    if value is not None:
        yield Leaf(path, value)
    for key, member in _members(value):
        # A key that a path cannot name stays unnamed.
        if _KEY.fullmatch(key):
            yield from _within(f"{path}.{key}", member)


def _members(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        yield from cast(Mapping[str, Any], value).items()
    elif isinstance(value, list):
        for at, member in enumerate(cast(list[Any], value)):
            yield str(at), member


def _escaped(text: str) -> str:
    return text.replace("{{", '{{ "{{" }}')

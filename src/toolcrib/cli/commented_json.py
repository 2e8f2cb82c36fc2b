"""JSON with comments and trailing commas, as editors keep their settings: set or remove one value,
and leave every other character of the text as it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from toolcrib.errors import UsageError

Path = Sequence[str]
"""The keys that lead to a value, from the outermost object inwards."""

_TRIVIA: Final = re.compile(r"(?:\s+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING: Final = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_LITERAL: Final = re.compile(r"(?:true|false|null|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)(?![\w.])")


@dataclass(frozen=True, slots=True)
class Member:
    """A key of an object with its value. `start` is where the key starts; `comma` is the place of
    the comma after the value, if there is one.
    """

    key: str
    start: int
    node: Node
    comma: int | None


@dataclass(frozen=True, slots=True)
class Node:
    """A value and its place in the text. `members` is None unless it is an object."""

    start: int
    end: int
    value: Any
    members: tuple[Member, ...] | None = None

    def member(self, key: str) -> Member | None:
        """The member of that key. Raises `UsageError` when there are two."""
        fitting = [member for member in self.members or () if member.key == key]
        if len(fitting) > 1:
            raise UsageError(f"the key {key!r} is there twice; remove one")
        return fitting[0] if fitting else None


def parse(text: str) -> Node:
    """Read a text. Raises `UsageError` with the line of the first fault."""
    return _JsonText(text).document()


def value_at(text: str, path: Path) -> Any:
    """The value at a path; None when there is none. Raises `UsageError`."""
    node: Node | None = parse(text)
    for key in path:
        member = None if node is None else node.member(key)
        node = None if member is None else member.node
    return None if node is None else node.value


def set_value(text: str, path: Path, value: Any) -> str:
    """The text with a value at a path; objects on the way are made. Raises `UsageError` when
    something on the way is no object.
    """
    text = text if text.strip() else "{}\n"
    return _checked(text, path, _set(text, parse(text), path, value), value)


def remove_value(text: str, path: Path) -> str:
    """The text without the value at a path. Raises `UsageError` when it cannot be read."""
    node = parse(text)
    for key in path[:-1]:
        member = node.member(key)
        if member is None:
            return text
        node = member.node
    if node.member(path[-1]) is None:
        return text
    return _checked(text, path, _without(text, node, path[-1]), _ABSENT)


_ABSENT: Final = object()


def _checked(before: str, path: Path, after: str, value: Any) -> str:
    """`after`, once it is certain that it says what it should and nothing else has changed."""
    expected = parse(before).value
    inner = expected
    for key in path[:-1]:
        inner = inner.setdefault(key, {})
    inner.pop(path[-1], None)
    if value is not _ABSENT:
        inner[path[-1]] = value
    if parse(after).value != expected:
        raise UsageError("the file cannot be changed safely; add the entry yourself")
    return after


def _set(text: str, node: Node, path: Path, value: Any) -> str:
    if node.members is None:
        raise UsageError(f"line {_line(text, node.start)}: this should be an object {{...}}")
    key, *rest = path
    member = node.member(key)
    if member is not None:
        if rest:
            return _set(text, member.node, rest, value)
        new = _rendered(text, value, _indent_at(text, member.start))
        return text[: member.node.start] + new + text[member.node.end :]
    for outer in reversed(rest):
        value = {outer: value}
    return _with_member(text, node, key, value)


def _with_member(text: str, node: Node, key: str, value: Any) -> str:
    newline = "\r\n" if "\r\n" in text else "\n"
    base, close = _indent_at(text, node.start), node.end - 1
    indent, comma = base + _unit(text), ""
    if node.members:
        first, last = node.members[0], node.members[-1]
        if "\n" in text[node.start : first.start]:
            indent = _indent_at(text, first.start)
        if last.comma is None:
            at = last.node.end
            text, close = f"{text[:at]},{text[at:]}", close + 1
        else:
            comma = ","
    # After the comments that follow the last member, which belong to it.
    at = len(text[:close].rstrip())
    written = f"{newline}{indent}{json.dumps(key)}: {_rendered(text, value, indent)}{comma}"
    has_own_line = "\n" in text[at:close]
    ending = text[at:] if has_own_line else f"{newline}{base}{text[close:]}"
    return text[:at] + written + ending


def _without(text: str, node: Node, key: str) -> str:
    members = node.members or ()
    at = next(index for index, member in enumerate(members) if member.key == key)
    member = members[at]
    end = member.node.end if member.comma is None else member.comma + 1
    start = len(text[: member.start].rstrip())
    if "\n" not in text[start : member.start]:
        start = member.start
    after = text[:start] + text[end:]
    if member.comma is None and at > 0 and (comma := members[at - 1].comma) is not None:
        after = after[:comma] + after[comma + 1 :]
    return after


def _rendered(text: str, value: Any, indent: str) -> str:
    lines = json.dumps(value, indent=_unit(text), ensure_ascii=False).split("\n")
    newline = "\r\n" if "\r\n" in text else "\n"
    return f"{newline}{indent}".join(lines)


def _unit(text: str) -> str:
    """What one level is indented by in this text."""
    match = re.search(r"^([ \t]+)\S", text, re.MULTILINE)
    return match[1] if match else "  "


def _indent_at(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 :]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


class _JsonText:
    """Reads a text from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 1 if text.startswith("\ufeff") else 0

    def document(self) -> Node:
        """The whole text."""
        node = self._value()
        if self._next():
            raise self._fault("there is something after the end")
        return node

    def _next(self) -> str:
        """The next character that is no space or comment, without taking it; '' at the end."""
        match = _TRIVIA.match(self._text, self._at)
        self._at = match.end() if match else self._at
        return self._text[self._at : self._at + 1]

    def _fault(self, message: str) -> UsageError:
        return UsageError(f"line {_line(self._text, self._at)}: {message}")

    def _value(self) -> Node:
        match self._next():
            case "{":
                return self._object()
            case "[":
                return self._array()
            case '"':
                return self._string()
            case _:
                start, match = self._at, _LITERAL.match(self._text, self._at)
                if match is None:
                    raise self._fault("here should be a JSON value")
                self._at = match.end()
                return Node(start, self._at, json.loads(match[0]))

    def _string(self) -> Node:
        start, match = self._at, _STRING.match(self._text, self._at)
        try:
            value = json.loads(match[0]) if match else None
        except ValueError:
            value = None
        if match is None or value is None:
            raise self._fault("here should be a text in double quotes")
        self._at = match.end()
        return Node(start, self._at, value)

    def _object(self) -> Node:
        start, members = self._at, list[Member]()
        self._at += 1
        while self._next() != "}":
            if members and members[-1].comma is None:
                raise self._fault("here should be a comma or }")
            key = self._string()
            if self._next() != ":":
                raise self._fault(f"after {key.value!r} should be a colon")
            self._at += 1
            node = self._value()
            members.append(Member(key.value, key.start, node, self._comma()))
        self._at += 1
        value = {member.key: member.node.value for member in members}
        return Node(start, self._at, value, tuple(members))

    def _array(self) -> Node:
        start, values, has_comma = self._at, list[Any](), True
        self._at += 1
        while self._next() != "]":
            if not has_comma:
                raise self._fault("here should be a comma or ]")
            values.append(self._value().value)
            has_comma = self._comma() is not None
        self._at += 1
        return Node(start, self._at, values)

    def _comma(self) -> int | None:
        if self._next() != ",":
            return None
        self._at += 1
        return self._at - 1

"""Strict YAML for files that people write: plain data only, and the line of every value.

Each reader of a file (a policy, host tools, a scenario) catches `InvalidYaml`, adds the name of the
file and raises an error of its own.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from toolcrib.errors import InvalidYaml

if TYPE_CHECKING:
    from yaml import MappingNode, MarkedYAMLError, Node, ScalarNode

Scalar = str | int | float | bool | None

NodePath = Sequence[str | int]
"""The path to a value in a document: keys of mappings and indexes of lists."""

_TAG = "tag:yaml.org,2002:"
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_MAX_DEPTH = 32
_NO_REFERENCES = (
    "anchors (&, *) and tags (!) are not allowed; put text that starts with one in quotes"
)
_WORDS: dict[str, Scalar] = {"true": True, "false": False, "null": None, "~": None, "": None}


@dataclass(frozen=True, slots=True)
class Located:
    """A value with its line: the line of its key where it has one."""

    value: Scalar | tuple[Located, ...] | Mapping[str, Located]
    line: int

    def plain(self) -> Any:
        """Return the value as JSON data, without lines."""
        match self.value:
            case tuple() as items:
                return [item.plain() for item in items]
            case Mapping() as members:
                return {key: member.plain() for key, member in members.items()}
            case scalar:
                return scalar

    def line_at(self, path: NodePath) -> int:
        """Return the line of the value at `path`, or of its closest ancestor that exists."""
        node = self
        for part in path:
            match node.value, part:
                case tuple() as items, int() if part < len(items):
                    node = items[part]
                case Mapping() as members, str() if part in members:
                    node = members[part]
                case _:
                    break
        return node.line


def read_yaml(text: str) -> Located:
    """Parse one document. Raises `InvalidYaml` with the line of whatever is not plain data."""
    import yaml

    try:
        _check_events(text)
        node = yaml.SafeLoader(text).get_single_node()
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        raise InvalidYaml(_syntax_message(error), line=line) from None
    except yaml.YAMLError as error:
        raise InvalidYaml(f"this is not YAML: {str(error).splitlines()[0]}") from None
    return Located(None, 1) if node is None else _located(node)


def unknown_key(key: str, known: Iterable[str]) -> str:
    """Return the message about a key that is not among the `known` ones."""
    import difflib

    names = tuple(known)
    similar = difflib.get_close_matches(key, names, n=1)
    hint = f"did you mean {similar[0]!r}?" if similar else f"write one of {', '.join(names)}"
    return f"unknown key {key!r}; {hint}"


def _syntax_message(error: MarkedYAMLError) -> str:
    if error.context and ("alias" in error.context or "anchor" in error.context):
        return _NO_REFERENCES
    return f"this is not YAML: {error.problem or error.context}"


def _check_events(text: str) -> None:
    """Refuse references and deep nesting before a tree is built: a small file can expand to a
    tree that fills the memory.
    """
    import yaml

    loader: Any = yaml.SafeLoader(text)
    depth = 0
    while loader.check_event():
        event = loader.get_event()
        line = event.start_mark.line + 1
        if getattr(event, "anchor", None) or getattr(event, "tag", None):
            raise InvalidYaml(_NO_REFERENCES, line=line)
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > _MAX_DEPTH:
            raise InvalidYaml(f"nested more than {_MAX_DEPTH} levels deep", line=line)


def _located(node: Node) -> Located:
    import yaml

    line = node.start_mark.line + 1
    match node:
        case yaml.ScalarNode():
            return Located(_scalar(node, line), line)
        case yaml.SequenceNode():
            return Located(tuple(_located(item) for item in node.value), line)
        case yaml.MappingNode():
            return Located(_members(node), line)
        case _:
            raise InvalidYaml("only text, numbers, true, false, null, lists and maps", line=line)


def _members(node: MappingNode) -> dict[str, Located]:
    members: dict[str, Located] = {}
    for key_node, value_node in node.value:
        key = _located(key_node)
        if not isinstance(key.value, str):
            raise InvalidYaml(f"the key {key.plain()!r} is not text; quote it", line=key.line)
        if key.value in members:
            raise InvalidYaml(f"duplicate key {key.value!r}; remove one of the two", line=key.line)
        members[key.value] = Located(_located(value_node).value, key.line)
    return members


def _scalar(node: ScalarNode, line: int) -> Scalar:
    text = node.value
    if node.style is not None:
        return text
    is_number = _NUMBER.fullmatch(text) is not None
    if is_number and math.isfinite(float(text)):
        return json.loads(text)
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if is_number or node.tag != f"{_TAG}str":
        # yes, 010, 1:30 and dates: a deny rule that compares with the wrong type never applies.
        raise InvalidYaml(
            f"YAML programs disagree about {text}; put it in quotes, or write true, false or a "
            "decimal number",
            line=line,
        )
    return text

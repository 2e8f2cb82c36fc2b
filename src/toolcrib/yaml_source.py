"""YAML with the line of every value, and without the parts that readers take for something else."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from toolcrib.errors import InvalidPolicy

if TYPE_CHECKING:
    from yaml import MappingNode, MarkedYAMLError, Node, ScalarNode

Scalar = str | int | float | bool | None

_TAG = "tag:yaml.org,2002:"
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_DEEPEST = 32
_NO_REFERENCES = (
    "this file may have no anchors (&, *) and no tags (!); put text that starts with one in quotes"
)
_WORDS: dict[str, Scalar] = {"true": True, "false": False, "null": None, "~": None, "": None}


@dataclass(frozen=True, slots=True)
class Located:
    """A value and the line where it is written, or where its key is."""

    value: Scalar | tuple[Located, ...] | Mapping[str, Located]
    line: int

    def plain(self) -> Any:
        """The value as JSON, without lines."""
        match self.value:
            case tuple() as items:
                return [item.plain() for item in items]
            case Mapping() as members:
                return {key: member.plain() for key, member in members.items()}
            case scalar:
                return scalar


def read_yaml(text: str) -> Located:
    """Parse one document. Raises InvalidPolicy with the line for whatever is not plain data."""
    import yaml

    try:
        _check_events(text)
        node = yaml.SafeLoader(text).get_single_node()
        return Located(None, 1) if node is None else _located(node)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        raise _placed(_syntax_message(error), line) from None
    except yaml.YAMLError as error:
        raise InvalidPolicy(f"this is not YAML: {str(error).splitlines()[0]}") from None


@contextmanager
def at_line(line: int) -> Generator[None]:
    """Give faults found inside the line they were found at, unless they have one already."""
    try:
        yield
    except InvalidPolicy as error:
        raise _placed(str(error), error.line or line) from None


def _syntax_message(error: MarkedYAMLError) -> str:
    if error.context and ("alias" in error.context or "anchor" in error.context):
        return _NO_REFERENCES
    return f"this is not YAML: {error.problem or error.context}"


def _placed(message: str, line: int | None) -> InvalidPolicy:
    # The file is named further out; until then the line travels on its own.
    error = InvalidPolicy(message)
    error.line = line
    return error


def _check_events(text: str) -> None:
    """Refuse references and endless nesting before a tree is built from them."""
    import yaml

    loader: Any = yaml.SafeLoader(text)
    depth = 0
    while loader.check_event():
        event = loader.get_event()
        line = event.start_mark.line + 1
        if getattr(event, "anchor", None) or getattr(event, "tag", None):
            raise _placed(_NO_REFERENCES, line)
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise _placed("this is nested too deeply", line)


def _located(node: Node) -> Located:
    import yaml

    line = node.start_mark.line + 1
    with at_line(line):
        match node:
            case yaml.ScalarNode():
                return Located(_scalar(node), line)
            case yaml.SequenceNode():
                return Located(tuple(_located(item) for item in node.value), line)
            case yaml.MappingNode():
                return Located(_members(node), line)
            case _:
                raise InvalidPolicy("this is no plain data")


def _members(node: MappingNode) -> dict[str, Located]:
    members: dict[str, Located] = {}
    for key_node, value_node in node.value:
        key = _located(key_node)
        with at_line(key.line):
            if not isinstance(key.value, str):
                raise InvalidPolicy(f"the key {key.plain()!r} is not text; put it in quotes")
            if key.value in members:
                raise InvalidPolicy(f"the key {key.value!r} stands here twice; remove one")
        members[key.value] = Located(_located(value_node).value, key.line)
    return members


def _scalar(node: ScalarNode) -> Scalar:
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
        raise InvalidPolicy(
            f"{text} is read differently by different programs; put it in quotes, or write "
            "true, false or a decimal number"
        )
    return text

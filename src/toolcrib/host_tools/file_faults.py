"""What is wrong with a host tools file: every fault with its line and what it is about."""

from __future__ import annotations

import difflib
import functools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, cast

from toolcrib.approval.strict_yaml import Located
from toolcrib.errors import InvalidTool

Way = Sequence[str | int]
"""The way to a value: keys of mappings and places in lists."""

_KINDS = {
    "array": "a list",
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
    "object": "lines of key: value",
    "string": "text; put it in quotes",
}


@dataclass(frozen=True, slots=True, order=True)
class FileFault:
    """One fault. `place` names the tool or server it is about, if it is about one."""

    line: int
    place: str
    message: str

    def told(self, file: str) -> str:
        """The fault in one line, as compilers tell theirs."""
        place = f"{self.place}: " if self.place else ""
        return f"{file}:{self.line}: {place}{self.message}"


def refusal(file: str, faults: Iterable[FileFault]) -> InvalidTool:
    """The error that tells of all faults of a file, in the order of their lines."""
    return InvalidTool("\n".join(fault.told(file) for fault in sorted(faults)))


def form_faults(document: Located) -> list[FileFault]:
    """Where a file does not have the published form."""
    return [
        FileFault(line_at(document, path), place_of(document, path), message)
        for error in _validator().iter_errors(document.plain())
        for path, message in _messages(error)
    ]


def line_at(node: Located, path: Way) -> int:
    """The line of the value at `path`, or of the last one on the way that is there."""
    for part in path:
        match node.value, part:
            case tuple() as items, int() if part < len(items):
                node = items[part]
            case Mapping() as members, str() if part in members:
                node = members[part]
            case _:
                break
    return node.line


def place_of(document: Located, path: Way) -> str:
    """How the tool or the server that `path` leads into is called."""
    match list(path):
        case ["tools", int(index), *_]:
            tool = document.plain()["tools"][index]
            name = cast("Any", tool).get("name") if isinstance(tool, dict) else None
            return f"tools[{index}] {name!r}" if isinstance(name, str) else f"tools[{index}]"
        case ["mcp_servers", str(name), *_]:
            return f"mcp_servers.{name}"
        case _:
            return ""


def _messages(error: Any) -> Iterator[tuple[Way, str]]:
    """What to tell of one error, and where; never the value, which may be a secret."""
    kind, path = error.kind, cast("list[str | int]", error.instance_path)
    key = _key_in(path)
    match kind.name:
        case "additionalProperties":
            known = list(_rule_at(error)["properties"])
            for unknown in cast("list[str]", kind.unexpected):
                yield [*path, unknown], _unknown_key(unknown, known)
        case "required":
            yield path, f"{kind.property!r} is missing"
        case "oneOf":
            yield path, "write either command, to start a program, or url, to connect to an address"
        case "minProperties":
            yield path, "the file is empty; write tools: or mcp_servers:"
        case "type":
            wanted = [_KINDS[each] for each in cast("list[str]", kind.types)]
            yield path, f"{key or 'this'} must be {' or '.join(wanted)}"
        case "enum":
            yield path, f"{key} must be one of {', '.join(kind.options)}"
        case "pattern":
            yield path, f"{key} must be {_rule_at(error)['$comment']}"
        case "propertyNames":
            inner = [*path, cast("str", kind.error.instance)]
            yield inner, f"the name {inner[-1]!r} must be {_rule_at(error)['$comment']}"
        case _:
            yield path, f"{key}: {error.message}"


def _key_in(path: Way) -> str:
    """The rest of a path once the tool or server is named."""
    inner = path[2:] if path and path[0] in ("tools", "mcp_servers") and len(path) > 1 else path
    return ".".join(map(str, inner))


def _rule_at(error: Any) -> dict[str, Any]:
    """The part of the form that was broken."""
    node: Any = _schema()
    for part in error.schema_path[:-1]:
        node = node[part]
    return node


def _unknown_key(unknown: str, known: list[str]) -> str:
    near = difflib.get_close_matches(unknown, known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"write one of {', '.join(known)}"
    return f"there is no key {unknown!r}; {hint}"


@functools.cache
def _schema() -> dict[str, Any]:
    text = files("toolcrib.host_tools").joinpath("host-tools.schema.json").read_text("utf-8")
    return json.loads(text)


@functools.cache
def _validator() -> Any:
    from jsonschema_rs import Draft202012Validator

    return Draft202012Validator(_schema(), mask="the value")

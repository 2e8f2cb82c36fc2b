"""Pins: the declarations of a server's tools that a person has accepted.

A file of pins is written by `toolcrib servers pin`. A pinned server whose tool is declared in
another way, or that says it is another program, has that tool asked about at every call; models
read the pinned declaration until somebody accepts the new one. A tool without a pin is withheld.
"""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from toolcrib.errors import InvalidTool
from toolcrib.tools.identity import canonical_json

if TYPE_CHECKING:
    import mcp_types

_FIELDS: Final = ("title", "description", "input_schema", "output_schema", "annotations")
_VERSION: Final = 1
_MAX_LINES: Final = 40
_MAX_LINE_LENGTH: Final = 300


@dataclass(frozen=True, slots=True)
class PinnedTool:
    """A tool as it was declared when it was accepted."""

    declaration: Mapping[str, Any] = field(hash=False)
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPins:
    """What was accepted of one server. `file` is where it is written."""

    file: str
    program: str | None = None
    """What the server said it is."""
    target: str | None = None
    """The digest of how it is reached."""
    tools: Mapping[str, PinnedTool] = field(default_factory=dict[str, PinnedTool], hash=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tools", MappingProxyType(dict(self.tools)))


def declaration_of(tool: mcp_types.Tool) -> dict[str, Any]:
    """What a server says of a tool, as far as models and people rely on it."""
    return tool.model_dump(mode="json", exclude_none=True, include=set(_FIELDS))


def pinned(tool: mcp_types.Tool) -> PinnedTool:
    """The pin of a tool as it is declared now."""
    declaration = declaration_of(tool)
    return PinnedTool(declaration, sha256(canonical_json(declaration)).hexdigest())


@dataclass(frozen=True, slots=True)
class PinDeviation:
    """A tool that is not what was pinned. `changes` say in lines what is different."""

    changes: tuple[str, ...]
    digest: str
    """Of what the server declares now, and of what it says it is."""

    def __call__(self) -> dict[str, Any]:
        """What the approver of a call is shown."""
        return {"changed since it was pinned": list(self.changes)}


@dataclass(frozen=True, slots=True)
class PinDifference:
    """What is different about one tool of a server since it was pinned."""

    kind: Literal["new", "gone", "changed"]
    tool: str
    changes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PinCheck:
    """Compares the tools of a server, as it is connected now, with its pins."""

    pins: ServerPins
    program: str | None
    target: str

    def deviation(self, tool: mcp_types.Tool) -> PinDeviation | None:
        """How a tool deviates from its pin. Raises `InvalidTool` for one that has none."""
        pin = self.pins.tools.get(tool.name)
        if pin is None:
            raise InvalidTool(
                f"it is not pinned in {self.pins.file}; see `toolcrib servers diff`, and accept it "
                "with `toolcrib servers pin --accept`"
            )
        now = pinned(tool)
        changes = (*self.server_changes(), *declaration_changes(pin.declaration, now.declaration))
        if not changes and pin.digest == now.digest:
            return None
        digest = sha256(f"{now.digest}\n{self.program}\n{self.target}".encode()).hexdigest()
        return PinDeviation(changes or ("its digest changed",), digest)

    def server_changes(self) -> Iterator[str]:
        """What is different about the server itself."""
        if self.pins.program != self.program:
            yield f"the server's program: {self.pins.program} -> {self.program}"
        if self.pins.target != self.target:
            yield "how the server is reached has changed"

    def differences(self, listed: Sequence[mcp_types.Tool]) -> Iterator[PinDifference]:
        """Everything that nobody has accepted yet."""
        names = {tool.name for tool in listed}
        for tool in listed:
            if tool.name not in self.pins.tools:
                lines = declaration_changes({}, declaration_of(tool))
                yield PinDifference("new", tool.name, lines)
            elif (deviation := self.deviation(tool)) is not None:
                yield PinDifference("changed", tool.name, deviation.changes)
        for name in self.pins.tools:
            if name not in names:
                yield PinDifference("gone", name)

    def accepted(self, listed: Sequence[mcp_types.Tool]) -> ServerPins:
        """The pins of a server as it is now."""
        tools = {tool.name: pinned(tool) for tool in listed}
        return replace(self.pins, program=self.program, target=self.target, tools=tools)


def declaration_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[str, ...]:
    """The lines of a declaration that went (`-`) and came (`+`); none when it is the same."""
    if canonical_json(dict(old)) == canonical_json(dict(new)):
        return ()
    before, after = _lines(old), _lines(new)
    diff = difflib.unified_diff(before, after, n=0, lineterm="")
    lines = [line for line in diff if not line.startswith(("---", "+++", "@@"))]
    if len(lines) > _MAX_LINES:
        lines[_MAX_LINES:] = [f"and {len(lines) - _MAX_LINES} more lines"]
    return tuple(map(_shown, lines))


def as_pinned(tool: mcp_types.Tool, pin: PinnedTool) -> mcp_types.Tool:
    """The tool in the words of its pin. Its results are not checked: their schema may be new."""
    words = {name: pin.declaration.get(name) for name in ("title", "description", "input_schema")}
    return tool.model_copy(update={**words, "output_schema": None})


def read_pins(file: str, server: str) -> ServerPins:
    """The pins of a server. A file that does not exist has none. Raises `InvalidTool`."""
    entry = _read(file).get(server, {})
    try:
        tools = {
            name: PinnedTool(dict(each["declaration"]), str(each["digest"]))
            for name, each in entry.get("tools", {}).items()
        }
        return ServerPins(
            file=file, program=entry.get("program"), target=entry.get("target"), tools=tools
        )
    except (AttributeError, KeyError, TypeError, ValueError):
        raise InvalidTool(f"{file}: the pins of {server!r} cannot be read; pin it again") from None


def write_pins(file: str, pins: Mapping[str, ServerPins]) -> None:
    """Write the pins of servers by their names; those of others in the file stay."""
    servers = _read(file)
    for name, each in pins.items():
        servers[name] = {
            "program": each.program,
            "target": each.target,
            "tools": {
                tool: {"digest": pin.digest, "declaration": dict(pin.declaration)}
                for tool, pin in sorted(each.tools.items())
            },
        }
    text = json.dumps({"version": _VERSION, "servers": servers}, indent=2, ensure_ascii=False)
    # In one step: a gateway that reads it meanwhile finds the old file or the new one.
    draft = Path(f"{file}.{os.getpid()}.tmp")
    draft.write_text(f"{text}\n", "utf-8")
    draft.replace(file)


def _read(file: str) -> dict[str, Any]:
    try:
        document = json.loads(Path(file).read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise InvalidTool(f"{file}: the pins cannot be read ({type(error).__name__})") from None
    facts = cast("dict[str, Any]", document) if isinstance(document, dict) else {}
    servers = facts.get("servers")
    if facts.get("version") != _VERSION or not isinstance(servers, dict):
        raise InvalidTool(f"{file}: this is no file of pins; write it with `toolcrib servers pin`")
    return cast("dict[str, Any]", servers)


def _lines(declaration: Mapping[str, Any]) -> list[str]:
    lines: list[str] = []
    for name, value in declaration.items():
        if isinstance(value, str):
            lines += [f"{name}: {line}" for line in value.splitlines()]
        else:
            text = json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False)
            lines += [f"{name}: {line}" for line in text.splitlines()]
    return lines


def _shown(line: str) -> str:
    text = "".join(letter if letter.isprintable() else "?" for letter in line)
    return text if len(text) <= _MAX_LINE_LENGTH else f"{text[: _MAX_LINE_LENGTH - 3]}..."

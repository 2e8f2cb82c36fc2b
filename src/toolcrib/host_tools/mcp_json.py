"""MCP servers from the JSON files of other clients: `mcpServers` of Claude Desktop, Claude Code's
`.mcp.json`, Cursor and others, and `servers` of VS Code.

Keys that only the other client has a use for are left out and reported; nothing of them is obeyed.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from toolcrib.errors import InvalidTool
from toolcrib.file_faults import FileFault, faults_text
from toolcrib.mcp_client.config import McpServerConfig, fill, server_from
from toolcrib.yaml_source import Located, read_yaml

_SECTIONS: Final = ("mcpServers", "servers")
_STARTS: Final = frozenset({"command", "args", "env", "cwd"})
_CONNECTS: Final = frozenset({"url", "headers"})
_TYPES: Final = {"stdio": _STARTS, "http": _CONNECTS, "streamable-http": _CONNECTS}
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]+")
_WITH_DEFAULT: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*):-([^}]*)\}")
_OF_ENVIRONMENT: Final = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}")


@dataclass(frozen=True, slots=True)
class McpJson:
    """The servers of a file, and notes about what in it is not used."""

    servers: tuple[McpServerConfig, ...]
    notes: tuple[str, ...] = ()


def parse_mcp_json(text: str, *, file: str) -> McpJson:
    """Read the servers of a file. Raises one `InvalidTool` with every fault."""
    try:
        document = json.loads(text)
    except ValueError as error:
        line = getattr(error, "lineno", 1)
        reason = getattr(error, "msg", "it cannot be read")
        raise InvalidTool(f"{file}:{line}: this is not JSON: {reason}") from None
    section = next((name for name in _SECTIONS if _is_mapping(document, name)), None)
    if section is None:
        raise InvalidTool(f'{file}:1: there is no "mcpServers" with servers by their names')
    lines = _lines(text)
    entries = cast("dict[str, Any]", document[section])
    parts = [*_entries(section, entries, lines)]
    faults = [part for part in parts if isinstance(part, FileFault)]
    if faults:
        raise InvalidTool(faults_text(file, faults))
    servers = [part for part in parts if not isinstance(part, FileFault | str)]
    notes = [f"{file}: {part}" for part in parts if isinstance(part, str)]
    return McpJson(tuple(servers), tuple(notes))


def _is_mapping(document: Any, name: str) -> bool:
    return isinstance(document, dict) and isinstance(
        cast("dict[str, Any]", document).get(name), dict
    )


def _lines(text: str) -> Located:
    """Where the keys are. JSON with tabs is no YAML; then everything is on line 1."""
    try:
        return read_yaml(text)
    except ValueError:
        return Located({}, 1)


def _entries(
    section: str, entries: Mapping[str, Any], lines: Located
) -> Iterator[McpServerConfig | FileFault | str]:
    names: dict[str, str] = {}
    for name, entry in entries.items():
        line = lines.line_at([section, name])
        own_name = _NOT_IN_NAMES.sub("_", name).strip("_-")[:64]
        if not own_name or not own_name[0].isalpha():
            own_name = f"server_{own_name}"
        if own_name in names:
            yield FileFault(
                line, f"{section}.{name}", f"{names[own_name]!r} has the same name here"
            )
            continue
        names[own_name] = name
        try:
            yield from _server(own_name, f"{section}.{name}", entry)
        except InvalidTool as error:
            yield FileFault(line, f"{section}.{name}", str(error))


def _server(name: str, subject: str, entry: Any) -> Iterator[McpServerConfig | str]:
    if not isinstance(entry, dict):
        raise InvalidTool("a server is an object with command or url")
    members = cast("dict[str, Any]", entry)
    if members.get("disabled") is True:
        yield f"{subject} is disabled and not mounted"
        return
    known = _known_keys(members)
    plain = {key: _translated(members[key]) for key in known if key in members}
    _check_types(plain)
    for key in ("command", "args"):
        if key in plain:
            plain[key] = _filled(name, plain[key])
    yield server_from(name, plain)
    ignored = sorted(members.keys() - known - {"type", "disabled"})
    if ignored:
        yield f"{subject}: not used here: {', '.join(ignored)}"


def _known_keys(entry: Mapping[str, Any]) -> frozenset[str]:
    """The keys of its way to be reached. Raises `InvalidTool`."""
    kind = entry.get("type") or ("http" if "url" in entry else "stdio")
    if kind == "sse":
        raise InvalidTool("type sse is not spoken here; use the server's Streamable HTTP address")
    if kind not in _TYPES:
        raise InvalidTool(f"the type {str(kind)[:40]!r} is unknown; write stdio or http")
    needed = "command" if _TYPES[kind] is _STARTS else "url"
    if needed not in entry:
        raise InvalidTool(f"{needed!r} is missing")
    return _TYPES[kind]


def _check_types(plain: Mapping[str, Any]) -> None:
    for key, value in plain.items():
        match key, value:
            case (("command" | "cwd" | "url"), str()):
                pass
            case "args", list() if all(isinstance(each, str) for each in cast("list[Any]", value)):
                pass
            case (("env" | "headers"), dict()) if all(
                isinstance(each, str) for each in cast("dict[str, Any]", value).values()
            ):
                pass
            case _:
                raise InvalidTool(f"{key} has the wrong type")


def _translated(value: Any) -> Any:
    """The variables of other clients in our notation: `${env:NAME}` and `${NAME:-default}`."""
    match value:
        case str():
            text = _OF_ENVIRONMENT.sub(r"${\1}", value)
            return _WITH_DEFAULT.sub(
                lambda found: f"${{{found[1]}}}" if found[1] in os.environ else found[2], text
            )
        case list():
            return [_translated(each) for each in cast("list[Any]", value)]
        case dict():
            members = cast("dict[str, Any]", value)
            return {key: _translated(each) for key, each in members.items()}
        case _:
            return value


def _filled(name: str, value: Any) -> Any:
    if isinstance(value, str):
        return fill(name, value, os.environ)
    return [fill(name, each, os.environ) for each in cast("list[str]", value)]

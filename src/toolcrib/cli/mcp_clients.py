"""The MCP clients of `toolcrib install`: where each keeps its servers, and in which form."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, cast

from toolcrib.cli.commented_json import parse, remove_value, set_value, value_at
from toolcrib.errors import UsageError

Scope = Literal["user", "project"]
"""For all projects of this user, or for whoever opens one project."""
Entry = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class McpClient:
    """An MCP client: the files of its two scopes, the keys that lead to its servers, and the form
    of one server. `after` says what makes the client see a change.
    """

    title: str
    user_files: Callable[[], Sequence[Path]]
    """The places of the user's file: the first that exists, or else the first."""
    project_files: Sequence[str]
    keys: tuple[str, ...]
    entry: Callable[[Sequence[str]], Entry]
    after: str
    is_toml: bool = False

    @property
    def after_removal(self) -> str:
        """What makes the client see that the server is gone."""
        return f"{self.title} lets go of it when it starts again"

    def file(self, scope: Scope, project: Path) -> Path:
        """The file of a scope; `project` is the folder of the project file."""
        inside = [project / name for name in self.project_files]
        places = self.user_files() if scope == "user" else inside
        return next((place for place in places if place.exists()), places[0])

    def current(self, text: str, name: str) -> Entry | None:
        """The server of that name in a file's text. Raises `UsageError`."""
        if self.is_toml:
            return _toml(text).get(self.keys[0], {}).get(name)
        return value_at(text, (*self._keys(text), name)) if text.strip() else None

    def with_server(self, text: str, name: str, command: Sequence[str]) -> str:
        """The text with the server; everything else stays, also what was added to the server's own
        entry. Raises `UsageError`.
        """
        entry, current = self.entry(command), self.current(text, name)
        if self.is_toml:
            return _with_table(text, self.keys[0], name, {**entry, **_added(current)})
        path = (*self._keys(text), name)
        if current is None:
            return set_value(text, path, dict(entry))
        added = _added(current)
        for key in [key for key in entry if key not in added]:
            text = set_value(text, (*path, key), entry[key])
        return text

    def without_server(self, text: str, name: str) -> str:
        """The text without the server; everything else stays. Raises `UsageError`."""
        if self.is_toml:
            return _with_table(text, self.keys[0], name, None)
        return remove_value(text, (*self._keys(text), name))

    def _keys(self, text: str) -> tuple[str, ...]:
        if self.keys != ("mcp",) or not text.strip():
            return self.keys
        # opencode 2 has its servers one level further in, and reads both forms.
        servers: Any = value_at(text, ("mcp", "servers"))
        is_native = isinstance(servers, dict) and "type" not in servers
        return ("mcp", "servers") if is_native else self.keys


_OURS: Final = ("command", "args")
"""What an entry has from us; the rest of it may have been changed since."""


def _added(current: Entry | None) -> Entry:
    return {key: value for key, value in (current or {}).items() if key not in _OURS}


def check_text(client: McpClient, text: str) -> None:
    """Raise `UsageError` with the line for a file that the client could not read either."""
    if client.is_toml:
        _toml(text)
    elif text.strip() and parse(text).members is None:
        raise UsageError("line 1: the file is no object {...}")


def words_of(entry: Entry) -> list[str]:
    """The command of a server and its arguments, whatever the client's form."""
    command, arguments = entry.get("command"), entry.get("args")
    words: list[Any] = [*cast("list[Any]", command)] if isinstance(command, list) else [command]
    words += cast("list[Any]", arguments) if isinstance(arguments, list) else []
    return [word for word in words if isinstance(word, str)]


def portable_entry(command: Sequence[str]) -> Entry:
    """A server in the form of `mcpServers`, which most clients read."""
    return {"command": command[0], "args": [*command[1:]]}


def _typed(command: Sequence[str]) -> Entry:
    return {"type": "stdio", **portable_entry(command)}


def _for_opencode(command: Sequence[str]) -> Entry:
    return {"type": "local", "command": [*command], "enabled": True}


def _for_zed(command: Sequence[str]) -> Entry:
    # Without `args`, or `source` in older versions, Zed leaves a server out.
    return {"source": "custom", **portable_entry(command), "env": {}}


def _home(*parts: str, variable: str = "", default: str = "") -> Path:
    """A path in the folder that a variable names, or else in `default` of the home folder."""
    root = os.environ.get(variable) if variable else None
    return Path(root or Path.home() / default, *parts)


def _config(*parts: str) -> Path:
    return _home(*parts, variable="XDG_CONFIG_HOME", default=".config")


def _vscode_file() -> Path:
    match sys.platform:
        case "darwin":
            return _home("Library", "Application Support", "Code", "User", "mcp.json")
        case "win32":
            root = _home(variable="APPDATA", default="AppData/Roaming")
            return root / "Code" / "User" / "mcp.json"
        case _:
            return _config("Code", "User", "mcp.json")


def _zed_file() -> Path:
    if sys.platform == "win32":
        return _home("Zed", "settings.json", variable="APPDATA", default="AppData/Roaming")
    return _config("zed", "settings.json")


CLIENTS: Final[Mapping[str, McpClient]] = {
    "claude-code": McpClient(
        "Claude Code",
        lambda: [_home(".claude.json", variable="CLAUDE_CONFIG_DIR")],
        [".mcp.json"],
        ("mcpServers",),
        _typed,
        "start Claude Code again, and see /mcp",
    ),
    "codex": McpClient(
        "Codex",
        lambda: [_home("config.toml", variable="CODEX_HOME", default=".codex")],
        [".codex/config.toml"],
        ("mcp_servers",),
        portable_entry,
        "start Codex again, and see /mcp; a project's file counts when the project is trusted",
        is_toml=True,
    ),
    "opencode": McpClient(
        "opencode",
        lambda: [_config("opencode", name) for name in ("opencode.json", "opencode.jsonc")],
        ["opencode.json", "opencode.jsonc"],
        ("mcp",),
        _for_opencode,
        "start opencode again",
    ),
    "cursor": McpClient(
        "Cursor",
        lambda: [_home(".cursor", "mcp.json")],
        [".cursor/mcp.json"],
        ("mcpServers",),
        _typed,
        "start Cursor again, and switch the server on in its settings",
    ),
    "vscode": McpClient(
        "VS Code",
        lambda: [_vscode_file()],
        [".vscode/mcp.json"],
        ("servers",),
        _typed,
        "run 'MCP: List Servers' in VS Code, and start it",
    ),
    "zed": McpClient(
        "Zed",
        lambda: [_zed_file()],
        [".zed/settings.json"],
        ("context_servers",),
        _for_zed,
        "Zed starts it at once; in a project, once the project is trusted",
    ),
}


def _toml(text: str) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(str(error)) from None


def _with_table(text: str, section: str, name: str, entry: Entry | None) -> str:
    """The text with the table `section.name`, or without it for None."""
    import tomlkit

    expected = _toml(text)
    servers = expected.setdefault(section, {})
    document = tomlkit.parse(text)
    tables: Any = document.setdefault(section, tomlkit.table(is_super_table=True))
    if entry is None:
        servers.pop(name, None)
        tables.pop(name, None)
    else:
        servers[name] = {**entry}
        if name not in tables:
            tables[name] = tomlkit.inline_table() if _is_inline(tables) else tomlkit.table()
        for key in [key for key in entry if tables[name].get(key) != entry[key]]:
            tables[name][key] = entry[key]
    after = tomlkit.dumps(document)
    if {section: {}, **_toml(after)} != expected:
        raise UsageError("the file cannot be changed safely; add the entry yourself")
    return after


def _is_inline(table: Any) -> bool:
    from tomlkit.items import InlineTable

    return isinstance(table, InlineTable)

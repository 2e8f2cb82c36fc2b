"""`toolcrib install`: put the project's tools into the configuration of an MCP client."""

from __future__ import annotations

import difflib
import os
import re
import stat
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal, cast

import typer

from toolcrib.cli.approver import is_terminal
from toolcrib.cli.mcp_clients import (
    CLIENTS,
    McpClient,
    Scope,
    check_text,
    portable_entry,
    words_of,
)
from toolcrib.cli.output import Exit, fail, require_extra, show, show_json, show_note
from toolcrib.errors import UsageError

ClientName = Literal["claude-code", "codex", "opencode", "cursor", "vscode", "zed"]
_NEW_MODES: Final[dict[Scope, int]] = {"user": 0o600, "project": 0o644}
"""The modes of files that were not there."""


_COLOURS: Final = {"+": "green", "-": "red", "@": "cyan"}


def install(
    client: Annotated[
        ClientName | None, typer.Argument(metavar="CLIENT", help=f"{', '.join(CLIENTS)}.")
    ] = None,
    scope: Annotated[
        Scope,
        typer.Option("--scope", help="For all your projects, or in the folder of this one."),
    ] = "user",
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", help="The server's name; else the folder's."),
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Take the server out again.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the change and write nothing.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Write without a question.")] = False,
    printed: Annotated[
        Literal["json"] | None,
        typer.Option("--print", help="Print the entry for any other client, as JSON."),
    ] = None,
) -> None:
    """Let an MCP client use the tools of this project.

    The change of the client's file is shown before it is written. The command in it has absolute
    paths, so it works wherever the client starts it.

    Example: toolcrib install claude-code

    Example: toolcrib install vscode --scope project --dry-run

    Example: toolcrib install --print json
    """
    if (client is None) == (printed is None):
        raise typer.BadParameter(f"name a client ({', '.join(CLIENTS)}), or use --print json")
    file = _project_file()
    name = name or _name_of(file.parent)
    command = server_command(file)
    if client is None:
        show_json({"mcpServers": {name: portable_entry(command)}})
        return
    require_extra("mcp", "install")
    known = CLIENTS[client]
    target = _target_of(known, scope, file.parent)
    change = _change(known, target, name, None if remove else command)
    if change.before == change.after:
        has = "has no" if remove else "already has this"
        show_note(f"{change.target} {has} server {name!r}")
        return
    _show_diff(change)
    if dry_run:
        show_note("nothing was written (--dry-run)")
        return
    if not yes:
        _confirm()
    try:
        _write(change, mode=_NEW_MODES[scope])
    except (OSError, UsageError) as error:
        fail(f"{change.target}: {error}; nothing was written")
    show_note(f"{change.target} was written; {known.after_removal if remove else known.after}")


@dataclass(frozen=True, slots=True)
class _Change:
    """The text of a file, now and then."""

    target: Path
    before: str
    after: str


def _change(client: McpClient, target: Path, name: str, command: Sequence[str] | None) -> _Change:
    """The change of a client's file; without a command the server is taken out."""
    try:
        before = _read(target)
        check_text(client, before)
        return _Change(target, before, _changed(client, before, name, command))
    except UsageError as error:
        fail(f"{target}: {error}")


def _target_of(client: McpClient, scope: Scope, folder: Path) -> Path:
    """The client's file. One of a project must be in the project's folder: whoever made the project
    may have made links to files of its user.
    """
    place = client.file(scope, folder)
    # A link stays a link: what it leads to is replaced.
    target = place.resolve()
    if scope == "project" and not target.is_relative_to(folder.resolve()):
        fail(f"{place} leads out of the project, to {target}; nothing was written", Exit.USAGE)
    return target


def server_command(file: Path) -> list[str]:
    """The command that serves a project over MCP, from any folder and with any PATH."""
    # -P: a client starts it in whatever folder its user opens, whose files must not be imported.
    return [sys.executable, "-P", "-m", "toolcrib", "--project", str(file), "mcp"]


def _project_file() -> Path:
    from toolcrib.cli.project_options import current_project

    project = current_project()
    if project is None:
        fail("there is no toolcrib.yaml here or above; make one with: toolcrib init", Exit.USAGE)
    return project.file


def _name_of(folder: Path) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", folder.name).strip("-") or "toolcrib"


def _changed(client: McpClient, text: str, name: str, command: Sequence[str] | None) -> str:
    current: Any = client.current(text, name)
    if current is not None and not _is_ours(current):
        raise UsageError(f"it has another server named {name!r}; choose another name with --name")
    if command is None:
        return text if current is None else client.without_server(text, name)
    return client.with_server(text, name, command)


def _is_ours(entry: Any) -> bool:
    if not isinstance(entry, dict):
        return False
    return {"toolcrib", "mcp"} <= set(words_of(cast("dict[str, Any]", entry)))


def _read(path: Path) -> str:
    try:
        # As bytes, so that line ends stay what they are.
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise UsageError(f"it cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError("it is not UTF-8 text; nothing was changed") from None


def _show_diff(change: _Change) -> None:
    names = (str(change.target) if change.before else "/dev/null", str(change.target))
    texts = (change.before.splitlines(), change.after.splitlines())
    for line in difflib.unified_diff(*texts, *names, lineterm=""):
        show(line.expandtabs(4), _COLOURS.get(line[:1]))


def _confirm() -> None:
    if not is_terminal():
        fail("nothing was written: run it at a terminal, or give --yes", Exit.USAGE)
    if not typer.confirm("Write it?", default=False, err=True):
        fail("nothing was written")


def _write(change: _Change, *, mode: int) -> None:
    """Replace a file in one step; it keeps its mode. Raises `UsageError` for a file that nobody may
    write, and when somebody else has changed it meanwhile.
    """
    target = change.target
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists():
        mode = stat.S_IMODE(target.stat().st_mode)
        # To replace it needs no right to write it, so it is the mode that says no.
        if not mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH):
            raise UsageError("it is read-only; make it writable first")
    draft = target.with_name(f".{target.name}.{os.getpid()}.new")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(change.after.encode())
            file.flush()
            os.fsync(file.fileno())
        if _read(target) != change.before:
            raise UsageError("it has changed meanwhile; run the command again")
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)

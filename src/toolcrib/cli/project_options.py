"""The project of a command: which file it is, and what it says for options that the command line
leaves out.

A command asks for a value of the project only when an option is not on the command line, which is
how this module knows which options are.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from toolcrib.cli.output import fail
from toolcrib.errors import UsageError

if TYPE_CHECKING:
    from toolcrib.project.project import Project
    from toolcrib.project.settings import Setting

PROJECT_VARIABLE: Final = "TOOLCRIB_PROJECT"
WITHOUT_PROJECT: Final = frozenset({"demo", "init", "model", "provider", "support"})
"""Commands that have nothing to do with the project in whose folder they are run."""
REPORTERS: Final = frozenset({"doctor"})
"""Commands that report a fault in the project beside others."""
SERVERS: Final = frozenset({"config", "dev", "doctor", "serve", "worker"})
"""Commands whose `--token-file` is that of the server, not that of a client."""


@dataclass(frozen=True, slots=True)
class ProjectChoice:
    """Which project file the command line names, if any, and the keys that it sets."""

    file: Path | None = None
    is_left_out: bool = False
    changes: Sequence[str] = ()

    def path(self) -> Path | None:
        """The project file; None when there is none. Raises `UsageError`."""
        from toolcrib.project.project_file import find_project_file

        if self.is_left_out:
            return None
        if self.file is not None:
            return self.file
        path = find_project_file(Path.cwd())
        if path is not None:
            _check_owner(path)
        return path

    def read(self) -> Project | None:
        """The project; None when there is none. Raises `UsageError`."""
        from toolcrib.project.project_file import PROJECT_FILE, parse_project, read_project

        path = self.path()
        if path is not None:
            return read_project(path, self.changes)
        if self.changes:
            return parse_project("", file=Path.cwd() / PROJECT_FILE, changes=self.changes)
        return None


def _check_owner(path: Path) -> None:
    """Whoever can put a file into a folder above, or beside the project file, must not choose the
    code that is run here.
    """
    folder, link, target = path.parent.stat(), path.lstat(), path.stat()
    if not {folder.st_uid, link.st_uid, target.st_uid} <= {os.geteuid(), 0}:
        reason = "or its folder, belongs to another user"
    elif (folder.st_mode | target.st_mode) & stat.S_IWOTH:
        reason = "or its folder, can be written by every user"
    else:
        return
    raise UsageError(
        f"{path}, {reason}; it is not used. Name it with --project {path}, or leave it out with "
        "--no-project"
    )


@dataclass(slots=True)
class CommandRun:
    """One run of a command."""

    choice: ProjectChoice
    present: frozenset[str] = frozenset()
    """The options that are on the command line."""
    goes_on: bool = False
    """Whether the command goes on without a project that has a fault, to report it."""
    fault: str | None = None
    _project: Project | None = None
    _is_read: bool = False

    def project(self) -> Project | None:
        """The project, read once. A fault ends the command with status 1."""
        if not self._is_read:
            try:
                self._project = self.choice.read()
            except UsageError as error:
                self.fault = str(error)
            self._is_read = True
        if self.fault is not None and not self.goes_on:
            fail(self.fault)
        return self._project


_COMMAND_RUN: ContextVar[CommandRun | None] = ContextVar("toolcrib-command-run", default=None)


def begin(ctx: Any, choice: ProjectChoice) -> None:
    """Note the project of the command that begins, until it ends."""
    token = _COMMAND_RUN.set(CommandRun(choice))
    ctx.call_on_close(lambda: _COMMAND_RUN.reset(token))


def current_choice() -> ProjectChoice:
    """Which project the running command uses."""
    command_run = _COMMAND_RUN.get()
    return ProjectChoice(is_left_out=True) if command_run is None else command_run.choice


def current_project() -> Project | None:
    """The project of the running command; None when it has none."""
    command_run = _COMMAND_RUN.get()
    return None if command_run is None else command_run.project()


def project_fault() -> str | None:
    """What is wrong with the project of the running command, if something is."""
    command_run = _COMMAND_RUN.get()
    return None if command_run is None else command_run.fault


def is_on_command_line(*names: str) -> bool:
    """Whether the command line has one of these options."""
    command_run = _COMMAND_RUN.get()
    return command_run is not None and not command_run.present.isdisjoint(names)


class ProjectDefaults(dict[str, Any]):
    """What a command takes for options that the command line leaves out: the project's values."""

    def __init__(self, command: str, command_run: CommandRun) -> None:
        super().__init__()
        self._command = command
        self._command_run = command_run
        self.absent: set[str] = set()
        """The options that are not on the command line."""

    def get(self, name: str, default: Any = None) -> Any:  # type: ignore[override]
        """The project's value for an option; `default` when it has none."""
        self.absent.add(name)
        setting = setting_of(name, self._command)
        if setting is not None and (value := setting.in_environment()) is not None:
            return value
        project = None if setting is None else self._command_run.project()
        if setting is None or project is None:
            return default
        value = setting.in_project(project)
        return default if value is None else value


@contextmanager
def project_defaults(ctx: Any) -> Generator[ProjectDefaults | None]:
    """The project's values for the command of a context, whose command line is read in the block;
    None for a command without a project.
    """
    command_run = _COMMAND_RUN.get()
    command = command_of(ctx)
    if command_run is None or command is None or command in WITHOUT_PROJECT:
        yield None
        return
    command_run.goes_on = command in REPORTERS
    defaults = ProjectDefaults(command, command_run)
    yield defaults
    command_run.present = frozenset(ctx.params) - defaults.absent


def command_of(ctx: Any) -> str | None:
    """The first word of the command line after `toolcrib`."""
    name = None
    while ctx.parent is not None:
        name, ctx = ctx.info_name, ctx.parent
    return name


def setting_of(name: str, command: str) -> Setting | None:
    """The setting of an option, in a command."""
    from toolcrib.project.settings import SETTINGS

    matching = [setting for setting in SETTINGS if setting.name == name]
    if len(matching) > 1:
        wanted = "serve." if command in SERVERS else "client."
        return next(setting for setting in matching if setting.key.startswith(wanted))
    return matching[0] if matching else None

"""`toolcrib config`: what the project file says, and what is in force."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import typer

from toolcrib.cli.http_options import (
    OWNER_TOKEN_VARIABLE,
    ApproveByElicitation,
    ServerOptions,
    takes_access_options,
)
from toolcrib.cli.output import fail, redirected_stdout, show, show_json, show_note
from toolcrib.cli.project_options import current_choice, current_project, is_on_command_line
from toolcrib.cli.runtime_options import (
    RuntimeOptions,
    hosted_runtime,
    options_in_force,
    takes_runtime_options,
)
from toolcrib.cli.service import URL_VARIABLE
from toolcrib.cli.store_options import Json
from toolcrib.errors import Refused, StoreError, UsageError
from toolcrib.project.settings import (
    ACCESS_SETTINGS,
    CLIENT_SETTINGS,
    ELICITATION_SETTING,
    RUNTIME_SETTINGS,
    SETTINGS,
    Setting,
)
from toolcrib.store.address import DatabaseUrl

if TYPE_CHECKING:
    from toolcrib.project.project import Project

app = typer.Typer(
    help="See and check what toolcrib.yaml and the flags configure.", no_args_is_help=True
)

_NAMES: Final = tuple(setting.name for setting in RUNTIME_SETTINGS)
_MAX_CHARS: Final = 60
_NAMED_ONLY: Final = ("hosted_tools", "mcp_servers")
"""Sections whose values may be secrets; what is in them is shown by name."""
_SECRET: Final = ("notifications[].url",)
"""Keys whose values may be secrets as a whole."""


@dataclass(frozen=True, slots=True)
class SettingInForce:
    """A value that is in force, and where it comes from. It holds no secret."""

    key: str
    value: Any
    origin: str


@app.command("show")
@takes_runtime_options(*_NAMES)
@takes_access_options()
def show_command(
    options: RuntimeOptions,
    server: ServerOptions,
    approve_by_elicitation: ApproveByElicitation = "role",
    json: Json = False,
) -> None:
    """Print every setting that is in force, and where its value comes from: a flag, a line of the
    project file, the environment, or the default.

    It takes the flags of `serve`, to see what they would change.

    Example: toolcrib config show

    Example: toolcrib config show --policy strict.yaml --json
    """
    project = current_project()
    values = {
        **_values(options),
        **_values(server),
        ELICITATION_SETTING.name: approve_by_elicitation,
    }
    rows = [*_rows(values, project), *_file_rows(project), *_environment_rows()]
    if json:
        file = None if project is None else str(project.file)
        show_json({"project": file, "settings": rows})
        return
    show(f"project: {project.file if project else 'none'}")
    width = max(len(row.key) for row in rows)
    for row in rows:
        show(f"{row.key:<{width}}  {_text(row.value)}  ({row.origin})")


def _values(options: object) -> dict[str, Any]:
    return {each.name: getattr(options, each.name) for each in fields(cast("Any", options))}


def _rows(values: Mapping[str, Any], project: Project | None) -> Iterator[SettingInForce]:
    for setting in (*RUNTIME_SETTINGS, *ACCESS_SETTINGS, ELICITATION_SETTING):
        value = values[setting.name]
        if setting.key in _SECRET and value is not None:
            value = "set"
        shown = default_of(setting.key) if value is None else _plain(value)
        yield SettingInForce(setting.key, shown, _origin_of(setting, project))
    for setting in CLIENT_SETTINGS:
        value = None if project is None else setting.in_project(project)
        url = os.environ.get(URL_VARIABLE) if setting.name == "url" else None
        if url:
            yield SettingInForce(setting.key, _plain(url), f"environment {URL_VARIABLE}")
        else:
            origin = "default" if value is None or project is None else project.origin(setting.key)
            yield SettingInForce(setting.key, _plain(value), origin)


def default_of(key: str) -> Any:
    """The default that the schema names for a key; None when there is none."""
    from toolcrib.project.project_file import project_schema

    node: Any = project_schema()
    for part in key.split("."):
        node = node.get("properties", {}).get(part, {})
    return node.get("default")


def _origin_of(setting: Setting, project: Project | None) -> str:
    if is_on_command_line(setting.name):
        return f"flag {setting.flag.split('/')[0]}"
    if setting.in_environment() is not None:
        return f"environment {setting.variable}"
    if project is not None and setting.in_project(project) is not None:
        return project.origin(setting.key)
    return "default"


def _file_rows(project: Project | None) -> Iterator[SettingInForce]:
    """The keys of the file that have no flag of their own."""
    if project is None:
        return
    with_flag = {setting.key for setting in SETTINGS}
    inner = {key.rpartition(".")[0] for key in project.lines}
    for key in project.lines:
        section, _, name = key.partition(".")
        if section in _NAMED_ONLY:
            if name and "." not in name:
                yield SettingInForce(key, "set", project.origin(key))
        elif key == "notifications":
            yield SettingInForce(key, len(project.notifications), project.origin(key))
        elif key not in with_flag and key not in inner and not key.startswith("instructions."):
            yield SettingInForce(key, _plain(_at(project, key)), project.origin(key))


def _at(project: Project, key: str) -> Any:
    value: Any = project
    for part in key.split("."):
        value = cast("Any", value)[part] if isinstance(value, Mapping) else getattr(value, part)
    return value


def _environment_rows() -> Iterator[SettingInForce]:
    if os.environ.get(OWNER_TOKEN_VARIABLE):
        yield SettingInForce("owner token", "set", f"environment {OWNER_TOKEN_VARIABLE}")


def _plain(value: Any) -> Any:
    match value:
        case Path() | DatabaseUrl():
            return str(value)
        case str() if "://" in value:
            return _address(value)
        case list() | tuple():
            return [_plain(item) for item in cast("list[Any]", value)]
        case _:
            return value


def _address(url: str) -> str:
    """The address without what may be a secret in it."""
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    more = "?..." if parts.query else ""
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}{more}"


def _text(value: Any) -> str:
    match value:
        case None | "" | []:
            return "-"
        case bool():
            return "true" if value else "false"
        case list():
            return ", ".join(str(item) for item in cast("list[Any]", value))
        case _:
            text = " ".join(str(value).split())
            return text if len(text) <= _MAX_CHARS else f"{text[:_MAX_CHARS]}..."


@app.command()
def schema() -> None:
    """Print the JSON Schema of toolcrib.yaml, for editors.

    Example: toolcrib config schema > toolcrib.schema.json
    """
    from toolcrib.project.project_file import project_schema

    show_json(project_schema())


@app.command()
def check() -> None:
    """Check the project file, and that its tools and its policy can be loaded and fit together.

    Nothing is served and no MCP server is started. The exit status is 1 when there is a fault.

    Example: toolcrib config check
    """
    try:
        path = current_choice().path()
    except UsageError as error:
        fail(str(error))
    project = current_project()
    if project is None or path is None:
        fail("there is no toolcrib.yaml here or in a folder above; toolcrib init writes one")
    taken = {
        setting.name: value
        for setting in RUNTIME_SETTINGS
        if (value := setting.in_project(project)) is not None and setting.name != "store"
    }
    names = _checked(options_in_force(taken))
    show(f"{path}: ok")
    show_note(f"tools: {', '.join(names) or 'none of its own'}")


def _checked(options: RuntimeOptions) -> list[str]:
    """Load what a runtime with these options would have, and return the names of its tools."""
    import asyncio

    async def build() -> list[str]:
        async with hosted_runtime(options) as runtime:
            if not runtime.config.mcp_servers:
                # It checks the names in rules and hooks against the tools.
                async with runtime:
                    pass
            return sorted(runtime.registry.names())

    try:
        with redirected_stdout():
            return asyncio.run(build())
    except (Refused, UsageError, StoreError, OSError) as error:
        fail(str(error))

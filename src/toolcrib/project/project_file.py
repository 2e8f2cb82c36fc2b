"""Finding and reading `toolcrib.yaml`. All faults of a file are reported at once, with their lines.

The form of the file is published as `toolcrib.schema.json` beside this module.
"""

from __future__ import annotations

import functools
import json
import re
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Final, Union, cast, get_args, get_origin, get_type_hints

from toolcrib.errors import InvalidProject, InvalidYaml, UsageError
from toolcrib.file_faults import FileFault, FileForm, faults_text
from toolcrib.project.project import Project
from toolcrib.store.address import DatabaseUrl, store_address
from toolcrib.yaml_source import Located, NodePath, read_yaml

PROJECT_FILE: Final = "toolcrib.yaml"
"""The name of a project file."""
_SETS: Final = "--set"


def find_project_file(start: Path) -> Path | None:
    """The project file of a folder: its own, or that of the closest folder above it."""
    folder = start.absolute()
    for candidate in (folder, *folder.parents):
        path = candidate / PROJECT_FILE
        if path.is_file():
            return path
    return None


def read_project(path: Path, changes: Sequence[str] = ()) -> Project:
    """Read a project file. `changes` are lines `KEY=VALUE` that override keys of the file.

    Raises one `InvalidProject` with every fault, also when there is no such file.
    """
    file = path.absolute()
    try:
        text = file.read_text("utf-8-sig")
    except OSError as error:
        raise InvalidProject(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InvalidProject(f"{path}: is not UTF-8 text; save it as UTF-8") from None
    return parse_project(text, file=file, changes=changes)


def parse_project(text: str, *, file: Path, changes: Sequence[str] = ()) -> Project:
    """Read a project from text; `file` is where relative paths start from, and its name in
    faults.
    """
    name = str(file)
    try:
        document = _with_changes(_root(read_yaml(text)), changes)
    except InvalidYaml as error:
        raise InvalidProject(f"{name}:{error.line or 1}: {error}") from None
    faults = [] if is_plain(document.plain()) else _form().faults(document, _validator())
    if not faults:
        faults = list(_file_faults(document, file.parent))
    if faults:
        raise InvalidProject(_text(name, faults))
    members = _section(Project, document.plain(), file.parent)
    return Project(file=file, lines=dict(_lines(document)), **members)


def is_plain(document: Any) -> bool:
    """Whether a file names nothing but modules, a policy and a store, and so fits the schema.

    To load the schema and its validator takes longer than everything else about a small project.
    """
    if not isinstance(document, dict):
        return False
    sections = cast("dict[str, Any]", document)
    tools: Any = sections.get("tools", {"modules": []})
    if not isinstance(tools, dict) or not sections.keys() <= {"tools", "policy", "store"}:
        return False
    tools_section = cast("dict[str, Any]", tools)
    modules: Any = tools_section.get("modules")
    if not isinstance(modules, list) or tools_section.keys() != {"modules"}:
        return False
    names = cast("list[Any]", modules)
    paths = [sections[key] for key in ("policy", "store") if key in sections]
    return (
        all(isinstance(name, str) and _MODULE.fullmatch(name) for name in names)
        and len(set(names)) == len(names)
        and all(isinstance(path, str) and path.strip() for path in paths)
    )


_MODULE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")


@functools.cache
def project_schema() -> dict[str, Any]:
    """The published JSON Schema of the file."""
    # Not importlib.resources: it takes as long to import as the rest of this module.
    return json.loads(Path(__file__).with_name("toolcrib.schema.json").read_text("utf-8"))


def _text(file: str, faults: Sequence[FileFault]) -> str:
    """The faults; one that a flag has brought has no line in the file."""
    flags = [f"{_SETS} {fault.subject}: {fault.message}" for fault in faults if not fault.line]
    return "\n".join([*flags, *filter(None, [faults_text(file, [f for f in faults if f.line])])])


@functools.cache
def _form() -> FileForm:
    return FileForm(
        project_schema(),
        lambda _, path: ".".join(str(part) for part in path),
        lambda path: str(path[-1]) if path else "the file",
        {
            "oneOf": "write either command, to start a program, or url, to connect to an address",
            "minProperties": "this is empty; write one of its keys",
            "maxProperties": "only one of these can be chosen; remove the others",
        },
    )


@functools.cache
def _validator() -> Any:
    from jsonschema_rs import Draft202012Validator

    return Draft202012Validator(project_schema(), mask="the value")


def _root(document: Located) -> Located:
    """An empty file is a project without settings."""
    return Located({}, 1) if document.value is None else document


def _with_changes(document: Located, changes: Sequence[str]) -> Located:
    for change in changes:
        key, separator, text = change.partition("=")
        if not separator or not key:
            raise InvalidProject(f"{_SETS} {change[:80]!r}: write KEY=VALUE, like store=crib.db")
        try:
            value = read_yaml(text)
        except InvalidYaml as error:
            raise InvalidProject(f"{_SETS} {key[:80]}: {error}") from None
        document = _changed(document, key.split("."), _without_lines(value))
    return document


def _changed(node: Located, path: Sequence[str], value: Located) -> Located:
    if not path:
        return value
    members: Mapping[str, Located] = node.value if isinstance(node.value, Mapping) else {}
    first, *rest = path
    inner = _changed(members.get(first, Located({}, 0)), rest, value)
    return Located({**members, first: inner}, node.line)


def _without_lines(node: Located) -> Located:
    match node.value:
        case tuple() as items:
            return Located(tuple(_without_lines(item) for item in items), 0)
        case Mapping() as members:
            return Located({key: _without_lines(value) for key, value in members.items()}, 0)
        case scalar:
            return Located(scalar, 0)


def _lines(node: Located, path: str = "") -> Iterator[tuple[str, int]]:
    """The line of every key, by its dotted name."""
    if not isinstance(node.value, Mapping):
        return
    for key, member in node.value.items():
        name = f"{path}.{key}" if path else key
        yield name, member.line
        yield from _lines(member, name)


def _file_faults(document: Located, folder: Path) -> Iterator[FileFault]:
    """Files that the project names and that are not there, and an address that is none. A store,
    a key or a file of tokens may come later.
    """
    plain = document.plain()
    try:
        store_address(plain.get("store", ""))
    except UsageError as error:
        yield FileFault(document.line_at(["store"]), "store", str(error))
    for path, name in _required_files(plain):
        if not (folder / Path(name).expanduser()).is_file():
            line = document.line_at(path)
            subject = ".".join(str(part) for part in path)
            yield FileFault(line, subject, f"there is no file {name!r} in {folder}")


def _required_files(plain: Mapping[str, Any]) -> Iterator[tuple[NodePath, str]]:
    for key in ("policy", "mcp_servers_file", "prices"):
        if key in plain:
            yield [key], plain[key]
    for index, name in enumerate(plain.get("tools", {}).get("files", [])):
        yield ["tools", "files", index], name
    if isinstance(plain.get("instructions"), dict):
        yield ["instructions", "file"], plain["instructions"]["file"]
    scenario = plain.get("model", {}).get("embedded", {}).get("scenario")
    if scenario is not None:
        yield ["model", "embedded", "scenario"], scenario


def _section(section: type[Any], plain: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The fields of a section from data that fits the schema."""
    hints = section_types(section, has_notifications="notifications" in plain)
    names = {each.name for each in fields(section)}
    values = {
        key: _value(hints[key], value, folder)
        for key, value in plain.items()
        if key in names and key != "instructions"
    }
    if section is Project and "instructions" in plain:
        values |= _instructions(plain["instructions"], folder)
    return values


def section_types(section: type[Any], *, has_notifications: bool = True) -> dict[str, Any]:
    """The types of the fields of a section."""
    source: Any = object
    if has_notifications:
        # Few projects have any, and their options take long to import.
        from toolcrib.notifications.options import NotificationSource

        source = NotificationSource
    return get_type_hints(section, localns={"NotificationSource": source})


def _value(hint: Any, value: Any, folder: Path) -> Any:
    kinds = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    if DatabaseUrl in kinds:
        return store_address(value, folder=folder)
    for kind in kinds:
        if kind is Path:
            return folder / Path(value).expanduser()
        if is_dataclass(kind):
            return cast("Any", kind)(**_section(cast("type[Any]", kind), value, folder))
        if get_origin(kind) is tuple:
            return tuple(_value(get_args(kind)[0], item, folder) for item in value)
    return value


def _instructions(value: Any, folder: Path) -> dict[str, Any]:
    if isinstance(value, str):
        return {"instructions": value}
    path = folder / Path(value["file"]).expanduser()
    try:
        text = path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidProject(f"{path}: the instructions cannot be read: {error}") from None
    return {"instructions": text, "instructions_file": path}

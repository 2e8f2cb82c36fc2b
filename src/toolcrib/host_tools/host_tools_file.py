"""Host tools from YAML files. Every fault names the file, the line and the tool.

The format is published as `host-tools.schema.json` beside this module.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from os import PathLike
from pathlib import Path
from typing import Any, cast

from toolcrib.errors import InvalidTool, InvalidYaml
from toolcrib.file_faults import FileFault, FileForm, faults_text
from toolcrib.host_tools.definition import HostToolDefinition, ToolScope
from toolcrib.host_tools.python_modules import find_callable, import_named
from toolcrib.host_tools.registrations import Origin
from toolcrib.mcp_client.config import (
    HttpServerConfig,
    McpServerConfig,
    StdioServerConfig,
    server_from,
)
from toolcrib.tools.json_schema import check_output_schema, check_schema
from toolcrib.yaml_source import Located, NodePath, read_yaml


def invalid_file(file: str, faults: Iterable[FileFault]) -> InvalidTool:
    """One error for all faults of a file, in the order of their lines."""
    return InvalidTool(faults_text(file, faults))


def schema_faults(document: Located) -> list[FileFault]:
    """The faults of a file against the published schema."""
    return _form().faults(document, _validator())


def subject_of(document: Located, path: NodePath) -> str:
    """The name of the tool or server that `path` leads into."""
    match list(path):
        case ["tools", int(index), *_]:
            tool = document.plain()["tools"][index]
            name = cast("Any", tool).get("name") if isinstance(tool, dict) else None
            return f"tools[{index}] {name!r}" if isinstance(name, str) else f"tools[{index}]"
        case ["mcp_servers", str(name), *_]:
            return f"mcp_servers.{name}"
        case _:
            return ""


def _key_in(path: NodePath) -> str:
    """The part of a path within its tool or server."""
    inner = path[2:] if path and path[0] in ("tools", "mcp_servers") and len(path) > 1 else path
    return ".".join(map(str, inner))


@functools.cache
def _form() -> FileForm:
    return FileForm(
        _schema(),
        subject_of,
        _key_in,
        {
            "oneOf": "write either command, to start a program, or url, to connect to an address",
            "minProperties": "the file is empty; write tools: or mcp_servers:",
        },
    )


@functools.cache
def _schema() -> dict[str, Any]:
    text = files("toolcrib.host_tools").joinpath("host-tools.schema.json").read_text("utf-8")
    return json.loads(text)


@functools.cache
def _validator() -> Any:
    from jsonschema_rs import Draft202012Validator

    return Draft202012Validator(_schema(), mask="the value")


_OPTIONS = (
    "category",
    "requires_approval",
    "timeout",
    "version",
    "is_idempotent",
    "is_read_only",
    "deprecated",
    "sandbox",
    "output_schema",
)
_LISTS = ("uses", "requires")


@dataclass(frozen=True, slots=True)
class FileTool:
    """A tool of a file: its definition, the module of its handler, its index and its line."""

    definition: HostToolDefinition
    module: str
    index: int
    line: int


@dataclass(frozen=True, slots=True)
class HostToolsFile:
    """A valid file: every handler was imported and every schema was checked."""

    file: str
    tools: tuple[FileTool, ...]
    mcp_servers: tuple[McpServerConfig, ...] = ()
    notes: tuple[str, ...] = ()
    """What in a file of another program is not used."""

    @property
    def definitions(self) -> tuple[HostToolDefinition, ...]:
        """The tools' definitions, in the order of the file."""
        return tuple(tool.definition for tool in self.tools)

    def with_origins(self) -> list[tuple[HostToolDefinition, Origin]]:
        """The definitions, each with its origin."""
        return [
            (tool.definition, Origin(self.file, f":{tool.line}: tools[{tool.index}]"))
            for tool in self.tools
        ]


def load_host_tools_file(path: str | PathLike[str]) -> HostToolsFile:
    """Read a file and import its handlers. A file named `*.json` has the MCP servers of another
    client, as `mcpServers`.

    Raises one `InvalidTool` with every fault, also for a missing file.
    """
    file = str(Path(path))
    try:
        text = Path(file).read_text("utf-8-sig")
    except OSError as error:
        raise InvalidTool(f"{file}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InvalidTool(f"{file}: is not UTF-8 text; save it as UTF-8") from None
    if Path(file).suffix == ".json":
        from toolcrib.host_tools.mcp_json import parse_mcp_json

        other = parse_mcp_json(text, file=file)
        return HostToolsFile(file, (), other.servers, other.notes)
    return parse_host_tools(text, file=file)


def parse_host_tools(text: str, *, file: str = "host tools") -> HostToolsFile:
    """Read host tools from text; `file` is its name in faults and origins."""
    try:
        document = read_yaml(text)
    except InvalidYaml as error:
        raise invalid_file(file, [FileFault(error.line or 1, "", str(error))]) from None
    if faults := schema_faults(document):
        raise invalid_file(file, faults)
    # All faults are collected before any is raised: fixing a file should take one round.
    entries = [*_tools(document), *_servers(document)]
    tools = tuple(entry for entry in entries if isinstance(entry, FileTool))
    faults = [entry for entry in entries if isinstance(entry, FileFault)]
    faults += _duplicates(tools)
    if faults:
        raise invalid_file(file, faults)
    return HostToolsFile(
        file=file,
        tools=tools,
        mcp_servers=tuple(
            entry for entry in entries if isinstance(entry, StdioServerConfig | HttpServerConfig)
        ),
    )


def module_names(path: str | PathLike[str]) -> tuple[str, ...]:
    """The modules that a file names; none when it cannot be read."""
    try:
        document = read_yaml(Path(path).read_text("utf-8-sig"))
    except (OSError, ValueError):
        return ()
    tools = _member(document, "tools")
    items = tools.value if tools is not None and isinstance(tools.value, tuple) else ()
    names = [module.value for item in items if (module := _member(item, "module")) is not None]
    return tuple(dict.fromkeys(name for name in names if isinstance(name, str)))


def _member(node: Located, key: str) -> Located | None:
    return node.value.get(key) if isinstance(node.value, Mapping) else None


def _tools(document: Located) -> Iterator[FileTool | FileFault]:
    entries = cast("list[dict[str, Any]]", document.plain().get("tools", []))
    for index, entry in enumerate(entries):
        path: list[str | int] = ["tools", index]
        try:
            definition = _definition(entry)
        except _InvalidEntry as error:
            line = document.line_at([*path, *error.path])
            yield FileFault(line, subject_of(document, path), error.message)
        else:
            yield FileTool(definition, entry["module"], index, document.line_at(path))


class _InvalidEntry(Exception):
    """The fault of one tool, and the path to it within the tool."""

    def __init__(self, key: str, error: Exception, name: str) -> None:
        self.path = [key, *getattr(error.__cause__, "instance_path", ())]
        self.message = str(error).removeprefix(f"tool {name!r}: ")


def _definition(entry: dict[str, Any]) -> HostToolDefinition:
    name = entry["name"]
    with _about("sandbox", name):
        _check_sandbox(entry.get("sandbox", False))
    with _about("module", name):
        import_named(entry["module"])
    with _about("function", name):
        function = find_callable(entry["module"], entry["function"])
    with _about("parameters", name):
        check_schema(name, entry["parameters"])
    with _about("output_schema", name):
        if "output_schema" in entry:
            check_output_schema(name, entry["output_schema"])
    with _about("function", name):
        return _build_definition(entry, function)


@contextmanager
def _about(key: str, name: str) -> Generator[None]:
    try:
        yield
    except (ValueError, TypeError) as error:
        raise _InvalidEntry(key, error, name) from error


def _build_definition(entry: dict[str, Any], function: Any) -> HostToolDefinition:
    scope = ToolScope(entry.get("scope", ToolScope.GLOBAL))
    maker = "factory" if scope is ToolScope.SESSION else "handler"
    options: dict[str, Any] = {option: entry[option] for option in _OPTIONS if option in entry}
    for option in _LISTS:
        options[option] = tuple(entry.get(option, ()))
    return HostToolDefinition(
        name=entry["name"],
        description=entry["description"],
        parameters=entry["parameters"],
        scope=scope,
        **{maker: function},
        **options,
    )


def _check_sandbox(options: Any) -> None:
    if options is False:
        return
    from toolcrib.sandbox.command import SandboxOptions

    for path in SandboxOptions.of(options).readable:
        if not path.exists():
            raise InvalidTool(f"the readable path {str(path)!r} does not exist")


def _duplicates(tools: Iterable[FileTool]) -> Iterator[FileFault]:
    first: dict[str, FileTool] = {}
    for tool in tools:
        name = tool.definition.name
        earlier = first.setdefault(name, tool)
        if earlier is not tool:
            subject = f"tools[{tool.index}] {name!r}"
            yield FileFault(
                tool.line, subject, f"line {earlier.line} has a tool of that name already"
            )


def _servers(document: Located) -> Iterator[McpServerConfig | FileFault]:
    entries = cast("dict[str, dict[str, Any]]", document.plain().get("mcp_servers", {}))
    for name, entry in entries.items():
        path = ["mcp_servers", name]
        try:
            yield server_from(name, entry)
        except InvalidTool as error:
            yield FileFault(document.line_at(path), subject_of(document, path), str(error))

"""Host tools from YAML files. Every fault names the file, the line and the tool.

The format is published as `host-tools.schema.json` beside this module.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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
from toolcrib.tools.decorator import FunctionTool
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
        case ["mcp_servers" | "openapi" as section, str(name), *_]:
            return f"{section}.{name}"
        case _:
            return ""


def _key_in(path: NodePath) -> str:
    """The part of a path within its tool or server."""
    is_inner = len(path) > 1 and path[0] in ("tools", "mcp_servers", "openapi")
    inner = path[2:] if is_inner else path
    return ".".join(map(str, inner))


@functools.cache
def _form() -> FileForm:
    return FileForm(
        _schema(),
        subject_of,
        _key_in,
        {
            "oneOf": "write either command, to start a program, or url, to connect to an address",
            "minProperties": "the file is empty; write tools:, mcp_servers: or openapi:",
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
    """A tool of a file: its definition, the entry that it comes from, and its line."""

    definition: HostToolDefinition
    entry: str
    line: int


@dataclass(frozen=True, slots=True)
class FileApi:
    """A web API of a file: where its document lies, its tools, and what of it is not served."""

    document: str
    tools: tuple[FileTool, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HostToolsFile:
    """A valid file: every handler was imported and every schema was checked."""

    file: str
    tools: tuple[FileTool, ...]
    mcp_servers: tuple[McpServerConfig, ...] = ()
    notes: tuple[str, ...] = ()
    """What is not used: in a file of another program, or of a web API."""
    documents: tuple[str, ...] = ()
    """Where the OpenAPI documents lie that it names."""

    @property
    def definitions(self) -> tuple[HostToolDefinition, ...]:
        """The tools' definitions, in the order of the file."""
        return tuple(tool.definition for tool in self.tools)

    def with_origins(self) -> list[tuple[HostToolDefinition, Origin]]:
        """The definitions, each with its origin."""
        return [
            (tool.definition, Origin(self.file, f":{tool.line}: {tool.entry}"))
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
    # All faults are collected before any is raised: fixing a file should take one round.
    faults = schema_faults(document)
    malformed = {fault.subject for fault in faults}
    entries = [*_tools(document, malformed), *_servers(document, malformed)]
    apis = [*_apis(document, malformed, Path(file).parent)]
    tools = tuple(entry for entry in entries if isinstance(entry, FileTool))
    tools += tuple(tool for api in apis if isinstance(api, FileApi) for tool in api.tools)
    faults += [entry for entry in [*entries, *apis] if isinstance(entry, FileFault)]
    faults += _duplicates(document)
    if faults:
        raise invalid_file(file, faults)
    return HostToolsFile(
        file=file,
        tools=tools,
        mcp_servers=tuple(
            entry for entry in entries if isinstance(entry, StdioServerConfig | HttpServerConfig)
        ),
        notes=tuple(note for api in apis if isinstance(api, FileApi) for note in api.notes),
        documents=tuple(api.document for api in apis if isinstance(api, FileApi)),
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


def _tool_entries(document: Located) -> Iterator[tuple[list[str | int], dict[str, Any]]]:
    """The entries of `tools` that are mappings, each with its path."""
    node = _member(document, "tools")
    value: Any = None if node is None else node.plain()
    for index, entry in enumerate(cast("list[Any]", value) if isinstance(value, list) else []):
        if isinstance(entry, dict):
            yield ["tools", index], cast("dict[str, Any]", entry)


def _named_entries(document: Located, section: str) -> dict[str, Any]:
    """The entries of a section that is a mapping; none where it is not."""
    node = _member(document, section)
    value: Any = None if node is None else node.plain()
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _tools(document: Located, malformed: Collection[str]) -> Iterator[FileTool | FileFault]:
    for path, entry in _tool_entries(document):
        subject = subject_of(document, path)
        faults = list(_entry_faults(entry))
        for fault in faults:
            yield FileFault(document.line_at([*path, *fault.path]), subject, fault.message)
        if not faults and subject not in malformed:
            try:
                definition = _definition(entry)
            except (ValueError, TypeError) as error:
                fault = _EntryFault.of("function", error, entry["name"])
                yield FileFault(document.line_at([*path, *fault.path]), subject, fault.message)
            else:
                yield FileTool(definition, f"tools[{path[1]}]", document.line_at(path))


@dataclass(frozen=True, slots=True)
class _EntryFault:
    """A fault of one tool, and the path to it within the tool."""

    path: Sequence[str | int]
    message: str

    @classmethod
    def of(cls, key: str, error: Exception, name: object) -> _EntryFault:
        path = [key, *getattr(error.__cause__, "instance_path", ())]
        return cls(path, str(error).removeprefix(f"tool {name!r}: "))


def _entry_faults(entry: dict[str, Any]) -> Iterator[_EntryFault]:
    """What is wrong with an entry beyond its form. A key of a wrong form is left to the form."""
    name = entry.get("name")
    checks: dict[str, Callable[[], object]] = {"sandbox": lambda: _check_sandbox(entry)}
    module, function = _dotted(entry, "module"), _dotted(entry, "function")
    if module:
        checks["module"] = lambda: import_named(module)
    if isinstance(entry.get("parameters"), dict):
        checks["parameters"] = lambda: check_schema(str(name), entry["parameters"])
    if isinstance(entry.get("output_schema"), dict):
        checks["output_schema"] = lambda: check_output_schema(str(name), entry["output_schema"])
    faults = {key: fault for key, check in checks.items() if (fault := _fault(key, check, name))}
    if module and function and "module" not in faults:
        check = functools.partial(_check_function, entry, module, function)
        if fault := _fault("function", check, name):
            faults["function"] = fault
    yield from faults.values()


def _dotted(entry: dict[str, Any], key: str) -> str:
    """The dotted Python name of a key; empty for anything else, which the form complains about."""
    text = entry.get(key)
    is_dotted = isinstance(text, str) and all(part.isidentifier() for part in text.split("."))
    return cast("str", text) if is_dotted else ""


def _fault(key: str, check: Callable[[], object], name: object) -> _EntryFault | None:
    try:
        check()
    except (ValueError, TypeError) as error:
        return _EntryFault.of(key, error, name)
    return None


_OWN = ("parameters", "output_schema", "scope", "sandbox")
"""What an `@tool` function brings itself, or cannot have."""


def _check_function(entry: dict[str, Any], module: str, name: str) -> None:
    """Raise `InvalidTool` unless the entry and the function fit each other."""
    function = find_callable(module, name)
    if isinstance(function, FunctionTool):
        if surplus := [key for key in _OWN if key in entry]:
            raise InvalidTool(
                f"{name!r} is an @tool function, which is called with typed arguments and has its "
                f"own parameters; remove {', '.join(surplus)}, or name a function that takes "
                "the arguments as one dict"
            )
        return
    for key in ("description", "parameters"):
        if key not in entry:
            raise InvalidTool(f"{key!r} is missing; only an @tool function brings its own")


def _definition(entry: dict[str, Any]) -> HostToolDefinition:
    function = find_callable(entry["module"], entry["function"])
    options: dict[str, Any] = {option: entry[option] for option in _OPTIONS if option in entry}
    for option in _LISTS:
        if option in entry:
            options[option] = tuple(entry[option])
    if isinstance(function, FunctionTool):
        own = HostToolDefinition.of(cast("FunctionTool[..., Any]", function))
        description = entry.get("description", own.description)
        return replace(own, name=entry["name"], description=description, **options)
    scope = ToolScope(entry.get("scope", ToolScope.GLOBAL))
    maker = "factory" if scope is ToolScope.SESSION else "handler"
    return HostToolDefinition(
        name=entry["name"],
        description=entry["description"],
        parameters=entry["parameters"],
        scope=scope,
        **{maker: function},
        **options,
    )


def _check_sandbox(entry: dict[str, Any]) -> None:
    options: Any = entry.get("sandbox", False)
    if options is False or not isinstance(options, bool | dict):
        return
    from toolcrib.sandbox.command import SandboxOptions

    for path in SandboxOptions.of(cast("Any", options)).readable:
        if not path.exists():
            raise InvalidTool(f"the readable path {str(path)!r} does not exist")


def _duplicates(document: Located) -> Iterator[FileFault]:
    first: dict[str, int] = {}
    for path, entry in _tool_entries(document):
        name = entry.get("name")
        if not isinstance(name, str):
            continue
        line = document.line_at(path)
        if (earlier := first.setdefault(name, line)) != line:
            message = f"line {earlier} has a tool of that name already"
            yield FileFault(line, subject_of(document, path), message)


def _servers(
    document: Located, malformed: Collection[str]
) -> Iterator[McpServerConfig | FileFault]:
    for name, entry in _named_entries(document, "mcp_servers").items():
        path = ["mcp_servers", name]
        subject = subject_of(document, path)
        if subject in malformed:
            continue
        try:
            yield server_from(name, entry)
        except InvalidTool as error:
            yield FileFault(document.line_at(path), subject, str(error))


def _apis(
    document: Located, malformed: Collection[str], folder: Path
) -> Iterator[FileApi | FileFault]:
    for name, entry in _named_entries(document, "openapi").items():
        path = ["openapi", name]
        subject = subject_of(document, path)
        if subject in malformed:
            continue
        line = document.line_at(path)
        try:
            yield _api(name, entry, line, folder)
        except InvalidTool as error:
            yield FileFault(line, subject, str(error))


def _api(name: str, entry: Mapping[str, Any], line: int, folder: Path) -> FileApi:
    from toolcrib.openapi.api_entry import api_from

    place, found = api_from(name, entry, folder)
    tools = [FileTool(HostToolDefinition.of(tool), f"openapi.{name}", line) for tool in found.tools]
    notes = [f"{tool} is not served: {reason}" for tool, reason in found.invalid.items()]
    return FileApi(place, tuple(tools), tuple(notes))

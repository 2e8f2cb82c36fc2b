"""Host tools from YAML files. Every fault names the file, the line and the tool.

The file's form is published as `host-tools.schema.json` beside this module.

What is wrong with a host tools file: every fault with its line and what it is about.
"""

from __future__ import annotations

import difflib
import functools
import json
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from os import PathLike
from pathlib import Path
from typing import Any, cast

from toolcrib.errors import InvalidPolicy, InvalidTool
from toolcrib.host_tools.definition import HostToolDefinition, ToolScope
from toolcrib.host_tools.python_modules import find_callable, import_named
from toolcrib.host_tools.registrations import Origin
from toolcrib.mcp_client.config import HttpServer, McpServerConfig, StdioServer, server_from
from toolcrib.tools.json_schema import check_output_schema, check_schema
from toolcrib.yaml_source import Located, read_yaml

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
    """A tool of a file: its definition, the module of its handler, and where it stands."""

    definition: HostToolDefinition
    module: str
    index: int
    line: int


@dataclass(frozen=True, slots=True)
class HostToolsFile:
    """A file that was read whole: every handler is found and every schema is checked."""

    file: str
    tools: tuple[FileTool, ...]
    mcp_servers: tuple[McpServerConfig, ...] = ()

    @property
    def definitions(self) -> tuple[HostToolDefinition, ...]:
        """The tools' definitions, in the order of the file."""
        return tuple(tool.definition for tool in self.tools)

    def with_origins(self) -> list[tuple[HostToolDefinition, Origin]]:
        """The definitions, each with where it comes from."""
        return [
            (tool.definition, Origin(self.file, f":{tool.line}: tools[{tool.index}]"))
            for tool in self.tools
        ]


def load_host_tools_file(path: str | PathLike[str]) -> HostToolsFile:
    """Read a file and import its handlers. Raises `InvalidTool` that tells of every fault, also
    when there is no such file.
    """
    file = str(Path(path))
    try:
        text = Path(file).read_text("utf-8-sig")
    except OSError as error:
        raise InvalidTool(f"{file}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InvalidTool(f"{file}: is not UTF-8 text; save it as UTF-8") from None
    return parse_host_tools(text, file=file)


def parse_host_tools(text: str, *, file: str = "host tools") -> HostToolsFile:
    """Read host tools from text; `file` is what faults and origins call it."""
    try:
        document = read_yaml(text)
    except InvalidPolicy as error:
        raise refusal(file, [FileFault(error.line or 1, "", str(error))]) from None
    if faults := form_faults(document):
        raise refusal(file, faults)
    # All faults are found before any is told: mending a file should take one round.
    read = [*_tools(document), *_servers(document)]
    faults = [each for each in read if isinstance(each, FileFault)]
    faults += _repeated([each for each in read if isinstance(each, FileTool)])
    if faults:
        raise refusal(file, faults)
    return HostToolsFile(
        file=file,
        tools=tuple(each for each in read if isinstance(each, FileTool)),
        mcp_servers=tuple(each for each in read if isinstance(each, StdioServer | HttpServer)),
    )


def modules_named(path: str | PathLike[str]) -> tuple[str, ...]:
    """The modules that a file names, as far as it can be read at all."""
    try:
        document = read_yaml(Path(path).read_text("utf-8-sig"))
    except (OSError, ValueError):
        return ()
    tools = _member(document, "tools")
    items = tools.value if tools is not None and isinstance(tools.value, tuple) else ()
    named = [module.value for item in items if (module := _member(item, "module")) is not None]
    return tuple(dict.fromkeys(name for name in named if isinstance(name, str)))


def _member(node: Located, key: str) -> Located | None:
    return node.value.get(key) if isinstance(node.value, Mapping) else None


def _tools(document: Located) -> Iterator[FileTool | FileFault]:
    written = cast("list[dict[str, Any]]", document.plain().get("tools", []))
    for index, facts in enumerate(written):
        way: list[str | int] = ["tools", index]
        try:
            definition = _definition(facts)
        except _Faulty as found:
            line = line_at(document, [*way, *found.way])
            yield FileFault(line, place_of(document, way), found.message)
        else:
            yield FileTool(definition, facts["module"], index, line_at(document, way))


class _Faulty(Exception):
    """What is wrong with one tool, and the way to it within the tool."""

    def __init__(self, key: str, error: Exception, name: str) -> None:
        self.way = [key, *getattr(error.__cause__, "instance_path", ())]
        self.message = str(error).removeprefix(f"tool {name!r}: ")


def _definition(facts: dict[str, Any]) -> HostToolDefinition:
    name = facts["name"]
    with _about("sandbox", name):
        _check_sandbox(facts.get("sandbox", False))
    with _about("module", name):
        import_named(facts["module"])
    with _about("function", name):
        found = find_callable(facts["module"], facts["function"])
    with _about("parameters", name):
        check_schema(name, facts["parameters"])
    with _about("output_schema", name):
        if "output_schema" in facts:
            check_output_schema(name, facts["output_schema"])
    with _about("function", name):
        return _defined(facts, found)


@contextmanager
def _about(key: str, name: str) -> Generator[None]:
    try:
        yield
    except (ValueError, TypeError) as error:
        raise _Faulty(key, error, name) from error


def _defined(facts: dict[str, Any], found: Any) -> HostToolDefinition:
    scope = ToolScope(facts.get("scope", ToolScope.GLOBAL))
    maker = "factory" if scope is ToolScope.SESSION else "handler"
    options: dict[str, Any] = {option: facts[option] for option in _OPTIONS if option in facts}
    for option in _LISTS:
        options[option] = tuple(facts.get(option, ()))
    return HostToolDefinition(
        name=facts["name"],
        description=facts["description"],
        parameters=facts["parameters"],
        scope=scope,
        **{maker: found},
        **options,
    )


def _check_sandbox(written: Any) -> None:
    if written is False:
        return
    from toolcrib.sandbox.command import SandboxOptions

    for path in SandboxOptions.of(written).readable:
        if not path.exists():
            raise InvalidTool(f"there is no {str(path)!r} that the handler could read")


def _repeated(tools: list[FileTool]) -> Iterator[FileFault]:
    first: dict[str, FileTool] = {}
    for tool in tools:
        name = tool.definition.name
        earlier = first.setdefault(name, tool)
        if earlier is not tool:
            place = f"tools[{tool.index}] {name!r}"
            yield FileFault(
                tool.line, place, f"line {earlier.line} has a tool of that name already"
            )


def _servers(document: Located) -> Iterator[McpServerConfig | FileFault]:
    written = document.plain().get("mcp_servers", {})
    for name, facts in cast("dict[str, dict[str, Any]]", written).items():
        way = ["mcp_servers", name]
        try:
            yield server_from(name, facts)
        except InvalidTool as error:
            yield FileFault(line_at(document, way), place_of(document, way), str(error))

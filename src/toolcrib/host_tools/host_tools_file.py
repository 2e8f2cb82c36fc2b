"""Host tools from YAML files. Every fault names the file, the line and the tool.

The file's form is published as `host-tools.schema.json` beside this module.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, cast

from toolcrib.approval.strict_yaml import Located, read_yaml
from toolcrib.errors import InvalidPolicy, InvalidTool
from toolcrib.host_tools.definition import HostToolDefinition, ToolScope
from toolcrib.host_tools.file_faults import FileFault, form_faults, line_at, place_of, refusal
from toolcrib.host_tools.importing import find_callable, import_named
from toolcrib.host_tools.mcp_servers import (
    HttpServer,
    McpServerConfig,
    StdioServer,
    server_from,
)
from toolcrib.host_tools.registration import Origin
from toolcrib.tools.json_schema import check_output_schema, check_schema

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
    from toolcrib.sandbox.options import SandboxOptions

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

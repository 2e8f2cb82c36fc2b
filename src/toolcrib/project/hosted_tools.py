"""The hosted tools of a project file: tools that the model's provider runs.

The options are the fields of each kind's configuration. `${NAME}` in the options of a remote MCP
server stands for a variable of this process.
"""

from __future__ import annotations

import os
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any, Final, Union, cast, get_args, get_origin, get_type_hints

from toolcrib.errors import InvalidProject
from toolcrib.yaml_source import unknown_key

if TYPE_CHECKING:
    from toolcrib.project.project import Project
    from toolcrib.tools.provider_tools import HostedTool


@dataclass(frozen=True, slots=True)
class HostedKindForm:
    """A hosted kind: its configuration, and the function that makes the tool."""

    config: type[Any]
    make: Callable[[Any], HostedTool[Any]]


def hosted_kinds() -> Mapping[str, HostedKindForm]:
    """The kinds that a project file knows, by their keys."""
    from toolcrib.tools import (
        code_interpreter,
        file_search,
        image_generation,
        mcp,
        shell,
        web_fetch,
        web_search,
    )

    return {
        "web_search": HostedKindForm(web_search.WebSearchConfig, web_search.web_search_tool),
        "web_fetch": HostedKindForm(web_fetch.WebFetchConfig, web_fetch.web_fetch_tool),
        "code_interpreter": HostedKindForm(
            code_interpreter.CodeInterpreterConfig, code_interpreter.code_interpreter_tool
        ),
        "file_search": HostedKindForm(file_search.FileSearchConfig, file_search.file_search_tool),
        "image_generation": HostedKindForm(
            image_generation.ImageGenerationConfig, image_generation.image_generation_tool
        ),
        "shell": HostedKindForm(shell.ContainerShellConfig, shell.container_shell_tool),
        "mcp": HostedKindForm(mcp.McpConfig, mcp.mcp_tool),
    }


def hosted_tools_of(project: Project) -> tuple[HostedTool[Any], ...]:
    """The hosted tools of a project. Raises one `InvalidProject` with every fault."""
    if not project.hosted_tools:
        return ()
    kinds = hosted_kinds()
    tools: list[HostedTool[Any]] = []
    faults: list[str] = []
    for kind, written in project.hosted_tools.items():
        for key, options in _entries(kind, written):
            try:
                tools.append(kinds[kind].make(_config(kinds[kind].config, options)))
            except _Fault as fault:
                faults.append(f"{_origin(project, key)}: {key}{fault.path}: {fault.message}")
    if faults:
        raise InvalidProject("\n".join(faults))
    return tuple(tools)


def _entries(kind: str, written: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    key = f"hosted_tools.{kind}"
    if isinstance(written, list):
        for index, options in enumerate(cast("list[Any]", written)):
            yield f"{key}.{index}", options
    elif written is not False:
        yield key, {} if written is True else written


def _origin(project: Project, key: str) -> str:
    while key not in project.lines and "." in key:
        key = key.rpartition(".")[0]
    line = project.lines.get(key, 0)
    return f"{project.file}:{line}" if line else "--set"


class _Fault(Exception):
    def __init__(self, path: str, message: str) -> None:
        self.path = path
        self.message = message


def _config(config: type[Any], options: Mapping[str, Any]) -> Any:
    from pydantic import TypeAdapter, ValidationError

    _check_keys(config, options, "")
    try:
        return TypeAdapter(config).validate_python(_filled(options))
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        names = [part for part in first["loc"] if isinstance(part, str) and part.islower()]
        raise _Fault("".join(f".{name}" for name in names), _sentence(first["msg"])) from None
    except ValueError as error:
        raise _Fault("", str(error)) from None


def _sentence(message: str) -> str:
    return message.removeprefix("Value error, ").rstrip(".")


def _check_keys(config: type[Any], options: Mapping[str, Any], path: str) -> None:
    """Refuse keys that no configuration has: they would be dropped."""
    hints = get_type_hints(config)
    known = [each.name for each in fields(config)]
    for key, value in options.items():
        if key not in known:
            raise _Fault(path, unknown_key(key, known))
        if isinstance(value, Mapping):
            members = cast("Mapping[str, Any]", value)
            _check_union(hints[key], members, f"{path}.{key}")


def _check_union(hint: Any, members: Mapping[str, Any], path: str) -> None:
    """A value of several possible configurations: all its keys are of one of them."""
    faults: list[_Fault] = []
    for kind in _kinds_in(hint):
        try:
            _check_keys(kind, members, path)
        except _Fault as fault:
            faults.append(fault)
        else:
            return
    if faults:
        raise faults[0]


def _kinds_in(hint: Any) -> Iterator[type[Any]]:
    if get_origin(hint) in (Union, types.UnionType):
        for member in get_args(hint):
            yield from _kinds_in(member)
    elif is_dataclass(hint):
        yield cast("type[Any]", hint)


_ENVIRON: Final = os.environ


def _filled(value: Any) -> Any:
    from toolcrib.mcp_client.config import fill

    match value:
        case str():
            return fill("hosted_tools", value, _ENVIRON)
        case Mapping():
            members = cast("Mapping[str, Any]", value)
            return {key: _filled(member) for key, member in members.items()}
        case list():
            return [_filled(member) for member in cast("list[Any]", value)]
        case _:
            return value

"""Tools that the client runs: functions and custom tools, alone or in a namespace, patches, and a
tool search of the client's own.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast

from toolcrib.embedded.backend import BackendTool
from toolcrib.embedded.database import new_id
from toolcrib.embedded.faults import invalid

if TYPE_CHECKING:
    from toolcrib.embedded.responses.writer import ResponseWriter

RequestToolType: TypeAlias = Literal["function", "custom", "apply_patch", "tool_search"]

NAMESPACE: Final = "namespace"
TOOL_SEARCH: Final = "tool_search"
APPLY_PATCH: Final = "apply_patch"
NAMED: Final = frozenset({"function", "custom"})
CLIENT_TYPES: Final = frozenset({*NAMED, NAMESPACE, APPLY_PATCH})
LOADING_ITEMS: Final = frozenset({"tool_search_output", "additional_tools"})
"""Items of a conversation that bring tools."""
_LONGEST_NAMESPACE: Final = 200
_NO_PARAMETERS: Final[dict[str, Any]] = {"type": "object", "properties": {}}
_FREE: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"input": {"type": "string"}},
    "required": ["input"],
}
_QUERY: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"query": {"type": "string", "description": "What the tool should do."}},
    "required": ["query"],
}
_PATCH: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "type": {"type": "string", "enum": ["create_file", "update_file", "delete_file"]},
        "path": {"type": "string", "description": "The path below the workspace."},
        "diff": {
            "type": "string",
            "description": "Lines that begin with a space, + or -, below @@ lines that name their "
            "place. A new file has + lines only. A deletion has no diff.",
        },
    },
    "required": ["type", "path"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class RequestTool:
    """A tool that the client runs. The backend sees it as `declaration`, under a flat name."""

    type: RequestToolType
    name: str
    declaration: BackendTool
    config: Mapping[str, Any]
    namespace: Mapping[str, Any] | None = None

    @property
    def namespace_name(self) -> str | None:
        """The name of its namespace."""
        return None if self.namespace is None else self.namespace["name"]

    @property
    def is_deferred(self) -> bool:
        """Whether the backend has to search for it."""
        return self.config.get("defer_loading") is True

    @property
    def facts(self) -> dict[str, Any]:
        """What a tool choice may name."""
        return {"type": self.type, "name": self.name, "namespace": self.namespace_name}

    def named(self, flat: str) -> RequestTool:
        """The tool under another flat name."""
        return replace(self, declaration=replace(self.declaration, name=flat))


def flat_name(namespace: str | None, name: str) -> str:
    """The one name by which a backend knows a tool of a namespace."""
    return name if namespace is None else f"{namespace.removesuffix('__')}__{name}"


def is_client_tool(config: Mapping[str, Any]) -> bool:
    """Whether the client runs this tool of a request."""
    type_ = str(config.get("type"))
    return type_ in CLIENT_TYPES or (type_ == TOOL_SEARCH and config.get("execution") == "client")


def read_client_tools(config: Mapping[str, Any], param: str) -> list[RequestTool]:
    """The tools of the client that one entry of a request declares. Raises `ApiFault`."""
    match config.get("type"):
        case "function" | "custom":
            return [_named_tool(config, param)]
        case "namespace":
            return _namespace(config, param)
        case "apply_patch":
            about = "Create, update or delete one file of the user's workspace."
            return [
                RequestTool(
                    APPLY_PATCH, APPLY_PATCH, BackendTool(APPLY_PATCH, about, _PATCH), config
                )
            ]
        case "tool_search" if config.get("execution") == "client":
            about = str(config.get("description") or "Find tools that are not offered yet.")
            declaration = BackendTool(TOOL_SEARCH, about, _schema(config, param) or _QUERY)
            return [RequestTool(TOOL_SEARCH, TOOL_SEARCH, declaration, config)]
        case _:
            return []


def _namespace(config: Mapping[str, Any], param: str) -> list[RequestTool]:
    name, members = config.get("name"), config.get("tools")
    if not isinstance(name, str) or not name:
        raise invalid("A namespace needs a name.", f"{param}.name")
    if not isinstance(members, list) or not members:
        raise invalid("A namespace needs a list of tools.", f"{param}.tools")
    lines = str(config.get("description") or "").strip().splitlines()
    about = f"[{name}: {lines[0][:_LONGEST_NAMESPACE]}] " if lines else ""
    tools: list[RequestTool] = []
    for at, member in enumerate(cast(list[object], members)):
        place = f"{param}.tools[{at}]"
        if (
            not isinstance(member, dict)
            or str(cast(dict[str, Any], member).get("type")) not in NAMED
        ):
            raise invalid("A namespace holds function and custom tools only.", f"{place}.type")
        tool = _named_tool(cast(dict[str, Any], member), place)
        shown = tool.declaration
        declaration = replace(
            shown, name=flat_name(name, tool.name), description=about + shown.description
        )
        tools.append(replace(tool, namespace=config, declaration=declaration))
    return tools


def _named_tool(config: Mapping[str, Any], param: str) -> RequestTool:
    name = config.get("name")
    if not isinstance(name, str) or not name:
        raise invalid("A tool needs a name.", f"{param}.name")
    _check_callers(config, param)
    description = str(config.get("description") or "")
    if config["type"] == "custom":
        about = description + _grammar(config)
        return RequestTool(
            "custom", name, BackendTool(name, about, _FREE, is_freeform=True), config
        )
    parameters = _schema(config, param) or _NO_PARAMETERS
    return RequestTool("function", name, BackendTool(name, description, parameters), config)


def _check_callers(config: Mapping[str, Any], param: str) -> None:
    callers = config.get("allowed_callers")
    if isinstance(callers, list) and callers and "direct" not in callers:
        raise invalid(
            "No program calls tools here: allow the caller 'direct'.", f"{param}.allowed_callers"
        )


def _schema(config: Mapping[str, Any], param: str) -> dict[str, Any] | None:
    parameters = config.get("parameters")
    if parameters is not None and not isinstance(parameters, dict):
        raise invalid("A function's parameters must be a JSON Schema.", f"{param}.parameters")
    return cast("dict[str, Any] | None", parameters)


def _grammar(config: Mapping[str, Any]) -> str:
    """The grammar of a custom tool's input, which a backend is told and nothing enforces."""
    format_: object = config.get("format")
    grammar = cast(dict[str, Any], format_) if isinstance(format_, dict) else {}
    if grammar.get("type") != "grammar":
        return ""
    return f"\n\nThe input has this grammar ({grammar.get('syntax')}):\n{grammar.get('definition')}"


def loaded_tools(item: Mapping[str, Any], param: str) -> list[RequestTool]:
    """The tools of the client that an item brings. Raises `ApiFault` for tools of other kinds,
    unless a search of the provider found them in the request.
    """
    listed: object = item.get("tools")
    if not isinstance(listed, list):
        raise invalid("'tools' must be a list of tools.", f"{param}.tools")
    tools: list[RequestTool] = []
    for at, config in enumerate(cast(list[object], listed)):
        place = f"{param}.tools[{at}]"
        facts = cast(dict[str, Any], config) if isinstance(config, dict) else {}
        if str(facts.get("type")) in CLIENT_TYPES:
            tools += read_client_tools(facts, place)
        elif item.get("execution") != "server":
            raise invalid(
                "An item brings function, custom and namespace tools only; name the others in "
                "'tools'.",
                f"{place}.type",
            )
    return tools


def unique_tools(tools: Iterable[tuple[RequestTool, str]]) -> list[RequestTool]:
    """Give each tool a flat name of its own. Raises `ApiFault` for two tools of one name."""
    seen: set[tuple[str | None, str]] = set()
    taken: set[str] = set()
    unique: list[RequestTool] = []
    for tool, param in tools:
        key = (tool.namespace_name, tool.name)
        if key in seen:
            raise invalid(f"Two tools are named {tool.name[:80]!r}.", f"{param}.name")
        seen.add(key)
        flat, again = tool.declaration.name, 2
        while flat in taken:
            flat, again = f"{tool.declaration.name}_{again}", again + 1
        taken.add(flat)
        unique.append(tool.named(flat))
    return unique


def write_client_call(writer: ResponseWriter, tool: RequestTool, arguments: str) -> str | None:
    """Write a call that the client must run. Returns why it cannot be written, for the backend."""
    match tool.type:
        case "function":
            _write_function_call(writer, tool, arguments)
        case "custom":
            _write_custom_call(writer, tool, freeform_input(arguments))
        case "tool_search":
            return _write_search_call(writer, arguments)
        case "apply_patch":
            return _write_patch_call(writer, arguments)
    return None


def freeform_input(arguments: str) -> str:
    """The text for a custom tool: models that know only JSON send it as `input`."""
    read = _object(arguments)
    if read is not None and list(read) == ["input"] and isinstance(read["input"], str):
        return read["input"]
    return arguments


def _address(tool: RequestTool) -> dict[str, Any]:
    call: dict[str, Any] = {"call_id": new_id("call"), "name": tool.name}
    return call if tool.namespace is None else {**call, "namespace": tool.namespace_name}


def _write_function_call(writer: ResponseWriter, tool: RequestTool, arguments: str) -> None:
    base = {"id": new_id("fc"), "type": "function_call", "status": "in_progress"}
    index = writer.add_item({**base, **_address(tool), "arguments": ""})
    writer.emit("function_call_arguments.delta", index, delta=arguments)
    writer.emit("function_call_arguments.done", index, arguments=arguments)
    writer.finish_item(index, arguments=arguments, status="completed")


def _write_custom_call(writer: ResponseWriter, tool: RequestTool, text: str) -> None:
    base = {"id": new_id("ctc"), "type": "custom_tool_call"}
    index = writer.add_item({**base, **_address(tool), "input": ""})
    writer.emit("custom_tool_call_input.delta", index, delta=text)
    writer.emit("custom_tool_call_input.done", index, input=text)
    writer.finish_item(index, input=text)


def _write_search_call(writer: ResponseWriter, arguments: str) -> str | None:
    read = _object(arguments)
    if read is None:
        return "The arguments are not a JSON object."
    base = {"id": new_id("tsc"), "type": "tool_search_call", "execution": "client"}
    call = {"call_id": new_id("call"), "status": "in_progress", "arguments": read}
    writer.finish_item(writer.add_item({**base, **call}), status="completed")
    return None


def _write_patch_call(writer: ResponseWriter, arguments: str) -> str | None:
    operation = _operation(_object(arguments) or {})
    if operation is None:
        return "A patch needs a type (create_file, update_file, delete_file), a path and a diff."
    base = {"id": new_id("apc"), "type": "apply_patch_call", "call_id": new_id("call")}
    index = writer.add_item({**base, "status": "in_progress", "operation": operation})
    writer.finish_item(index, status="completed")
    return None


def _operation(arguments: Mapping[str, Any]) -> dict[str, Any] | None:
    inner: object = arguments.get("operation")
    facts = cast(dict[str, Any], inner) if isinstance(inner, dict) else arguments
    type_, path, diff = facts.get("type"), facts.get("path"), facts.get("diff")
    if not isinstance(path, str) or not path:
        return None
    if type_ == "delete_file":
        return {"type": type_, "path": path}
    if type_ not in ("create_file", "update_file") or not isinstance(diff, str):
        return None
    return {"type": type_, "path": path, "diff": diff}


def _object(arguments: str) -> dict[str, Any] | None:
    try:
        read = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        return None
    return cast(dict[str, Any], read) if isinstance(read, dict) else None

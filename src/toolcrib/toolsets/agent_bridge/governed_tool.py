"""A tool of any pydantic-ai toolset as a tool of the executor.

The toolset's own validator decides what is valid, because its function takes what that makes of the
arguments. Rules, approvers and records get canonical JSON of the same arguments. Where JSON and
validated values do not lead to each other, or nothing validates, the tool's JSON Schema decides,
strictly: nobody must approve one thing and have another run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, replace
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Final, cast

from pydantic import ValidationError
from pydantic_ai import exceptions as agent_exceptions
from pydantic_core import PydanticSerializationError, to_json

from toolcrib.errors import CallEnded, InvalidTool
from toolcrib.tools.identity import HandlerIdentity
from toolcrib.tools.prepared_tool import PreparedTool, prepare
from toolcrib.tools.tool import Tool
from toolcrib.toolsets.agent_bridge.tools import AgentTool
from toolcrib.toolsets.agent_bridge.values import pack, run_context, translate

if TYPE_CHECKING:
    from pydantic_ai import RunContext, ToolDefinition
    from pydantic_ai.toolsets import AbstractToolset, ToolsetTool

    from toolcrib.tools.context import ToolContext
    from toolcrib.tools.identity import BindTo

_ANYTHING: Final = {"type": "object"}
_AGENT_ID: Final = "<agent>"
"""How pydantic-ai names the toolset of functions that an agent was given directly."""


@dataclass(frozen=True, slots=True)
class RunListing:
    """The tools of a toolset in one step of a run, by name, as the toolset listed them."""

    toolset: AbstractToolset[Any]
    tools: Mapping[str, ToolsetTool[Any]]
    run: RunContext[Any]


LISTING_HERE: Final[ContextVar[RunListing | None]] = ContextVar("toolcrib_listing", default=None)
"""The listing that the running call was made from. A handler finds the toolset of its run there."""


def is_governed(tool: ToolsetTool[Any]) -> bool:
    """Whether calls of a tool go through an executor already, however the tool is wrapped."""
    inner: object = tool
    while inner is not None:
        if isinstance(inner, AgentTool):
            return True
        inner = getattr(inner, "source_tool", None)
    return False


@dataclass(frozen=True, slots=True)
class ForeignArguments:
    """Arguments as the tool takes them, and the JSON of them that counts."""

    values: dict[str, Any]
    canonical: bytes


class ForeignHandler:
    """Runs a tool of a toolset that somebody else wrote, in the run that the call is part of."""

    def __init__(self, name: str, definition: ToolDefinition, function: object) -> None:
        self._name = name
        self._definition = definition
        self._function = function

    def handler_identity(self) -> HandlerIdentity:
        """What the definition says, and the function behind it where there is one here."""
        facts = {
            "parameters": self._definition.parameters_json_schema,
            "sequential": self._definition.sequential,
            "toolset": self._definition.toolset_id,
        }
        return HandlerIdentity(facts, self._function)

    async def __call__(self, arguments: Any, ctx: ToolContext, /) -> Any:
        """Call the tool. Values and exceptions of pydantic-ai keep their meaning."""
        listing = LISTING_HERE.get()
        tool = None if listing is None else listing.tools.get(self._name)
        if listing is None or tool is None or ctx.run is None:
            raise CallEnded(
                "unavailable",
                f"`{self._name}` belongs to a toolset of an agent and runs in a run of it only.",
            )
        run = run_context(ctx)
        try:
            await check_by_toolset(tool, run, arguments.values)
            result = await listing.toolset.call_tool(self._name, arguments.values, run, tool)
            return pack(result)
        except Exception as error:
            signal = translate(error)
            if signal is None or signal is error:
                raise
            raise signal from error


async def check_by_toolset(
    tool: ToolsetTool[Any], run: RunContext[Any], values: dict[str, Any]
) -> None:
    """Ask the tool's own check of valid arguments, if it has one. It raises what it raises."""
    if tool.args_validator_func is not None:
        reply = tool.args_validator_func(run, **values)
        if isawaitable(reply):
            await reply


async def check_early(tool: ToolsetTool[Any], run: RunContext[Any], values: dict[str, Any]) -> None:
    """The same, before anybody is asked. Where the check itself asks or defers, it is asked again
    when the call runs, and the gate takes note then.
    """
    try:
        await check_by_toolset(tool, run, values)
    except (agent_exceptions.ApprovalRequired, agent_exceptions.CallDeferred):
        return


@dataclass(frozen=True, slots=True)
class ForeignTool:
    """A tool of a toolset in the executor's form, and what reads its arguments."""

    prepared: PreparedTool
    parser: ForeignParser


def govern_tool(
    name: str, tool: ToolsetTool[Any], source: str | None, bind_to: BindTo
) -> ForeignTool:
    """Prepare a tool of a toolset for the executor. Raises `InvalidTool`."""
    definition = tool.tool_def
    handler = ForeignHandler(name, definition, _function_of(tool))
    declared = _declare(name, definition, source or _source_of(tool), handler)
    prepared = prepare(declared, bind_to=bind_to)
    parser = ForeignParser(name, prepared.parse)
    params = replace(prepared.params, parse=parser.parse, dump=_dump)
    return ForeignTool(replace(prepared, params=params, parse=parser.parse, dump=_dump), parser)


def _declare(
    name: str, definition: ToolDefinition, source: str, handler: ForeignHandler
) -> Tool[Any, Any]:
    annotations = cast("dict[str, Any]", (definition.metadata or {}).get("annotations") or {})
    facts: dict[str, Any] = {
        "name": name,
        "description": definition.description or f"{name} (it has no description)",
        # What runs outside of the agent has no handler here.
        "handler": None if definition.kind == "external" else handler,
        "calling": "input",
        "source": source,
        "requires_approval": definition.kind == "unapproved",
        "is_read_only": annotations.get("readOnlyHint") is True,
        "is_foreign": True,
    }
    try:
        return Tool(json_schema=definition.parameters_json_schema, **facts)
    except InvalidTool:
        # A schema that we cannot check, such as one of an older draft: the toolset checks itself.
        return Tool(json_schema=_ANYTHING, **facts)


def _source_of(tool: ToolsetTool[Any]) -> str:
    toolset_id = tool.tool_def.toolset_id or tool.toolset.id
    return "agent" if toolset_id in (None, _AGENT_ID) else f"toolset:{toolset_id}"


def _function_of(tool: ToolsetTool[Any]) -> object | None:
    """The Python function behind a tool, whose code the identity covers; None for other tools."""
    inner: object = tool
    while inner is not None:
        schema = getattr(getattr(inner, "call_func", None), "__self__", None)
        if schema is not None:
            return getattr(schema, "function", None)
        inner = getattr(inner, "source_tool", None)
    return None


class ForeignParser:
    """Validates the arguments of one tool."""

    def __init__(self, name: str, by_schema: Callable[[bytes | str], Any]) -> None:
        self._name = name
        self._by_schema = by_schema

    def parse(self, raw: bytes | str) -> ForeignArguments:
        """The arguments, by the tool that the run lists now. Raises `ValueError` when they are not
        valid.
        """
        listing = LISTING_HERE.get()
        tool = None if listing is None else listing.tools.get(self._name)
        if listing is None or tool is None:
            return self._strict(raw)
        return self.parse_for(tool, listing.run, raw)

    def parse_for(
        self, tool: ToolsetTool[Any], run: RunContext[Any], raw: bytes | str
    ) -> ForeignArguments:
        """The arguments as this tool takes them. Raises `ValueError` when they are not valid."""
        if _accepts_anything(tool):
            return self._strict(raw)
        context = run.validation_context
        values = tool.args_validator.validate_json(raw, context=context)
        canonical = _canonical(tool, context, values)
        # Where there is no way back from values to JSON, what was sent counts, taken literally.
        return ForeignArguments(values, canonical or to_json(self._by_schema(raw)))

    def _strict(self, raw: bytes | str) -> ForeignArguments:
        values = self._by_schema(raw)
        return ForeignArguments(values, to_json(values))


def _canonical(tool: ToolsetTool[Any], context: Any, values: dict[str, Any]) -> bytes | None:
    """JSON that the tool's validator turns into the same values; None when there is none."""
    try:
        canonical = to_json(values)
        again = tool.args_validator.validate_json(canonical, context=context)
    except (PydanticSerializationError, ValidationError):
        return None
    return canonical if again == values else None


def _accepts_anything(tool: ToolsetTool[Any]) -> bool:
    """Whether the validator lets everything through: the tool is validated elsewhere."""
    try:
        return tool.args_validator.validate_python(_ANYTHING_ELSE) is _ANYTHING_ELSE
    except ValidationError:
        return False


_ANYTHING_ELSE: Final = object()


def _dump(arguments: ForeignArguments) -> bytes:
    return arguments.canonical

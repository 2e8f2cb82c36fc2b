"""The tools of a toolset in the types of pydantic-ai: definitions, schemas and arguments.

An agent validates arguments before it calls a tool. It gets a validator with the tool's own rules
here, and the executor validates again: code between the two may have changed the arguments.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from copy import copy, deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_origin, get_type_hints

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic_ai import ToolDefinition
from pydantic_ai.exceptions import ModelRetry
from pydantic_ai.toolsets import ToolsetTool
from pydantic_core import from_json

from toolcrib.calls.validate import describe, encode_arguments
from toolcrib.tools.result import ToolResult

if TYPE_CHECKING:
    from pydantic_ai import RunContext
    from pydantic_ai.toolsets import AbstractToolset

    from toolcrib.tools.prepared_tool import PreparedTool
    from toolcrib.toolsets.agent_bridge.calls import AgentCalls
    from toolcrib.toolsets.base_toolset import HookableToolsetTool

_INVALID = "\0invalid"
"""A key that no tool has: parameter names are identifiers."""

RefusalRecorder = Callable[["RunContext[Any]", bytes], Awaitable[None]]
"""Records a call whose arguments are invalid."""


@dataclass(frozen=True, slots=True)
class InvalidArguments:
    """Arguments that failed validation: the raw JSON, and the error that the agent understands."""

    raw: bytes
    error: ValidationError | ModelRetry


def invalid_arguments(tool: PreparedTool, raw: bytes, error: ValueError) -> dict[str, Any]:
    """Invalid arguments on their way through an agent, as arguments of one key."""
    if isinstance(error, ValidationError):
        return {_INVALID: InvalidArguments(raw, error)}
    message = describe(tool.ref.name, tool.params.faults(error))
    return {_INVALID: InvalidArguments(raw, ModelRetry(message))}


class ArgumentsValidator:
    """Validates a model's arguments by the tool's rules and returns them as JSON values.

    It does not raise: `raise_invalid` does, which knows the call that the arguments belong to.
    """

    def __init__(self, tool: PreparedTool) -> None:
        self._tool = tool
        self._parse = tool.parse

    def validate_json(self, input: str | bytes | bytearray, **_: Any) -> dict[str, Any]:
        """The arguments as a dict of JSON values, or as a dict of one `InvalidArguments`."""
        return self._validate(encode_arguments(input if isinstance(input, str) else bytes(input)))

    def validate_python(self, input: Any, **_: Any) -> dict[str, Any]:
        """The same, for arguments that are a dict already."""
        return self._validate(encode_arguments(input))

    def _validate(self, raw: bytes) -> dict[str, Any]:
        try:
            self._parse(raw)
        except ValueError as error:
            return invalid_arguments(self._tool, raw, error)
        return from_json(raw)


def raise_invalid(record: RefusalRecorder) -> Callable[..., Awaitable[None]]:
    """The second step of validation: it records invalid arguments and raises their error."""

    async def check(ctx: RunContext[Any], **args: Any) -> None:
        invalid = args.get(_INVALID)
        if isinstance(invalid, InvalidArguments):
            await record(ctx, invalid.raw)
            raise invalid.error

    return check


def encode(args: dict[str, Any]) -> bytes:
    """The arguments that an agent passes on, as JSON for the executor."""
    invalid = args.get(_INVALID)
    return invalid.raw if isinstance(invalid, InvalidArguments) else encode_arguments(args)


def return_schema(call: Callable[..., Any]) -> dict[str, Any] | None:
    """The JSON Schema of the annotated return type of `call`.

    None when there is no useful annotation, or when the model does not get the value as JSON.
    """
    try:
        returned = get_type_hints(call).get("return", Any)
    except NameError:
        # The annotation names types that are imported for type checking only.
        return None
    kind = get_origin(returned) or returned
    is_of_library = getattr(kind, "__module__", "").startswith("pydantic_ai")
    if kind in (Any, type(None), ToolResult) or is_of_library or hasattr(kind, "render"):
        return None
    try:
        return TypeAdapter[Any](returned).json_schema(mode="serialization")
    except PydanticUserError:
        return None


@dataclass(kw_only=True)
class AgentTool(ToolsetTool[Any]):
    """One tool of a toolset in an agent. `timeout` is the limit that the executor applies."""

    timeout: float | None = None


class AgentTools:
    """Lists tools for agents. Everything that does not depend on a run is computed once."""

    def __init__(
        self,
        toolset: AbstractToolset[Any],
        calls: AgentCalls,
        max_retries: int | None,
        definitions: dict[PreparedTool, ToolDefinition],
    ) -> None:
        self._toolset = toolset
        self._calls = calls
        self._max_retries = max_retries
        self._definitions = definitions
        self._templates: dict[PreparedTool, AgentTool] = {}

    def tool(
        self, prepared: PreparedTool, hookable: HookableToolsetTool, run: RunContext[Any]
    ) -> AgentTool:
        """The tool with a definition of its own, because a run may change definitions."""
        template = self._templates.get(prepared)
        if template is None:
            template = self._templates[prepared] = self._template(prepared, hookable)
        limits = (hookable.tool.max_retries, self._max_retries, run.max_retries)
        # Every step copies every tool, and a constructor takes longer than a copy.
        tool = copy(template)
        tool.tool_def = copy(template.tool_def)
        tool.max_retries = next(limit for limit in limits if limit is not None)
        return tool

    def _template(self, prepared: PreparedTool, hookable: HookableToolsetTool) -> AgentTool:
        definition = self._definitions.get(prepared)
        if definition is None:
            definition = self._definitions[prepared] = definition_of(prepared, hookable)
        return AgentTool(
            toolset=self._toolset,
            tool_def=definition,
            max_retries=0,
            args_validator=ArgumentsValidator(prepared),
            args_validator_func=raise_invalid(self._refusal_recorder(prepared.ref.name)),
            timeout=hookable.timeout,
        )

    def _refusal_recorder(self, name: str) -> RefusalRecorder:
        async def record(run: RunContext[Any], raw: bytes) -> None:
            await self._calls.refuse(name, raw, run)

        return record


def definition_of(prepared: PreparedTool, hookable: HookableToolsetTool) -> ToolDefinition:
    """The tool as a model is told of it. The schemas are shared by all runs."""
    tool, declaration = prepared.tool, prepared.declaration
    facts = {"category": tool.category, "version": tool.version, "is_read_only": tool.is_read_only}
    return ToolDefinition(
        name=declaration.name,
        description=declaration.description,
        # A copy: an agent must not change the schema that approvers and records show.
        parameters_json_schema=deepcopy(declaration.parameters),
        return_schema=return_schema(hookable.tool.call),
        metadata={key: fact for key, fact in facts.items() if fact},
    )

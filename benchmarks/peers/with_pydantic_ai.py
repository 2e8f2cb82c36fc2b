"""pydantic-ai: the tool manager that an agent run uses, and the bare toolset below it."""

from contextlib import AsyncExitStack
from typing import Any

from harness import Call, Variant
from pydantic_ai import FunctionToolset, RunContext
from pydantic_ai.capabilities import Hooks
from pydantic_ai.messages import ToolCallPart, ToolReturnPart
from pydantic_ai.models.test import TestModel
from pydantic_ai.tool_manager import ToolManager
from pydantic_ai.toolsets import WrapperToolset
from pydantic_ai.usage import RunUsage
from workload import call_id, search

NAME = "search"


def _context() -> RunContext[None]:
    return RunContext(deps=None, model=TestModel(), usage=RunUsage(), run_step=1)


def _toolset(function: Any = search) -> FunctionToolset[None]:
    toolset: FunctionToolset[None] = FunctionToolset()
    toolset.add_function(function, name=NAME)
    return toolset


def _text(value: Any, identity: str) -> str:
    return ToolReturnPart(NAME, value, tool_call_id=identity).model_response_str()


async def managed(toolset: Any, hooks: Hooks[None] | None = None) -> Call:
    """A call through the tool manager, the way the agent loop makes it."""
    manager = await ToolManager(toolset, root_capability=hooks).for_run_step(_context())

    async def call(payload: bytes) -> str:
        part = ToolCallPart(NAME, payload.decode(), tool_call_id=call_id())
        return _text(await manager.handle_call(part), part.tool_call_id)

    return call


async def managed_function(function: Any) -> Call:
    """The managed call of any function; the concurrency section brings a slow one."""
    return await managed(_toolset(function))


async def _bare() -> Call:
    toolset, context = _toolset(), _context()
    tool = (await toolset.get_tools(context))[NAME]

    async def call(payload: bytes) -> str:
        arguments = tool.args_validator.validate_json(payload)
        return _text(await toolset.call_tool(NAME, arguments, context, tool), call_id())

    return call


class _Wrapped(WrapperToolset[None]):
    """A toolset that runs one thing before and one after the call."""

    async def call_tool(self, name: str, tool_args: dict[str, Any], ctx: Any, tool: Any) -> Any:
        arguments = await _pre(tool_args)
        return await _post(await super().call_tool(name, arguments, ctx, tool))


async def _pre(arguments: dict[str, Any]) -> dict[str, Any]:
    return arguments


async def _post(result: Any) -> Any:
    return result


async def _before(ctx: Any, /, *, call: Any, tool_def: Any, args: dict[str, Any]) -> Any:
    return args


async def _after(ctx: Any, /, *, call: Any, tool_def: Any, args: Any, result: Any) -> Any:
    return result


async def variants(stack: AsyncExitStack) -> list[Variant]:
    """Without hooks."""
    return [
        Variant("pydantic-ai", "ToolManager.handle_call", await managed(_toolset())),
        Variant("pydantic-ai", "FunctionToolset.call_tool", await _bare(), governed=False),
    ]


async def hooked(stack: AsyncExitStack) -> list[Variant]:
    """With one hook before and one after."""
    hooks: Hooks[None] = Hooks(before_tool_execute=_before, after_tool_execute=_after)
    return [
        Variant("pydantic-ai", "ToolManager + Hooks", await managed(_toolset(), hooks)),
        Variant("pydantic-ai", "ToolManager + WrapperToolset", await managed(_Wrapped(_toolset()))),
    ]

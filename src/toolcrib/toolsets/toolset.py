"""A toolset: tools written as classes, with hooks around them and approval before them."""

from __future__ import annotations

import functools
import sys
from collections.abc import Awaitable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, overload

from toolcrib.calls.hooks import GlobalHooks, Hooks, PostHook, PreHook
from toolcrib.calls.outcome import Limits
from toolcrib.errors import DuplicateTool, InvalidTool
from toolcrib.tools.context import ToolContext
from toolcrib.toolsets.base_tool import AsyncHandler, BaseTool
from toolcrib.toolsets.base_toolset import BaseToolset
from toolcrib.toolsets.edge import (
    edge_of_handler,
    edge_of_post,
    edge_of_pre,
    takes_tool_context,
)
from toolcrib.toolsets.hookable import HookableToolsetTool, WatchedTool
from toolcrib.toolsets.joining import LIBRARY
from toolcrib.toolsets.run_executor import RunExecutor

if TYPE_CHECKING:
    from pydantic_ai import RunContext
    from pydantic_ai.toolsets import ToolsetTool

    from toolcrib.approval.approvers import Approver
    from toolcrib.approval.policy import Policy
    from toolcrib.calls.outcome import Outcome
    from toolcrib.calls.validate import RawArguments
    from toolcrib.context import AgentContext
    from toolcrib.toolsets.agent_bridge.calls import AgentCalls
    from toolcrib.toolsets.agent_bridge.tools import AgentTools


class Toolset(BaseToolset):
    """Runs `BaseTool`s through the executor, for programs and for pydantic-ai agents.

    Order around a call: global pre hook, the tool's pre hook, the tool, its post hook, global post
    hook. Subclasses may override `_call_tool_func` to change how the tool itself is run.
    `id` and `max_retries` are for agents: the toolset's name among others, and how often a model
    may try again where a tool does not say.
    """

    def __init__(
        self,
        ctx: AgentContext,
        tools: Iterable[type[BaseTool]],
        *,
        pre_hooks: Mapping[str, PreHook] | None = None,
        post_hooks: Mapping[str, PostHook] | None = None,
        global_hooks: GlobalHooks | None = None,
        timeout: float | None = None,
        hook_timeout: float | None = None,
        skip_unavailable: bool = True,
        policy: Policy | None = None,
        approver: Approver | None = None,
        id: str | None = None,
        max_retries: int | None = None,
    ) -> None:
        self.ctx = ctx
        self.pre_hooks = dict(pre_hooks or {})
        self.post_hooks = dict(post_hooks or {})
        self.global_hooks = global_hooks or GlobalHooks()
        self.max_retries = max_retries
        self._id = id
        self._skip_unavailable = skip_unavailable
        self._instances = _instantiate(tools)
        self._offered = {
            name: tool for name, tool in self._instances.items() if self._is_listed(tool)
        }
        hooks = self._hooks(hook_timeout)
        hooks.check(self._instances)
        self._wrapped: dict[str, HookableToolsetTool] = {}
        self._executor = RunExecutor(
            ctx.session,
            [tool.to_tool(self._handler(tool)) for tool in self._offered.values()],
            hooks=hooks.only(self._offered),
            policy=policy,
            approver=approver,
            limits=Limits(timeout=timeout),
        )
        for name, prepared in self._executor.tools.items():
            self._wrapped[name] = HookableToolsetTool(
                self._offered[name], prepared.tool.timeout or timeout, prepared.declaration
            )
        self._instructing = {
            name: takes_tool_context(tool.get_instruction)
            for name, tool in self._offered.items()
            if type(tool).get_instruction is not BaseTool.get_instruction
        }
        self._agent_side: tuple[AgentCalls, AgentTools] | None = None

    @property
    def id(self) -> str | None:
        """The toolset's name among the toolsets of an agent, if it has one."""
        return self._id

    @overload
    async def get_tools(self, ctx: None = None) -> dict[str, HookableToolsetTool]: ...

    @overload
    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]: ...

    async def get_tools(self, ctx: Any = None) -> Any:
        """The tools that are available now, by name; for a run context, as its agent takes them."""
        if not _is_run_context(ctx):
            return {
                name: tool for name, tool in self._wrapped.items() if self._is_listed(tool.tool)
            }
        calls, tools = self._for_agents()
        await calls.settle(ctx)
        return {
            name: tools.tool(self._executor.tools[name], wrapped, ctx)
            for name, wrapped in self._wrapped.items()
            if self._is_listed(wrapped.tool)
        }

    async def get_instructions(self, ctx: Any = None) -> str | None:
        """The instructions of the tools that are available now, one after the other.

        Without `ctx` the tools get a context of the session that belongs to no call.
        """
        asked = [self._offered[name] for name in self._instructing]
        found = [
            tool.get_instruction(self._instruction_context(tool, ctx))
            for tool in asked
            if tool.is_available()
        ]
        return "\n\n".join(text for text in found if text) or None

    async def call_tool(
        self, name: str, tool_args: RawArguments, ctx: Any = None, tool: Any = None
    ) -> Any:
        """Call a tool and return its value.

        Raises what the tool raised, `ApprovalRequired` when a person must decide first, or
        `CallFailed`. Call again with the same call id to go on once it is decided. With the run
        context of an agent, values and exceptions are what the agent understands.
        """
        if isinstance(tool_args, dict) and _is_run_context(ctx):
            return await self._for_agents()[0].call(name, tool_args, ctx)
        return (await self.call(name, tool_args, ctx)).unwrap()

    async def call(self, name: str, tool_args: RawArguments, ctx: Any = None) -> Outcome:
        """Call a tool and say what came of it, without raising."""
        call_id = ctx if isinstance(ctx, str) else getattr(ctx, "tool_call_id", None)
        return await self._executor.call(name, tool_args, call_id=call_id or None)

    async def resume(self) -> list[Outcome]:
        """Go on with this toolset's calls that waited."""
        mine = [
            call.call_id
            for call in self.ctx.session.open_calls()
            if call.tool.name in self._offered
        ]
        return await self._executor.resume(mine)

    def cancel(self, call_id: str) -> bool:
        """Stop one running call, and not the run around it. False when it is not running."""
        return self._executor.cancel(call_id)

    async def _call_tool_func(
        self, args: dict[str, Any], ctx: Any, tool: HookableToolsetTool
    ) -> Any:
        """How a tool is run. An override may return an exception instead of raising it."""
        return await tool.call_func(args, ctx)

    def _is_listed(self, tool: BaseTool) -> bool:
        return not self._skip_unavailable or tool.is_available()

    def _hooks(self, timeout: float | None) -> Hooks:
        return Hooks(
            global_pre=edge_of_pre(self.global_hooks.pre),
            global_post=edge_of_post(self.global_hooks.post),
            pre={name: edge_of_pre(hook) for name, hook in self.pre_hooks.items()},
            post={name: edge_of_post(hook) for name, hook in self.post_hooks.items()},
            timeout=timeout,
        )

    def _handler(self, tool: BaseTool) -> AsyncHandler:
        if type(self)._call_tool_func is Toolset._call_tool_func:
            return edge_of_handler(tool.call, tool.call)

        @functools.wraps(tool.call)
        async def handler(ctx: Any, /, **args: Any) -> Any:
            known = self._wrapped[tool.name]
            watched = WatchedTool(known.tool, known.timeout, known.tool_def)
            result = await _value_or_error(self._call_tool_func(args, ctx, watched))
            if watched.signals:
                raise watched.signals[0]
            if isinstance(result, Exception):
                raise result
            return result

        return edge_of_handler(handler, tool.call)

    def _for_agents(self) -> tuple[AgentCalls, AgentTools]:
        if self._agent_side is None:
            from toolcrib.toolsets.agent_bridge.calls import AgentCalls
            from toolcrib.toolsets.agent_bridge.tools import AgentTools

            calls = AgentCalls(self._executor)
            self._agent_side = calls, AgentTools(self, calls, self.max_retries)
        return self._agent_side

    def _instruction_context(self, tool: BaseTool, ctx: Any) -> Any:
        if ctx is not None and not _is_run_context(ctx):
            return ctx
        ours = self._context()
        if ctx is None:
            return ours
        from toolcrib.toolsets.agent_bridge.run_context import widened

        ours.run = ctx
        ours.deps = ours.deps if ctx.deps is None else ctx.deps
        return ours if self._instructing[tool.name] else widened(ctx, ours)

    def _context(self) -> ToolContext:
        session = self.ctx.session
        return ToolContext(
            session_id=session.session_id,
            cwd=session.cwd,
            environment=dict(session.environment),
            metadata=dict(session.metadata),
            turn=session.turn,
            deps=session.deps,
            session=session,
            bus=session.bus,
        )


def _is_run_context(ctx: Any) -> bool:
    library = sys.modules.get(LIBRARY)
    return ctx is not None and library is not None and isinstance(ctx, library.RunContext)


async def _value_or_error(work: Awaitable[Any]) -> Any:
    try:
        return await work
    except Exception as error:
        return error


def _instantiate(tools: Iterable[type[BaseTool]]) -> dict[str, BaseTool]:
    instances: dict[str, BaseTool] = {}
    for tool_class in tools:
        if not (isinstance(tool_class, type) and issubclass(tool_class, BaseTool)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidTool(f"{tool_class!r} is not a BaseTool class; pass the class itself")
        tool = tool_class()
        tool.to_tool()
        if tool.name in instances:
            raise DuplicateTool(f"two tools are named {tool.name!r}; names must be unique")
        instances[tool.name] = tool
    return instances

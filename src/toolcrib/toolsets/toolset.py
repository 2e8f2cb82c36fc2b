"""`Toolset`: runs tools written as classes, with hooks and approval."""

from __future__ import annotations

import functools
import sys
from collections.abc import Awaitable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast, overload

from toolcrib.approval.globs import name_matches
from toolcrib.approval.tool_names import check_approval_list
from toolcrib.calls.hooks import GlobalHooks, Hooks, PostHook, PreHook
from toolcrib.calls.outcome import Limits
from toolcrib.context import AgentContext
from toolcrib.errors import DuplicateTool, InvalidTool, UsageError
from toolcrib.tools.context import ToolContext
from toolcrib.tools.decorator import FunctionTool
from toolcrib.toolsets.base_tool import AsyncHandler, BaseTool, GovernedFunction
from toolcrib.toolsets.base_toolset import BaseToolset, HookableToolsetTool, SignalRecorder
from toolcrib.toolsets.run_executor import RunExecutor
from toolcrib.toolsets.user_code import (
    LIBRARY,
    takes_tool_context,
    wrap_handler,
    wrap_post_hook,
    wrap_pre_hook,
)

if TYPE_CHECKING:
    from pydantic_ai import RunContext
    from pydantic_ai.toolsets import ToolsetTool

    from toolcrib.approval.approvers import Approver
    from toolcrib.approval.policy import Policy
    from toolcrib.calls.outcome import Outcome
    from toolcrib.calls.validate import RawArguments
    from toolcrib.session.session import Session
    from toolcrib.tools.identity import BindTo
    from toolcrib.tools.tool import Tool
    from toolcrib.toolsets.agent_bridge.calls import AgentCalls
    from toolcrib.toolsets.agent_bridge.tools import AgentTools


class Toolset(BaseToolset):
    """Runs tools through the executor, for programs and for pydantic-ai agents.

    A tool is a `BaseTool` class, an instance of one, or a function under `@tool`. A run of an agent
    whose deps are another `AgentContext` is a run of that context: its calls are in the ledger of
    its session. The approval lists of both contexts apply.

    Order around a call: global pre hook, the tool's pre hook, the tool, its post hook, global post
    hook. Subclasses may override `_call_tool_func` to change how the tool itself is run.
    `id` and `max_retries` are for agents: the toolset's name among the agent's toolsets, and how
    often a model may retry a tool that sets no `max_retries`.
    """

    def __init__(
        self,
        ctx: AgentContext,
        tools: Iterable[type[BaseTool] | BaseTool | FunctionTool[..., Any]],
        *,
        pre_hooks: Mapping[str, PreHook] | None = None,
        post_hooks: Mapping[str, PostHook] | None = None,
        global_hooks: GlobalHooks | None = None,
        timeout: float | None = None,
        hook_timeout: float | None = None,
        skip_unavailable: bool = True,
        policy: Policy | None = None,
        approver: Approver | None = None,
        bind_to: BindTo = "code",
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
        self._tools = _instantiate(tools)
        hooks = self._hooks(hook_timeout)
        hooks.check(self._tools)
        self._hookable_tools: dict[str, HookableToolsetTool] = {}
        self._options: dict[str, Any] = {
            "hooks": hooks,
            "policy": policy,
            "approver": approver,
            "limits": Limits(timeout=timeout),
            "bind_to": bind_to,
        }
        self._executor = RunExecutor(
            ctx.session,
            [self._declared(tool) for tool in self._tools.values()],
            **self._options,
        )
        check_approval_list(ctx.need_user_approve_tools, self._tools)
        for name, prepared in self._executor.tools.items():
            self._hookable_tools[name] = HookableToolsetTool(
                self._tools[name], prepared.tool.timeout or timeout, prepared.declaration
            )
        self._instructing = {
            name: takes_tool_context(tool.get_instruction)
            for name, tool in self._tools.items()
            if type(tool).get_instruction is not BaseTool.get_instruction
        }

    @property
    def id(self) -> str | None:
        """The toolset's name among the toolsets of an agent, if it has one."""
        return self._id

    @overload
    async def get_tools(self, ctx: None = None) -> dict[str, HookableToolsetTool]: ...

    @overload
    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]: ...

    async def get_tools(self, ctx: Any = None) -> Any:
        """The available tools by name; for a run context, in the types of its agent."""
        if not _is_run_context(ctx):
            return {
                name: tool
                for name, tool in self._hookable_tools.items()
                if self._is_shown(tool.tool)
            }
        calls, tools = self._bridge(ctx)
        await calls.settle(ctx)
        return {
            name: tools.tool(self._executor.tools[name], hookable, ctx)
            for name, hookable in self._hookable_tools.items()
            if self._is_shown(hookable.tool)
        }

    async def get_instructions(self, ctx: Any = None) -> str | None:
        """The instructions of the available tools, separated by blank lines.

        Without `ctx`, the tools get a context of the session that belongs to no call.
        """
        tools = [self._tools[name] for name in self._instructing]
        texts = [
            tool.get_instruction(self._instruction_context(tool, ctx))
            for tool in tools
            if tool.is_available()
        ]
        return "\n\n".join(text for text in texts if text) or None

    async def call_tool(
        self, name: str, tool_args: RawArguments, ctx: Any = None, tool: Any = None
    ) -> Any:
        """Call a tool and return its value.

        Raises the tool's own exception, `ApprovalRequired` when a person must decide first, or
        `CallFailed`. Once it is decided, call again with the same call id to continue. With the
        run context of an agent, values and exceptions are pydantic-ai's.
        """
        if isinstance(tool_args, dict) and _is_run_context(ctx):
            return await self._bridge(ctx)[0].call(name, tool_args, ctx)
        return (await self.call(name, tool_args, ctx)).unwrap()

    async def call(self, name: str, tool_args: RawArguments, ctx: Any = None) -> Outcome:
        """Call a tool and return its outcome; a failure does not raise."""
        call_id = ctx if isinstance(ctx, str) else getattr(ctx, "tool_call_id", None)
        if call_id and self._executor.is_waiting(call_id):
            # What was approved runs, whatever the arguments are now.
            tool_args = None
        return await self._executor.call(name, tool_args, call_id=call_id or None)

    async def resume(self) -> list[Outcome]:
        """Continue the calls of this toolset that waited for a decision."""
        call_ids = [
            call.call_id for call in self.ctx.session.open_calls() if call.tool.name in self._tools
        ]
        return await self._executor.resume(call_ids)

    def served_tools(self) -> list[Tool[Any, Any]]:
        """The tools as a runtime serves them: with the timeout of the toolset, and those that its
        context asks about need approval. Raises `UsageError` for a toolset with a policy or an
        approver of its own: those of a runtime decide.
        """
        for option in ("policy", "approver"):
            if self._options[option] is not None:
                raise UsageError(
                    f"a toolset of a runtime has no {option} of its own, because the runtime "
                    f"decides for all tools alike; give RuntimeConfig the {option}"
                )
        return [self._served(prepared.tool) for prepared in self._executor.tools.values()]

    def _served(self, tool: Tool[Any, Any]) -> Tool[Any, Any]:
        is_listed = any(name_matches(glob, tool.name) for glob in self.ctx.need_user_approve_tools)
        return replace(
            tool,
            timeout=self._hookable_tools[tool.name].timeout,
            requires_approval=tool.requires_approval or is_listed,
        )

    @property
    def served_hooks(self) -> Hooks:
        """The hooks around these tools."""
        return self._options["hooks"]

    def cancel(self, call_id: str) -> bool:
        """Stop one running call without stopping the agent run; False when it is not running."""
        return self._executor.cancel(call_id)

    async def _call_tool_func(
        self, args: dict[str, Any], ctx: Any, tool: HookableToolsetTool
    ) -> Any:
        """Run a tool. An override may return an exception instead of raising it."""
        return await tool.call_func(args, ctx)

    def _is_shown(self, tool: BaseTool) -> bool:
        return not self._skip_unavailable or tool.is_available()

    def _hooks(self, timeout: float | None) -> Hooks:
        return Hooks(
            global_pre=wrap_pre_hook(self.global_hooks.pre),
            global_post=wrap_post_hook(self.global_hooks.post),
            pre={name: wrap_pre_hook(hook) for name, hook in self.pre_hooks.items()},
            post={name: wrap_post_hook(hook) for name, hook in self.post_hooks.items()},
            timeout=timeout,
        )

    def _declared(self, tool: BaseTool) -> Tool[Any, Any]:
        declared = tool.to_tool(self._handler(tool))
        return declared if self._skip_unavailable else replace(declared, available_when=None)

    def _handler(self, tool: BaseTool) -> AsyncHandler:
        if type(self)._call_tool_func is Toolset._call_tool_func:
            return wrap_handler(tool.call, tool.call)

        @functools.wraps(tool.call)
        async def handler(ctx: Any, /, **args: Any) -> Any:
            hookable = self._hookable_tools[tool.name]
            recorder = SignalRecorder(hookable.tool, hookable.timeout, hookable.tool_def)
            result = await _value_or_error(self._call_tool_func(args, ctx, recorder))
            if recorder.signals:
                raise recorder.signals[0]
            if isinstance(result, Exception):
                raise result
            return result

        return wrap_handler(handler, tool.call)

    def _bridge(self, run: RunContext[Any]) -> tuple[AgentCalls, AgentTools]:
        """The toolset as agents use it, in the context of a run."""
        context = self._context_of(run)
        # Kept by the context and not by the toolset, which outlives the contexts of its runs.
        bridge = context.bridges.get(self)
        if bridge is None:
            from toolcrib.toolsets.agent_bridge.calls import AgentCalls
            from toolcrib.toolsets.agent_bridge.tools import AgentTools

            calls = AgentCalls(self._executor_in(context))
            bridge = calls, AgentTools(self.for_agent(), calls, self.max_retries)
            context.bridges[self] = bridge
        return bridge

    def _context_of(self, run: RunContext[Any] | None) -> AgentContext:
        deps: Any = None if run is None else run.deps
        return deps if isinstance(deps, AgentContext) else self.ctx

    def _executor_in(self, context: AgentContext) -> RunExecutor:
        if context.session is self.ctx.session:
            return self._executor
        check_approval_list(context.need_user_approve_tools, self._tools)
        return RunExecutor(
            context.session,
            self._executor.tools.values(),
            host_session=self.ctx.session,
            **self._options,
        )

    def _instruction_context(self, tool: BaseTool, ctx: Any) -> Any:
        if ctx is not None and not _is_run_context(ctx):
            return ctx
        context = self._context(self._context_of(ctx).session)
        if ctx is None:
            return context
        from toolcrib.toolsets.agent_bridge.values import with_tool_context

        context.run = ctx
        context.deps = context.deps if ctx.deps is None else ctx.deps
        return context if self._instructing[tool.name] else with_tool_context(ctx, context)

    def _context(self, session: Session) -> ToolContext:
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


def _instantiate(
    tools: Iterable[type[BaseTool] | BaseTool | FunctionTool[..., Any]],
) -> dict[str, BaseTool]:
    instances: dict[str, BaseTool] = {}
    for declared in tools:
        tool = _instance(declared)
        tool.to_tool()
        if tool.name in instances:
            raise DuplicateTool(f"two tools are named {tool.name!r}; names must be unique")
        instances[tool.name] = tool
    return instances


def _instance(declared: object) -> BaseTool:
    match declared:
        case BaseTool():
            return declared
        case FunctionTool():
            return GovernedFunction(cast("FunctionTool[..., Any]", declared))
        case type() if issubclass(declared, BaseTool):
            return declared()
        case _:
            raise InvalidTool(
                f"{declared!r} is not a BaseTool class, an instance of one, or a function under "
                "@tool"
            )

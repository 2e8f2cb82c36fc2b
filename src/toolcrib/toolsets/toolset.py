"""`Toolset`: runs tools of every style, with hooks and approval, for programs and agents."""

from __future__ import annotations

import functools
import sys
from collections.abc import Awaitable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast, overload

from toolcrib.approval.globs import name_matches
from toolcrib.approval.tool_names import check_approval_list, check_hook_names
from toolcrib.calls.hooks import CALL_EVENTS, GlobalHooks, Hooks, PostHook, PreHook
from toolcrib.calls.outcome import Limits
from toolcrib.calls.tool_table import check_rules
from toolcrib.context import AgentContext
from toolcrib.errors import DuplicateTool, UsageError
from toolcrib.tools.context import ToolContext
from toolcrib.tools.prepared_tool import PreparedTool, prepare
from toolcrib.toolsets.base_tool import AsyncHandler, BaseTool
from toolcrib.toolsets.base_toolset import BaseToolset, HookableToolsetTool, SignalRecorder
from toolcrib.toolsets.run_contexts import ContextOf, RunContexts
from toolcrib.toolsets.run_executor import DEFERRING, RunExecutor, RunTerms
from toolcrib.toolsets.tool_styles import (
    AnyStyle,
    DeclaredTool,
    base_tool,
    prepare_declared,
    read_inputs,
)
from toolcrib.toolsets.user_code import LIBRARY, takes_tool_context, wrap_handler, wrap_hooks

if TYPE_CHECKING:
    from pydantic_ai import RunContext, ToolDefinition
    from pydantic_ai.toolsets import AbstractToolset, ToolsetTool

    from toolcrib.approval.approvers import Approver
    from toolcrib.approval.policy import Policy
    from toolcrib.calls.outcome import Outcome
    from toolcrib.calls.validate import RawArguments
    from toolcrib.session.session import Session
    from toolcrib.tools.identity import BindTo
    from toolcrib.tools.tool import Tool
    from toolcrib.toolsets.agent_bridge.calls import AgentCalls
    from toolcrib.toolsets.agent_bridge.governed_toolset import RunToolsets
    from toolcrib.toolsets.agent_bridge.tools import AgentTools


@dataclass(slots=True, eq=False)
class ToolsetBridge:
    """What a toolset keeps for one context: its executor, and the tools as the context has them."""

    executor: RunExecutor
    hookable: dict[str, HookableToolsetTool]
    sourced: dict[str, Tool[Any, Any]] = field(default_factory=dict[str, "Tool[Any, Any]"])
    agent: tuple[AgentCalls, AgentTools] | None = None


class Toolset(BaseToolset):
    """Runs tools through the executor, for programs and for pydantic-ai agents.

    It takes tools of every style, registries, mounted MCP servers and toolsets of pydantic-ai. A
    run of an agent belongs to the `AgentContext` in its deps, which `context` finds in deps of
    another form, else to `ctx`, else to a context of its conversation: calls are in the ledger of
    that context's session, and its approval list counts. The list of `ctx` counts beside it.

    Order around a call: hooks from the outermost to the innermost, the tool, and back; see `Hooks`.
    Subclasses may override `_call_tool_func` to change how the tool itself is run. `id` and
    `max_retries` are for agents: the toolset's name among the agent's toolsets, and how often a
    model may retry a tool that sets no `max_retries`.
    """

    def __init__(
        self,
        ctx: AgentContext | None = None,
        tools: Iterable[AnyStyle] = (),
        *,
        context: ContextOf | None = None,
        hooks: Hooks | None = None,
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
        self._contexts = RunContexts(_checked_context(ctx), context)
        self._direct = ctx
        self._runs: RunToolsets | None = None
        self.pre_hooks = dict(pre_hooks or {})
        self.post_hooks = dict(post_hooks or {})
        self.global_hooks = global_hooks or GlobalHooks()
        self.max_retries = max_retries
        self._id = id
        self._skip_unavailable = skip_unavailable
        self._inputs = read_inputs(tools)
        self._tools = self._inputs.tools
        limits = Limits(timeout=timeout)
        self._terms = RunTerms(self._hooks(hooks, hook_timeout), policy, approver, limits, bind_to)
        self._prepared: dict[str, PreparedTool] = {}
        self._hookable: dict[str, HookableToolsetTool] = {}
        for name, tool in self._tools.items():
            self._prepared[name], self._hookable[name] = self._prepare(tool)
        self._check_terms()
        self._definitions: dict[PreparedTool, ToolDefinition] = {}
        if sys.modules.get(LIBRARY) is not None:
            # Now rather than in the first run: it takes as long as many steps of it.
            self._define()
        if ctx is not None:
            self._bridge(ctx)

    @property
    def ctx(self) -> AgentContext:
        """The context of calls that are part of no run. A toolset without one makes its own."""
        if self._direct is None:
            self._direct = AgentContext()
        return self._direct

    def context_of(self, run: RunContext[Any]) -> AgentContext:
        """The context that the calls of a run belong to."""
        return self._contexts.of(run)

    @property
    def id(self) -> str | None:
        """The toolset's name among the toolsets of an agent, if it has one."""
        return self._id

    def for_agent(self) -> AbstractToolset[Any]:
        """This toolset as pydantic-ai's `AbstractToolset`, the same object at every call. Toolsets
        of pydantic-ai among the tools are part of it, governed like the rest.
        """
        if self._agent_toolset is None and self._inputs.foreign:
            from toolcrib.toolsets.agent_bridge.governed_toolset import combined

            self._agent_toolset = combined(
                self.own_for_agent(), self._inputs.foreign, self._terms, self._contexts
            )
        return super().for_agent()

    def __call__(
        self, ctx: RunContext[Any], /
    ) -> AbstractToolset[Any] | Awaitable[AbstractToolset[Any]]:
        """The toolset of an agent run. Toolsets of pydantic-ai may be others in each run and each
        step.
        """
        if not self._inputs.foreign:
            return self.for_agent()
        if self._runs is None:
            from toolcrib.toolsets.agent_bridge.governed_toolset import RunToolsets

            self._runs = RunToolsets(self.for_agent())
        return self._runs.of(ctx)

    @overload
    async def get_tools(self, ctx: None = None) -> dict[str, HookableToolsetTool]: ...

    @overload
    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]: ...

    async def get_tools(self, ctx: Any = None) -> Any:
        """The available tools by name; for a run context, in the types of its agent. Toolsets of
        pydantic-ai list theirs in a run only.
        """
        if not _is_run_context(ctx):
            tools = self._current(self.ctx).hookable
            return {name: tool for name, tool in tools.items() if self._is_shown(tool.tool)}
        bridge = self._current(self._contexts.of(ctx))
        calls, tools = self._agent(bridge)
        await calls.settle(ctx)
        return {
            name: tools.tool(bridge.executor.tools[name], hookable, ctx)
            for name, hookable in bridge.hookable.items()
            if self._is_shown(hookable.tool)
        }

    async def get_instructions(self, ctx: Any = None) -> str | None:
        """The instructions of the available tools, separated by blank lines.

        Without `ctx`, the tools get a context of the session that belongs to no call.
        """
        is_run = _is_run_context(ctx)
        context = self._contexts.of(ctx) if is_run else self.ctx
        tools = [hookable.tool for hookable in self._current(context).hookable.values()]
        texts = [
            tool.get_instruction(self._instruction_context(tool, ctx, context.session))
            for tool in tools
            if _instructs(tool) and tool.is_available()
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
            bridge = self._bridge(self._contexts.of(ctx))
            return await self._agent(bridge)[0].call(name, tool_args, ctx)
        return (await self.call(name, tool_args, ctx)).unwrap()

    async def call(self, name: str, tool_args: RawArguments, ctx: Any = None) -> Outcome:
        """Call a tool and return its outcome; a failure does not raise."""
        executor = self._current(self.ctx).executor
        call_id = ctx if isinstance(ctx, str) else getattr(ctx, "tool_call_id", None)
        if call_id and executor.is_waiting(call_id):
            # What was approved runs, whatever the arguments are now.
            tool_args = None
        return await executor.call(name, tool_args, call_id=call_id or None)

    async def resume(self) -> list[Outcome]:
        """Continue the calls of this toolset that waited for a decision."""
        executor = self._current(self.ctx).executor
        call_ids = [
            call.call_id
            for call in self.ctx.session.open_calls()
            if call.tool.name in executor.tools
        ]
        return await executor.resume(call_ids)

    def served_tools(self) -> list[Tool[Any, Any]]:
        """The tools as a runtime serves them: with the timeout of the toolset, and those that its
        context asks about need approval. Raises `UsageError` for a toolset with a policy or an
        approver of its own: those of a runtime decide.
        """
        for option in ("policy", "approver"):
            if getattr(self._terms, option) is not None:
                raise UsageError(
                    f"a toolset of a runtime has no {option} of its own, because the runtime "
                    f"decides for all tools alike; give RuntimeConfig the {option}"
                )
        if self._inputs.may_grow:
            raise UsageError(
                "a toolset of a runtime has tools only; give RuntimeConfig its registry and MCP "
                "servers, and an agent its toolsets"
            )
        return [self._served(prepared.tool) for prepared in self._prepared.values()]

    def _served(self, tool: Tool[Any, Any]) -> Tool[Any, Any]:
        own = self._contexts.own
        listed = [] if own is None else own.need_user_approve_tools
        is_listed = any(name_matches(glob, tool.name) for glob in listed)
        return replace(
            tool,
            timeout=self._hookable[tool.name].timeout,
            requires_approval=tool.requires_approval or is_listed,
        )

    @property
    def served_hooks(self) -> Hooks:
        """The hooks around these tools."""
        return self._terms.hooks or Hooks()

    def cancel(self, call_id: str) -> bool:
        """Stop one running call without stopping the agent run; False when it is not running."""
        return self._bridge(self.ctx).executor.cancel(call_id)

    async def _call_tool_func(
        self, args: dict[str, Any], ctx: Any, tool: HookableToolsetTool
    ) -> Any:
        """Run a tool. An override may return an exception instead of raising it."""
        return await tool.call_func(args, ctx)

    def _is_shown(self, tool: BaseTool) -> bool:
        return not self._skip_unavailable or tool.is_available()

    def _hooks(self, hooks: Hooks | None, timeout: float | None) -> Hooks:
        own = Hooks(
            global_pre=self.global_hooks.pre,
            global_post=self.global_hooks.post,
            pre=self.pre_hooks,
            post=self.post_hooks,
            timeout=timeout,
        )
        both = own if hooks is None else Hooks.combined([hooks, own])
        both.check_events("a Toolset", CALL_EVENTS)
        return wrap_hooks(both.lenient(self._inputs.may_grow))

    def _check_terms(self) -> None:
        """Refuse hooks, rules and approval lists that could never take effect."""
        policy, hooks, own = self._terms.policy, self._terms.hooks, self._contexts.own
        if policy is not None:
            check_rules(policy, self._prepared.values())
        if hooks is not None:
            hooks.check(self._prepared)
            if self._inputs.may_grow:
                check_hook_names(hooks.names(), self._prepared)
        if own is not None and not self._inputs.may_grow:
            check_approval_list(own.need_user_approve_tools, self._prepared)

    def _prepare(self, tool: BaseTool) -> tuple[PreparedTool, HookableToolsetTool]:
        """The tool for executors, and as an override of `_call_tool_func` gets it."""
        bind_to, timeout = self._terms.bind_to, (self._terms.limits or Limits()).timeout
        is_overridden = type(self)._call_tool_func is not Toolset._call_tool_func
        hookable: list[HookableToolsetTool] = []
        override = self._overriding(hookable) if is_overridden else None
        if isinstance(tool, DeclaredTool):
            prepared = prepare_declared(tool, bind_to, override)
        else:
            handler = tool.call if override is None else functools.wraps(tool.call)(override)
            declared = tool.to_tool(wrap_handler(cast("AsyncHandler", handler), tool.call))
            if not self._skip_unavailable:
                declared = replace(declared, available_when=None)
            prepared = prepare(declared, bind_to=bind_to)
        hookable.append(
            HookableToolsetTool(tool, prepared.tool.timeout or timeout, prepared.declaration)
        )
        return prepared, hookable[0]

    def _define(self) -> None:
        from toolcrib.toolsets.agent_bridge.tools import definition_of

        for name, prepared in self._prepared.items():
            self._definitions[prepared] = definition_of(prepared, self._hookable[name])

    def _overriding(self, hookable: list[HookableToolsetTool]) -> AsyncHandler:
        """What runs a tool by way of `_call_tool_func`."""

        async def handler(ctx: Any, /, **args: Any) -> Any:
            tool = hookable[0]
            recorder = SignalRecorder(tool.tool, tool.timeout, tool.tool_def)
            result = await _value_or_error(self._call_tool_func(args, ctx, recorder))
            if recorder.signals:
                raise recorder.signals[0]
            if isinstance(result, Exception):
                raise result
            return result

        return handler

    def _bridge(self, context: AgentContext) -> ToolsetBridge:
        # Kept by the context and not by the toolset, which outlives the contexts of its runs.
        bridge: ToolsetBridge | None = context.bridges.get(self)
        if bridge is None:
            executor = self._new_executor(context)
            bridge = context.bridges[self] = ToolsetBridge(executor, dict(self._hookable))
        return bridge

    def _current(self, context: AgentContext) -> ToolsetBridge:
        """The bridge to a context, with the tools that registries and servers have now."""
        bridge = self._bridge(context)
        if self._inputs.sources:
            self._refresh(bridge, context.session)
        return bridge

    def _refresh(self, bridge: ToolsetBridge, session: Session) -> None:
        ctx = self._session_context(session)
        tools: dict[str, Tool[Any, Any]] = {}
        for source in self._inputs.sources:
            for tool in source.tools_for(ctx):
                if tool.name in tools or tool.name in self._tools:
                    raise DuplicateTool(f"the toolset has two tools named {tool.name!r}")
                tools[tool.name] = tool
        for name in bridge.sourced.keys() - tools.keys():
            bridge.executor.unregister(name)
            del bridge.sourced[name], bridge.hookable[name]
        for name, tool in tools.items():
            if bridge.sourced.get(name) != tool:
                prepared, bridge.hookable[name] = self._prepare(base_tool(tool))
                bridge.executor.replace(prepared)
                bridge.sourced[name] = tool

    def _new_executor(self, context: AgentContext) -> RunExecutor:
        own = self._contexts.own
        if not self._inputs.may_grow:
            check_approval_list(context.need_user_approve_tools, self._prepared)
        is_own = own is None or own.session is context.session
        return RunExecutor(
            context.session,
            self._prepared.values(),
            host_session=None if is_own or own is None else own.session,
            runners=DEFERRING,
            is_policy_checked=True,
            **self._terms.options(),
        )

    def _agent(self, bridge: ToolsetBridge) -> tuple[AgentCalls, AgentTools]:
        """The toolset as agents use it, in one context."""
        if bridge.agent is None:
            from toolcrib.toolsets.agent_bridge.calls import AgentCalls
            from toolcrib.toolsets.agent_bridge.tools import AgentTools

            calls = AgentCalls(bridge.executor)
            own = self.own_for_agent()
            bridge.agent = calls, AgentTools(own, calls, self.max_retries, self._definitions)
        return bridge.agent

    def _instruction_context(self, tool: BaseTool, ctx: Any, session: Session) -> Any:
        if ctx is not None and not _is_run_context(ctx):
            return ctx
        context = self._session_context(session)
        if ctx is None:
            return context
        from toolcrib.toolsets.agent_bridge.values import with_tool_context

        context.run = ctx
        context.deps = context.deps if ctx.deps is None else ctx.deps
        gets_ours = isinstance(tool, DeclaredTool) or takes_tool_context(tool.get_instruction)
        return context if gets_ours else with_tool_context(ctx, context)

    def _session_context(self, session: Session) -> ToolContext:
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


def _instructs(tool: BaseTool) -> bool:
    if isinstance(tool, DeclaredTool):
        return tool.instructs
    return type(tool).get_instruction is not BaseTool.get_instruction


def _checked_context(ctx: object) -> AgentContext | None:
    if ctx is None or isinstance(ctx, AgentContext):
        return ctx
    raise UsageError(
        f"the first argument of a toolset is an AgentContext, not {type(ctx).__name__}; for tools "
        "without a context write Toolset(tools=[...])"
    )


async def _value_or_error(work: Awaitable[Any]) -> Any:
    try:
        return await work
    except Exception as error:
        return error

"""A toolset: tools written as classes, with hooks around them and approval before them."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from toolcrib.calls.executor import Executor
from toolcrib.calls.hooks import GlobalHooks, Hooks, PostHook, PreHook
from toolcrib.calls.limits import Limits
from toolcrib.errors import ControlFlow, DuplicateTool, InvalidTool
from toolcrib.tools.context import ToolContext
from toolcrib.tools.prepared import Declaration
from toolcrib.toolsets.base_tool import BaseTool

if TYPE_CHECKING:
    from toolcrib.approval.approvers import Approver
    from toolcrib.approval.policy import Policy
    from toolcrib.calls.outcome import Outcome
    from toolcrib.calls.validate import RawArguments
    from toolcrib.context import AgentContext


@dataclass(frozen=True, slots=True)
class HookableToolsetTool:
    """One tool of a toolset, as an override of `_call_tool_func` sees it."""

    tool: BaseTool
    timeout: float | None
    tool_def: Declaration

    async def call_func(self, args: dict[str, Any], ctx: Any) -> Any:
        """Run the tool's own `call`."""
        return await self.tool.call(ctx, **args)


@dataclass(frozen=True, slots=True)
class _WatchedTool(HookableToolsetTool):
    """A tool during one call. It remembers a signal of the tool, such as a question for approval,
    so that an override with a broad `except` cannot turn it into a result.
    """

    signals: list[ControlFlow] = field(default_factory=list[ControlFlow])

    async def call_func(self, args: dict[str, Any], ctx: Any) -> Any:
        """Run the tool's own `call`; what an earlier attempt signalled is void."""
        self.signals.clear()
        try:
            return await self.tool.call(ctx, **args)
        except ControlFlow as signal:
            self.signals.append(signal)
            raise


class BaseToolset(ABC):
    """Tools that also tell the model how to use them."""

    @abstractmethod
    async def get_tools(self, ctx: Any = None) -> dict[str, HookableToolsetTool]:
        """The tools that can be called, by name."""

    @abstractmethod
    async def get_instructions(self, ctx: Any = None) -> str | None:
        """What the tools add to the system prompt; None when they add nothing."""


class Toolset(BaseToolset):
    """Runs `BaseTool`s through the executor.

    Order around a call: global pre hook, the tool's pre hook, the tool, its post hook, global post
    hook. Subclasses may override `_call_tool_func` to change how the tool itself is run.
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
    ) -> None:
        self.ctx = ctx
        self.pre_hooks = dict(pre_hooks or {})
        self.post_hooks = dict(post_hooks or {})
        self.global_hooks = global_hooks or GlobalHooks()
        self._instances = _instantiate(tools)
        self._offered = {
            name: tool
            for name, tool in self._instances.items()
            if not skip_unavailable or tool.is_available()
        }
        hooks = Hooks(
            global_pre=self.global_hooks.pre,
            global_post=self.global_hooks.post,
            pre=self.pre_hooks,
            post=self.post_hooks,
            timeout=hook_timeout,
        )
        hooks.check(self._instances)
        self._wrapped: dict[str, HookableToolsetTool] = {}
        self._executor = Executor(
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

    async def get_tools(self, ctx: Any = None) -> dict[str, HookableToolsetTool]:
        """The tools that can be called, by name."""
        return dict(self._wrapped)

    async def get_instructions(self, ctx: Any = None) -> str | None:
        """The instructions of the tools that are available now, one after the other.

        Without `ctx` the tools get a context of the session that belongs to no call.
        """
        ctx = self._context() if ctx is None else ctx
        found = [
            tool.get_instruction(ctx) for tool in self._offered.values() if tool.is_available()
        ]
        return "\n\n".join(text for text in found if text) or None

    async def call_tool(
        self, name: str, tool_args: RawArguments, ctx: Any = None, tool: Any = None
    ) -> Any:
        """Call a tool and return its value.

        Raises what the tool raised, `ApprovalRequired` when a person must decide first, or
        `CallFailed`. Call again with the same call id to go on once it is decided.
        """
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

    async def _call_tool_func(
        self, args: dict[str, Any], ctx: Any, tool: HookableToolsetTool
    ) -> Any:
        """How a tool is run. An override may return an exception instead of raising it."""
        return await tool.call_func(args, ctx)

    def _handler(self, tool: BaseTool) -> Any:
        if type(self)._call_tool_func is Toolset._call_tool_func:
            return tool.call

        @functools.wraps(tool.call)
        async def handler(ctx: Any, /, **args: Any) -> Any:
            known = self._wrapped[tool.name]
            watched = _WatchedTool(known.tool, known.timeout, known.tool_def)
            result = await _value_or_error(self._call_tool_func(args, ctx, watched))
            if watched.signals:
                raise watched.signals[0]
            if isinstance(result, Exception):
                raise result
            return result

        return handler

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

"""An executor whose calls may be part of an agent run, and the values that it carries for one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, cast

from toolcrib.calls.executor import Executor
from toolcrib.calls.path import LazyGate
from toolcrib.errors import ResultDeferred, UsageError

if TYPE_CHECKING:
    from pydantic_ai import RunContext

    from toolcrib.approval.approvers import Approver
    from toolcrib.approval.caller import Caller
    from toolcrib.approval.policy import Policy
    from toolcrib.calls.call import Call
    from toolcrib.calls.execute import Runner
    from toolcrib.calls.hooks import Hooks
    from toolcrib.calls.outcome import Limits, Outcome
    from toolcrib.session.session import Session
    from toolcrib.tools.context import ToolContext
    from toolcrib.tools.identity import BindTo, Place


class PackedValue(dict[str, Any]):
    """A value with a meaning in pydantic-ai: its JSON record, with the value as `original`."""

    __slots__ = ("original", "text")

    def __init__(self, record: Mapping[str, Any], original: Any, text: str) -> None:
        super().__init__(record)
        self.original = original
        self.text = text

    def render(self) -> str:
        """The text that stands for the value in the transcript."""
        return self.text


def unpack(value: Any) -> Any:
    """The value as the tool returned it."""
    return value.original if isinstance(value, PackedValue) else value


@dataclass(frozen=True, slots=True)
class RunTerms:
    """What an executor of agent runs is made with. `hooks` know the run context of an agent."""

    hooks: Hooks | None = None
    policy: Policy | None = None
    approver: Approver | None = None
    limits: Limits | None = None
    bind_to: BindTo = "code"

    def options(self) -> dict[str, Any]:
        """The terms as keyword arguments of an executor."""
        return {
            "hooks": self.hooks,
            "policy": self.policy,
            "approver": self.approver,
            "limits": self.limits,
            "bind_to": self.bind_to,
        }


class _Deferring:
    """Runs calls whose tools are run by the application: the agent run ends with them."""

    async def run(self, call: Call) -> Any:
        """Hand the call over."""
        raise ResultDeferred


DEFERRING: Final[Mapping[Place, Runner]] = {"client": _Deferring()}


class RunExecutor(Executor):
    """Puts the run context of an agent into the contexts of its calls.

    Besides the approval list of the session, those of `host_session`, which belongs to the toolset,
    and of the run's deps apply.
    """

    hook_events = None

    def __init__(self, *args: Any, host_session: Session | None = None, **options: Any) -> None:
        super().__init__(*args, **options)
        self._host_session = host_session
        self._runs: dict[str, RunContext[Any]] = {}

    async def call_in_run(
        self,
        run: RunContext[Any],
        name: str,
        arguments: bytes | None,
        *,
        call_id: str,
        caller: Caller,
    ) -> Outcome:
        """Call a tool for an agent run; otherwise as `call`."""
        self._runs[call_id] = run
        try:
            return await self.call(name, arguments, call_id=call_id, caller=caller)
        finally:
            self._runs.pop(call_id, None)

    async def refuse(
        self, name: str, arguments: bytes, reason: str | None, *, call_id: str, caller: Caller
    ) -> Outcome:
        """Record a call with invalid arguments, for this reason or that of the tool's schema."""
        call = self._new_call(name, arguments, call_id, caller, None)
        return await self._path.refuse(call, reason or "These arguments are not valid.")

    async def call_nested(self, parent: Call, name: str, arguments: Mapping[str, Any]) -> Outcome:
        """Call a tool on behalf of a running call, with the value as the tool returned it."""
        outcome = await super().call_nested(parent, name, arguments)
        return outcome._replace(value=unpack(outcome.value))

    def has_pre_hooks(self, name: str) -> bool:
        """Whether hooks may rewrite the arguments of a tool."""
        tool = self._table.get(name)
        chain = None if tool is None else self._chains.get(tool)
        return chain is not None and chain.has_pre

    @cached_property
    def _gate(self) -> LazyGate:
        return LazyGate(self.session, self._policy, self._approver, self._listed_elsewhere)

    def _listed_elsewhere(self, call: Call) -> Collection[str]:
        host, run = self._host_session, self._run_of(call)
        listed = () if host is None else tuple(host.need_user_approve_tools)
        return listed if run is None else (*listed, *_approval_list(run.deps))

    def _context(self, call: Call) -> ToolContext:
        context = super()._context(call)
        run = self._run_of(call)
        if run is not None:
            context.run = run
            if run.deps is not None:
                context.deps = run.deps
        return context

    def _run_of(self, call: Call) -> RunContext[Any] | None:
        run = self._runs.get(call.call_id)
        if run is not None or call.parent is None:
            return run
        outer = self._run_of(call.parent)
        # The nested call has a call id and a tool name of its own in the run context.
        return outer and replace(outer, tool_call_id=call.call_id, tool_name=call.name)


def _approval_list(deps: Any) -> Collection[str]:
    """The approval list of the deps of a run, whatever their class is."""
    names: object = getattr(deps, "need_user_approve_tools", ())
    if isinstance(names, str):
        raise UsageError(f"need_user_approve_tools is a list of names; write [{names!r}]")
    return tuple(cast("Iterable[str]", names))

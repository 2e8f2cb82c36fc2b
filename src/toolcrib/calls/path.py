"""The path of a call: the same ten stages whoever asks and wherever the tool runs.

`_walk` and `_perform` are the path, in the order in which the documentation lists the stages. A
stage ends a call by raising `CallEnded` and suspends it by raising `CallSuspended`.

`LazyGate` imports the gate with the first call that needs a decision. Programs without a policy
seldom need it, and its policies, patterns, grants and approvers would double the import time of an
executor.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import TYPE_CHECKING

from toolcrib.calls.call import CallSuspended, calls_of
from toolcrib.calls.execute import cancelled
from toolcrib.calls.hook_chain import HookChain, run_post_hooks, run_pre_hooks
from toolcrib.calls.nested_calls import check_nesting
from toolcrib.calls.outcome import NOTHING, Outcome
from toolcrib.calls.records import (
    put_down,
    record_deferral,
    record_finish,
    record_finish_soon,
    record_start,
    settle_start,
    tell_unrecorded,
)
from toolcrib.calls.redaction import shown_failure
from toolcrib.calls.shape import shape
from toolcrib.calls.validate import take_again, validate
from toolcrib.errors import (
    ApprovalRequired,
    CallEnded,
    ControlFlow,
    LeaseLost,
    ModelRetry,
    ResultDeferred,
    ToolTimeout,
)
from toolcrib.failures import Failure
from toolcrib.session.turns import CALL_HERE

if TYPE_CHECKING:
    from toolcrib.approval.approvers import Approver
    from toolcrib.approval.decision import ApprovalRequest
    from toolcrib.approval.policy import Policy
    from toolcrib.calls.admission import Admission
    from toolcrib.calls.call import Call
    from toolcrib.calls.execute import Execution
    from toolcrib.calls.gate import Gate
    from toolcrib.calls.outcome import Limits
    from toolcrib.calls.tool_table import ToolTable
    from toolcrib.session.session import Session
    from toolcrib.tools.context import ToolContext
    from toolcrib.tools.prepared_tool import PreparedTool


class Path:
    """Takes calls from request to record."""

    def __init__(
        self,
        *,
        table: ToolTable,
        chains: dict[PreparedTool, HookChain],
        gate: LazyGate,
        admission: Admission,
        execution: Execution,
        limits: Limits,
        make_context: Callable[[Call], ToolContext],
    ) -> None:
        self._table = table
        self._chains = chains
        self._gate = gate
        self._admission = admission
        self._execution = execution
        self._limits = limits
        self._make_context = make_context

    def travel(self, call: Call) -> Awaitable[Outcome]:
        """The whole path."""
        return self._conclude(call, self._walk(call))

    def go_on(
        self, call: Call, decision: Awaitable[None], *, with_hooks: bool = True
    ) -> Awaitable[Outcome]:
        """The rest of the path, for a call that waited: `decision` settles whether it runs."""
        return self._conclude(call, self._walk_on(call, decision, with_hooks))

    async def refuse(self, call: Call, reason: str) -> Outcome:
        """Record a call whose arguments are not valid. `reason` counts when the tool's own schema
        has nothing against them.
        """

        async def check() -> None:
            self._table.resolve(call)
            validate(call, self._limits.max_arguments_bytes)
            raise CallEnded("invalid_arguments", reason)

        return await self._conclude(call, check())

    def adopt(self, call: Call, tool: PreparedTool) -> None:
        """Give a call that is taken up a tool other than the one it was made for."""
        call.resolve(tool)
        call.context = self._make_context(call)

    async def _walk(self, call: Call) -> None:
        # 1. resolve
        if call.parent is not None:
            check_nesting(call, call.parent, self._limits.max_depth)
        tool = self._table.resolve(call)
        if tool.ref.place != "local":
            self._execution.check_place(call)
        # 2. validate
        cost = tool.params.cost
        if cost is None or cost.is_quick(call.arguments):
            validate(call, self._limits.max_arguments_bytes)
        else:
            await asyncio.to_thread(validate, call, self._limits.max_arguments_bytes)
        # 3. pre hooks
        chain = self._chains.get(tool)
        if chain is not None or tool.wants_context:
            call.context = self._make_context(call)
        if chain is not None and chain.has_pre:
            await run_pre_hooks(call, chain)
        # 4. freeze: nothing after this line changes the arguments, except an edit by an approver,
        # which goes through validate and freeze again.
        call.freeze()
        # 5. decide
        if not call.is_settled and self._gate.must_decide(call):
            await self._gate.get().decide(call)
        await self._perform(call, chain)

    async def _walk_on(self, call: Call, decision: Awaitable[None], with_hooks: bool) -> None:
        if call.prepared is not None:
            call.context = self._make_context(call)
        await decision
        if not call.is_settled and call.tool.ref.place != "local":
            self._execution.check_place(call)
        chain = self._chains.get(call.tool) if with_hooks else None
        await self._perform(call, chain)

    async def _perform(self, call: Call, chain: HookChain | None) -> None:
        # 6. start and 7. execute, once more after each approval that the handler asked for
        while not call.is_settled:
            approval: ApprovalRequired | None = None
            try:
                if self._admission.is_free_for(call):
                    durable = record_start(call, self._limits.timeout)
                    if durable is not None:
                        await durable
                        self._execution.check_lease(call)
                    await self._execution.execute(call)
                else:
                    await self._attempt_in_turn(call)
            except ApprovalRequired as needed:
                # The handler found out now that it needs a yes; with it, it is tried again.
                approval = needed
            if approval is not None:
                # Out of the slot: whoever takes long to answer holds up no other call.
                await self._ask(call, approval)
                if not call.is_settled and not call.was_edited:
                    # The handler may have changed its params before it asked.
                    take_again(call)
        # 8. post hooks
        if chain is not None and chain.has_post:
            await run_post_hooks(call, chain)
        # 9. shape
        shape(call, self._limits.max_result_chars, self._table)

    async def _attempt_in_turn(self, call: Call) -> None:
        try:
            place = await self._admission.enter(call)
        except ToolTimeout as error:
            call.fail(error)
            return
        async with place:
            durable = record_start(call, self._limits.timeout)
            if durable is not None:
                await durable
                self._execution.check_lease(call)
            await self._execution.execute(call)

    async def _ask(self, call: Call, needed: ApprovalRequired) -> None:
        is_by_grant = call.context is not None and not call.context.approved_when_asked
        if call.is_approved and not (needed.ignore_grants and is_by_grant):
            call.fail(RuntimeError(f"{call.name} asked for approval again after it was given"))
            return
        settle_start(call)
        call.approval_metadata = needed.metadata or {}
        await self._gate.get().ask_for_handler(call, ignore_grants=needed.ignore_grants)

    async def _conclude(self, call: Call, work: Awaitable[None]) -> Outcome:
        outer = CALL_HERE.get()
        CALL_HERE.set(call)
        try:
            try:
                await work
            except CallEnded as halt:
                end(call, halt.failure)
            except ModelRetry as retry:
                call.error = retry
                end(call, Failure("tool_error", str(retry), error_type="ModelRetry"))
            # 10. finish
            outcome = _finished(call)
            durable = record_finish(call)
            if durable is not None:
                await durable
            return outcome
        except CallSuspended as suspended:
            put_down(call)
            return _waiting(call, suspended.request)
        except ResultDeferred as deferred:
            await record_deferral(call)
            put_down(call)
            return deferred_outcome(call.call_id, call.name, deferred)
        except BaseException as error:
            _leave(call, error)
            raise
        finally:
            # Not by token: a coroutine may be closed in another context than the one it ran in.
            if CALL_HERE.get() is call:
                CALL_HERE.set(outer)
            call.let_go()


def end(call: Call, failure: Failure) -> None:
    """The call failed without a result of the tool."""
    call.failure = shown_failure(call, failure)
    call.value = None
    call.value_json = None
    call.text = call.failure.message


def _leave(call: Call, error: BaseException) -> None:
    """Record a call that is torn down from outside. The signal goes on: nothing swallows it."""
    if call.is_over:
        # It ended, and that could not be written down; a cancelled wait for it changes nothing.
        if isinstance(error, Exception):
            tell_unrecorded(call, error)
        return
    if calls_of(call.session).is_lost:
        # Not for this process to say how it ended: whoever writes the session next finds it.
        put_down(call)
        call.finished_at = call.session.clock()
        tell_unrecorded(call, LeaseLost())
        return
    if isinstance(error, Exception) and not isinstance(error, asyncio.CancelledError):
        # A signal may stand for one of another library, which says more.
        cause = (isinstance(error, ControlFlow) and error.__cause__) or error
        name = type(cause).__name__
        end(call, Failure("tool_error", f"The call was left by {name}.", error_type=name))
    else:
        end(call, cancelled(call))
    record_finish_soon(call)


def _finished(call: Call) -> Outcome:
    failure = call.failure
    return Outcome(
        call_id=call.call_id,
        tool=call.name,
        status="completed" if failure is None else "failed",
        text=call.text,
        value=call.value,
        failure=failure,
        metadata=call.metadata or NOTHING,
        artifact_id=call.artifact_id,
        error=call.error,
        is_plain=call.is_plain_text,
    )


def _waiting(call: Call, request: ApprovalRequest) -> Outcome:
    return Outcome(
        call.call_id,
        call.name,
        "waiting",
        f"`{call.name}` waits for approval ({request.approval_id}).",
        approval=request,
        failure=call.failure,
    )


def deferred_outcome(call_id: str, name: str, deferred: ResultDeferred) -> Outcome:
    """The outcome of a call whose result comes from outside."""
    text = f"`{name}` was handed over; its result comes later."
    return Outcome(
        call_id, name, "waiting", text, metadata=deferred.metadata or NOTHING, error=deferred
    )


class LazyGate:
    """The gate of one executor. `listed_elsewhere` adds to the approval list of the session."""

    def __init__(
        self,
        session: Session,
        policy: Policy | None,
        approver: Approver | None,
        listed_elsewhere: Callable[[Call], Collection[str]] | None = None,
    ) -> None:
        self._session = session
        self._policy = policy
        self._approver = approver
        self._listed_elsewhere = listed_elsewhere
        self._gate: Gate | None = None

    def replace(self, policy: Policy | None, approver: Approver | None) -> None:
        """Decide by another policy, and ask another approver, from now on."""
        self._policy, self._approver, self._gate = policy, approver, None

    def must_decide(self, call: Call) -> bool:
        """False when there is nothing to decide: no policy, and nobody asks about this tool."""
        return (
            self._policy is not None
            or call.tool.tool.requires_approval
            or call.approval_metadata is not None
            or bool(self._session.need_user_approve_tools)
            or (self._listed_elsewhere is not None and bool(self._listed_elsewhere(call)))
        )

    def get(self) -> Gate:
        """The gate itself."""
        if self._gate is None:
            from toolcrib.calls.gate import Gate

            self._gate = Gate(self._session, self._policy, self._approver, self._listed_elsewhere)
        return self._gate

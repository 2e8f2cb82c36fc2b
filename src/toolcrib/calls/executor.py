"""The executor: where calls are asked for. The path they take is in `path`."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final

from toolcrib.calls.admission import Admission
from toolcrib.calls.call import Call, calls_of
from toolcrib.calls.execute import Execution, Runner, cancel
from toolcrib.calls.hook_chain import HookChain
from toolcrib.calls.hooks import CALL_EVENTS, HookEvent, Hooks
from toolcrib.calls.nested_calls import CallBinding, begin_turn, go_on_with_turn
from toolcrib.calls.outcome import DEFAULT_LIMITS, CallRequest, Limits, Outcome, run_all
from toolcrib.calls.path import LazyGate, Path
from toolcrib.calls.recorded_call import (
    MAX_ID_CHARS,
    check_not_generated,
    digest_of_request,
    recorded_outcome,
)
from toolcrib.calls.resume import Resumption
from toolcrib.calls.tool_table import ToolTable, check_rules
from toolcrib.calls.validate import RawArguments, encode_arguments, validate
from toolcrib.errors import CallEnded, CallFailed, UsageError
from toolcrib.ledger.events import ToolsChanged, idempotency_key
from toolcrib.session.turns import OpenTurn, caller_here, in_turn
from toolcrib.store.store import ask_store
from toolcrib.tools.context import ToolContext

if TYPE_CHECKING:
    from toolcrib.approval.approvers import Approver
    from toolcrib.approval.caller import Caller
    from toolcrib.approval.policy import Explanation, Policy
    from toolcrib.approval.question import Responder
    from toolcrib.failures import Failure
    from toolcrib.session.session import Session
    from toolcrib.tools.identity import BindTo, Place
    from toolcrib.tools.prepared_tool import Declaration, PreparedTool


_MOST_KEPT: Final = 2_000
"""How many bytes of arguments are kept as they were sent, until a digest of them is needed."""


class Executor:
    """Runs calls of a session's tools: validated, gated, recorded.

    Belongs to one event loop. `tools` may be of any style; `runners` run calls in places other
    than this process; without an `approver`, calls that need one wait. Questions of handlers go to
    the `responder`. Decisions are bound to the code of the handlers; a host that gives other code
    another version may bind them to that.

    Raises `InvalidPolicy` for a rule that denies, or asks about, an argument that its tool does not
    have, unless the policy was compared with the tools before. A tool that is added later does not
    run then.
    """

    hook_events: ClassVar[Collection[HookEvent] | None] = CALL_EVENTS
    """The events that hooks may be about; None where somebody else runs the other ones."""

    def __init__(
        self,
        session: Session,
        tools: Iterable[Any] = (),
        *,
        hooks: Hooks | None = None,
        policy: Policy | None = None,
        approver: Approver | None = None,
        responder: Responder | None = None,
        runners: Mapping[Place, Runner] | None = None,
        limits: Limits | None = None,
        bind_to: BindTo = "code",
        is_policy_checked: bool = False,
    ) -> None:
        self.session = session
        self._calls = calls_of(session)
        self.limits = limits or DEFAULT_LIMITS
        self._table = ToolTable(tools, bind_to=bind_to)
        if policy is not None and not is_policy_checked:
            check_rules(policy, self._table.tools.values())
        self._hooks = hooks
        self._chains: dict[PreparedTool, HookChain] = {}
        if hooks is not None:
            # Where more tools may come, a runtime runs hooks of sessions and prompts itself.
            if self.hook_events is not None and not hooks.more_tools_may_come:
                hooks.check_events(type(self).__name__, self.hook_events)
            hooks.check(self._table.tools)
            for tool in self._table.tools.values():
                self._link_hooks(tool)
        self._policy = policy
        self._approver = approver
        self.responder = responder
        """Whom handlers ask, when nobody nearer to the call can be asked."""
        self._runners = runners or {}
        self._open_turns = 0

    async def call(
        self,
        name: str,
        arguments: RawArguments = None,
        *,
        call_id: str | None = None,
        is_new_id: bool = False,
        caller: Caller | None = None,
        deadline: float | None = None,
    ) -> Outcome:
        """Call a tool and say what came of it. Failures are outcomes, not exceptions.

        `deadline` is in the running loop's time. With the `call_id` of a call that waits, that
        call is taken up again, with the arguments it was frozen with; None stands for them. With
        that of a call that has ended, its recorded outcome is given again and nothing runs; it is a
        `UsageError` when that call had another tool, other arguments or another principal. With
        `is_new_id` no earlier call is looked for: the id was just made at random.

        Without a `caller`, code that is part of a call acts for the caller of that one.
        """
        if caller is None:
            caller = caller_here()
        if call_id is not None and not is_new_id:
            if call_id in self._calls.waiting:
                return await self._resumption.resume_one(call_id, name, arguments, deadline)
            self._check_id(call_id)
            return await self._call_once(name, arguments, call_id, caller, deadline)
        call = self._new_call(name, arguments, call_id, caller, deadline)
        if call_id is not None:
            _keep_request(call)
        return await self._path.travel(call)

    async def _call_once(
        self,
        name: str,
        arguments: RawArguments,
        call_id: str,
        caller: Caller | None,
        deadline: float | None,
    ) -> Outcome:
        """Make the call of this id, unless it was made before."""
        raw, session = encode_arguments(arguments), self.session
        claimed = self._calls.claimed
        # Before the look into the store, so that of two at once the second is refused.
        claimed.add(call_id)
        try:
            if session.ledger.is_durable:
                earlier = await ask_store(session.store, session.known_call, call_id)
            else:
                earlier = session.known_call(call_id)
            if earlier is None:
                check_not_generated(call_id)
            else:
                outcome = recorded_outcome(session, earlier, name, raw, caller)
                if outcome is not None:
                    return outcome
            call = self._new_call(name, raw, call_id, caller, deadline)
            _keep_request(call)
            return await self._path.travel(call)
        finally:
            claimed.discard(call_id)

    async def call_many(
        self, requests: Sequence[CallRequest], *, max_parallel: int | None = None
    ) -> list[Outcome]:
        """Call several tools at once; outcomes come in the order asked.

        Calls that wait for approval do not hold up the others. Raises `UsageError` before anything
        runs when one of the requests cannot be made.
        """
        ready = [
            replace(request, arguments=encode_arguments(request.arguments)) for request in requests
        ]
        self._check_ids([request.call_id for request in ready if request.call_id is not None])

        async def one(request: CallRequest) -> Outcome:
            return await self.call(
                request.name, request.arguments, call_id=request.call_id, caller=request.caller
            )

        return await run_all(
            [lambda request=request: one(request) for request in ready], max_parallel
        )

    async def call_nested(self, parent: Call, name: str, arguments: Mapping[str, Any]) -> Outcome:
        """Call a tool on behalf of a running call; used through `ToolContext.call_tool`."""
        call = self._new_call(name, arguments, None, parent.caller, parent.ends_at, parent)
        return await self._path.travel(call)

    async def resume(
        self, call_ids: Iterable[str] | None = None, *, deadline: float | None = None
    ) -> list[Outcome]:
        """Go on with the calls that wait or are in doubt: those given, or all, in their order.

        What nobody has decided still waits. What is in doubt runs again only if its tool is
        idempotent or a person says so. `deadline` is in the running loop's time.
        """
        return await self._resumption.resume(call_ids, deadline)

    def cancel(self, call_id: str) -> bool:
        """Stop one running call; its outcome is `cancelled`. False when it is not running."""
        call = self._calls.running.get(call_id)
        return call is not None and cancel(call)

    def is_waiting(self, call_id: str) -> bool:
        """Whether a call of this id is open and can be taken up again."""
        return call_id in self._calls.waiting

    async def complete(
        self, call_id: str, value: object = None, *, failure: Failure | None = None
    ) -> Outcome:
        """End a call that was handed over (`ResultDeferred`), with its value or as a failure. No
        hook runs, for whoever brings the result has used it already.
        """
        return await self._resumption.complete(call_id, value, failure)

    async def withdraw(self, call_id: str) -> Outcome:
        """Cancel a call that waits for a decision; it can no longer be approved."""
        return await self._resumption.withdraw(call_id)

    def explain(self, name: str, arguments: RawArguments = None) -> Explanation:
        """Which rule would decide this call, and why. Nothing runs and nothing is recorded.

        Raises `CallFailed` when the call would fail before anything is decided.
        """
        frozen = encode_arguments(arguments)
        call = Call("explain", name, frozen, self.session)
        try:
            self._table.resolve(call)
            validate(call, self.limits.max_arguments_bytes)
        except CallEnded as ended:
            raise CallFailed(ended.failure) from None
        return self._gate.get().explain(call)

    def declarations(self) -> tuple[Declaration, ...]:
        """What the model is told of each tool; the same object until the tools change."""
        return self._table.declarations()

    def instructions(self) -> str | None:
        """The texts that the available tools add to a model's instructions, asked now; None when
        they add nothing.
        """
        return self._table.instructions(self._instruction_context)

    def _instruction_context(self) -> ToolContext:
        session = self.session
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

    @property
    def tools(self) -> Mapping[str, PreparedTool]:
        """The tools that can be called now, by name."""
        return self._table.tools

    def register(self, tool: Any) -> None:
        """Add a tool; it shows in the next turn. Raises `DuplicateTool`."""
        prepared = self._table.add(tool)
        self._changed(prepared.ref.name, None, prepared)

    def replace(self, tool: Any) -> None:
        """Put a tool in the place of its namesake, from the next turn on."""
        old, new = self._table.replace(tool)
        self._changed(new.ref.name, old, new)

    def unregister(self, name: str) -> bool:
        """Take a tool away at once; False when there is none of that name."""
        old = self._table.remove(name)
        if old is None:
            return False
        self._changed(name, old, None)
        return True

    def replace_governance(
        self, *, policy: Policy | None, approver: Approver | None, hooks: Hooks | None
    ) -> None:
        """Put another policy, approver and hooks in place, all at once. Calls that wait are judged
        by the new policy when they go on. Raises `InvalidHooks`, and then nothing has changed.
        """
        if hooks is not None:
            hooks.check(self._table.tools)
        self._policy, self._approver, self._hooks = policy, approver, hooks
        self._gate.replace(policy, approver)
        self._chains.clear()
        for tool in self._table.tools.values():
            self._link_hooks(tool)

    @contextmanager
    def turn(self) -> Generator[int]:
        """One prompt and all that follows from it: tools stay as they are until it ends.

        Within a call it is a turn of its own that belongs to the call. Raises `CallFailed` when
        that is too deep, or the call is given up.
        """
        with self._pinned(begin_turn(self.session, self.limits.max_depth)) as turn:
            yield turn.number

    @contextmanager
    def turn_again(
        self, number: int, *, parent_call_id: str | None = None, parent_turn: int | None = None
    ) -> Generator[None]:
        """Go on with a turn that began earlier, with the call that it was part of then."""
        turn = go_on_with_turn(
            self.session,
            number,
            self.limits.max_depth,
            parent_call_id=parent_call_id,
            parent_turn=parent_turn,
        )
        with self._pinned(turn):
            yield

    @contextmanager
    def _pinned(self, turn: OpenTurn) -> Generator[OpenTurn]:
        # A turn within a turn sees the same tools.
        if self._open_turns == 0:
            self._table.pin()
        self._open_turns += 1
        try:
            with in_turn(turn):
                yield turn
        finally:
            self._open_turns -= 1
            if self._open_turns == 0:
                self._table.pin()

    def _new_call(
        self,
        name: str,
        arguments: RawArguments,
        call_id: str | None,
        caller: Caller | None,
        deadline: float | None,
        parent: Call | None = None,
    ) -> Call:
        session = self.session
        if call_id is None:
            call_id = session.next_call_id()
        if type(arguments) is not bytes or not arguments:
            arguments = encode_arguments(arguments)
        return Call(
            call_id, name, arguments, session, parent=parent, caller=caller, deadline=deadline
        )

    def _check_ids(self, call_ids: list[str]) -> None:
        if len(set(call_ids)) < len(call_ids):
            raise UsageError("two calls have the same id; give every call an id of its own")
        for call_id in call_ids:
            if call_id not in self._calls.waiting:
                self._check_id(call_id)

    def _check_id(self, call_id: str) -> None:
        """Ids come from models and clients; one that no store takes must not reach the ledger."""
        if self._calls.is_busy(call_id):
            raise UsageError(f"a call {call_id!r} is running; give every call an id of its own")
        if not 0 < len(call_id) <= MAX_ID_CHARS or not call_id.isprintable():
            raise UsageError(
                f"a call id is 1 to {MAX_ID_CHARS} printable characters, not {call_id[:80]!r}"
            )

    def _context(self, call: Call) -> ToolContext:
        session = self.session
        return ToolContext(
            session_id=session.session_id,
            cwd=session.cwd,
            environment=session.environment.copy(),
            metadata=session.metadata.copy(),
            call_id=call.call_id,
            tool_name=call.name,
            idempotency_key=idempotency_key(session.session_id, call.call_id),
            deadline=call.deadline,
            turn=call.turn,
            parent_call_id=call.parent_call_id,
            deps=session.deps,
            session=session,
            bus=session.bus,
            binding=CallBinding(self, call),
        )

    @cached_property
    def _gate(self) -> LazyGate:
        return LazyGate(self.session, self._policy, self._approver)

    @cached_property
    def _path(self) -> Path:
        """The path of this executor's calls, made for the first of them."""
        return Path(
            table=self._table,
            chains=self._chains,
            gate=self._gate,
            admission=Admission(self.limits),
            execution=Execution(self._runners, self.limits.timeout, self._calls),
            limits=self.limits,
            make_context=self._context,
        )

    @cached_property
    def _resumption(self) -> Resumption:
        return Resumption(self.session, self._table, self._gate, self._path)

    def _link_hooks(self, tool: PreparedTool) -> None:
        """Compute the hooks around a tool, once. By the tool and not by its name: a turn that has
        begun keeps a tool that was replaced, and its hooks with it.
        """
        chain = self._hooks.chain(tool) if self._hooks is not None else None
        if chain is not None:
            self._chains[tool] = chain

    def _changed(self, name: str, old: PreparedTool | None, new: PreparedTool | None) -> None:
        if new is not None:
            self._link_hooks(new)
        if self._open_turns == 0:
            self._table.pin()
        session = self.session
        session.note(
            ToolsChanged(
                session_id=session.session_id,
                at=session.clock(),
                name=name,
                old=old.ref if old else None,
                new=new.ref if new else None,
            )
        )


def _keep_request(call: Call) -> None:
    """Have the record say what was asked for, so that the same request may come again."""
    call.request = call.arguments
    if len(call.arguments) > _MOST_KEPT:
        # The ledger may keep the call for long.
        digest_of_request(call)

"""The working state of one call, and the calls that all executors of a session share."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any, cast

from toolcrib.session.turns import OpenTurn, call_here, turn_here

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toolcrib.approval.caller import Caller
    from toolcrib.approval.decision import Actor, ApprovalRequest
    from toolcrib.calls.emitter import Emitter
    from toolcrib.calls.person_wait import PersonWait
    from toolcrib.failures import Failure
    from toolcrib.session.session import Session
    from toolcrib.tools.context import ToolContext
    from toolcrib.tools.identity import ToolRef
    from toolcrib.tools.prepared_tool import PreparedTool
    from toolcrib.tools.redaction import Scrubber


class SessionCalls:
    """Which calls run, wait or are being worked on in this process."""

    __slots__ = ("claimed", "is_lost", "running", "waiting")

    running: dict[str, Call]
    """Calls whose handler runs now, by id."""
    claimed: set[str]
    """Open calls that a task works on, so that no other task takes them up."""
    waiting: set[str]
    """Open calls that can be taken up again."""
    is_lost: bool
    """True once this process cannot count on its lease any more: nothing starts here, and what runs
    is stopped and left to the next writer of the session.
    """

    def __init__(self, waiting: Iterable[str]) -> None:
        self.running = {}
        self.claimed = set()
        self.waiting = set(waiting)
        self.is_lost = False

    @property
    def running_ids(self) -> Collection[str]:
        """The ids of the running calls; see `ExecutorState`."""
        return self.running.keys()

    def restore(self, waiting: Iterable[str]) -> None:
        """The session went on from a state in which these calls wait."""
        self.waiting.clear()
        self.waiting.update(waiting)

    def is_busy(self, call_id: str) -> bool:
        """Whether a call runs or is being worked on, so that its id is taken."""
        return call_id in self.running or call_id in self.claimed


def calls_of(session: Session) -> SessionCalls:
    """The shared calls of a session; the first executor attaches them."""
    state = session.executor_state
    if state is None:
        state = SessionCalls(call.call_id for call in session.open_calls())
        session.executor_state = state
        if session.ledger.is_durable:
            from toolcrib.calls.lease_loss import stop_when_lost

            stop_when_lost(session, state)
    assert isinstance(state, SessionCalls), "only executors attach their state to a session"
    return state


class CallSuspended(Exception):
    """The call waits: its request is filed, and it continues when somebody has decided.

    Travels from the gate to the path of the same call, past everything in between.
    """

    def __init__(self, request: ApprovalRequest) -> None:
        super().__init__(request.approval_id)
        self.request = request


class Call:
    """One call. Stages fill it in from top to bottom; nothing outside the executor sees it.

    `arguments` is the JSON that counts: once validated, the canonical form of the params. Handlers
    and hooks get parsed copies, so nothing they change can reach the record or the digest.
    """

    tool: PreparedTool

    __slots__ = (
        "approval_id",
        "approval_metadata",
        "arguments",
        "artifact_id",
        "attempt",
        "call_id",
        "caller",
        "cancels",
        "context",
        "created_at",
        "deadline",
        "decided_by",
        "depth",
        "digest_cache",
        "emitter",
        "enclosing",
        "ends_at",
        "error",
        "failure",
        "finished_at",
        "frozen_ref",
        "hides_arguments",
        "is_approved",
        "is_left_running",
        "is_nested",
        "is_over",
        "is_plain_text",
        "is_settled",
        "kept_metadata",
        "may_run_until",
        "metadata",
        "name",
        "params",
        "parent",
        "parent_call_id",
        "person",
        "prepared",
        "process",
        "request",
        "request_digest",
        "scrubber",
        "session",
        "started_at",
        "submitted",
        "task",
        "text",
        "text_value",
        "tool",
        "turn",
        "value",
        "value_json",
        "waited",
        "was_edited",
        "whole_text",
    )

    ends_at: float | None
    """When what runs now must be over; while the handler runs, its time limit counts too."""
    is_nested: bool
    """True when a handler on the stack waits for it, so that it cannot wait for a person."""
    parent_call_id: str | None
    """The call that this one is part of: made by its handler, or in a turn that it began."""
    frozen_ref: ToolRef | None
    """Which tool the call was frozen for, when that tool is not here any more."""
    enclosing: Call | None
    """The running call, of whatever session, that this one is part of: its secrets are hidden."""
    hides_arguments: bool
    """True when the arguments hold secrets of an enclosing call that is gone."""
    scrubber: tuple[bytes, int, Scrubber] | None
    """What hides the secrets of these arguments and of so many answers, once something had to be
    hidden."""
    request: bytes | None
    """The arguments as they were sent, when whoever asked gave the call its id and no digest of
    them was needed yet."""
    request_digest: str | None
    """What was asked for, when whoever asked gave the call its id."""
    is_left_running: bool
    """True when the handler could not be stopped and goes on without the call."""
    is_over: bool
    """True once the call has its last record, or is about to get it."""
    is_settled: bool
    """True once there is a value or an error, from the tool or in its place."""
    is_plain_text: bool
    """True when the text is just the value, rendered."""
    submitted: bytes
    """The JSON that the params were made from: by the caller, a hook or an approver's edit."""
    whole_text: str | None
    """The whole rendered result, when the model gets only a part of it."""
    kept_metadata: dict[str, Any] | None
    """The metadata as JSON, for the record."""
    person: PersonWait | None
    """The call's waits for people while it ran, once there was one."""
    started_at: float | None
    """When its handler was started last."""
    process: str | None
    """The holder of the lease under which it was started last."""
    may_run_until: float | None
    """When the handler that was started last must have ended; see `OpenCall`."""
    cancels: int
    """How often somebody asked for this one call to be cancelled."""

    def __init__(
        self,
        call_id: str,
        name: str,
        arguments: bytes,
        session: Session,
        parent: Call | None = None,
        caller: Caller | None = None,
        deadline: float | None = None,
        *,
        created_at: float | None = None,
    ) -> None:
        self.call_id = call_id
        self.name = name
        self.arguments = arguments
        self.submitted = arguments
        self.session = session
        self.created_at = created_at
        self.caller = caller
        self.deadline = deadline
        self.ends_at = deadline
        self.parent = parent
        self.depth = 0
        self.is_nested = False
        self.parent_call_id = None
        self.enclosing = parent or cast("Call | None", call_here())
        turn = turn_here(session)
        self.turn = session.last_turn if turn is None else turn.number
        if parent is not None or turn is not None:
            self._join(parent, turn)
        self.prepared: PreparedTool | None = None
        self.frozen_ref = self.request = self.request_digest = self.scrubber = None
        self.hides_arguments = False
        self.params: Any = None
        self.context: ToolContext | None = None
        self.digest_cache: str | None = None
        self.decided_by: Actor | None = None
        self.approval_id: str | None = None
        self.approval_metadata: Mapping[str, Any] | None = None
        self.is_approved = self.was_edited = False
        self.waited = 0.0
        self.attempt = 0
        self.started_at = self.process = self.may_run_until = None
        self.finished_at = 0.0
        self.is_left_running = False
        self.is_over = False
        self.is_settled = False
        self.value: Any = None
        self.error: BaseException | None = None
        self.failure: Failure | None = None
        self.text = ""
        self.is_plain_text = False
        self.text_value: str | None = None
        self.value_json: bytes | None = None
        self.metadata: Mapping[str, Any] | None = None
        self.artifact_id: str | None = None
        self.whole_text = self.kept_metadata = self.person = None
        self.task: asyncio.Task[Any] | None = None
        self.cancels = 0
        self.emitter: Emitter | None = None

    def _join(self, parent: Call | None, turn: OpenTurn | None) -> None:
        """Make the call part of the call around it, or of the one that its turn is part of."""
        if parent is not None:
            self.depth = parent.depth + 1
            self.is_nested = True
            self.parent_call_id = parent.call_id
        elif turn is not None:
            self.is_nested = turn.caller is not None
            self.enclosing = cast("Call | None", turn.caller) or self.enclosing
            self.parent_call_id = turn.parent_call_id

    def resolve(self, tool: PreparedTool) -> None:
        """The call's tool is known. Until then, reading `tool` fails."""
        self.prepared = self.tool = tool

    def freeze(self) -> None:
        """Stage four: the arguments are final from here on, and the digest is of what they are."""
        self.digest_cache = None

    def succeed(self, value: Any) -> None:
        """The call has a value."""
        self.value = value
        self.error = None
        self.is_settled = True

    def fail(self, error: BaseException) -> None:
        """The call has an exception in a value's place."""
        self.error = error
        self.is_settled = True

    def let_go(self) -> None:
        """Drop what only the running call needed: a ledger may keep the call for long."""
        self.params = None
        self.submitted = self.arguments
        self.context = None
        self.value = None
        # Its traceback holds everything the handler held.
        self.error = None
        self.task = None
        if self.is_plain_text:
            # The record has the value, and whoever reads it renders it again.
            self.text = ""
        if self.approval_id is not None:
            calls_of(self.session).claimed.discard(self.call_id)

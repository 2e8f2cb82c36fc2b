"""Events: everything that happens in a session, as typed facts.

Each event has a `kind`: the name it carries in the ledger and on every wire. Events hold the
redacted view of arguments and results, never a secret.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from toolcrib.approval.decision import Actor, ApprovalRequest, Decided, Vote
from toolcrib.failures import Failure
from toolcrib.ledger.kept_text import KeptText
from toolcrib.prices.cost import Cost
from toolcrib.tools.identity import ToolRef


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened in `session_id` at `at` (seconds since the epoch)."""

    kind: ClassVar[str]
    session_id: str
    at: float


Origin = Literal["local", "provider"]


def idempotency_key(session_id: str, call_id: str) -> str:
    """Names one call, and only that one, wherever and however often it is tried."""
    return f"{session_id}:{call_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOpened(Event):
    """A process became the session's writer. `fence` grows with every writer."""

    kind: ClassVar[str] = "session.opened"
    fence: int
    principal: str | None = None
    """Who opened it; None when the process itself did."""
    settings_digest: str | None = None
    """Of the settings that the writer found; None in ledgers of versions that did not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRestored(Event):
    """The session goes on from an exported state whose ledger ended at `head`."""

    kind: ClassVar[str] = "session.restored"
    head: str
    settings_digest: str | None = None
    """Of the settings that it has from now on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsSaved(Event):
    """The settings of the session changed: the tools to ask about, and those of its host."""

    kind: ClassVar[str] = "session.settings_saved"
    digest: str


@dataclass(frozen=True, slots=True)
class ToolChange:
    """A tool as it was and as it is."""

    old: ToolRef
    new: ToolRef


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionToolsChanged(Event):
    """The session was opened again, and tools that it had are gone or are not what they were. Their
    open calls are asked about again, or cannot go on.
    """

    kind: ClassVar[str] = "session.tools_changed"
    gone: tuple[ToolRef, ...] = ()
    changed: tuple[ToolChange, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadsDeleted(Event):
    """The payloads of records up to a number were deleted; their digests stay."""

    kind: ClassVar[str] = "session.payloads_deleted"
    actor: Actor
    up_to: int | None = None
    """The last of them; None, in ledgers of versions that did not say, is all before this one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnStarted(Event):
    """A new turn began; the tools are pinned until it ends."""

    kind: ClassVar[str] = "turn.started"
    turn: int
    parent_call_id: str | None = None
    """The call that the turn is part of: of a prompt that a handler or a hook evaluates."""
    parent_turn: int | None = None
    """The turn of that call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolsChanged(Event):
    """A tool was added (`old` is None), replaced, or removed (`new` is None)."""

    kind: ClassVar[str] = "tools.changed"
    name: str
    old: ToolRef | None
    new: ToolRef | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUnavailable(Event):
    """An open call names a tool that is gone or is not what it was when the call was frozen."""

    kind: ClassVar[str] = "tool.unavailable"
    call_id: str
    tool: ToolRef
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequested(Event):
    """A call waits for a decision."""

    kind: ClassVar[str] = "approval.requested"
    call_id: str
    request: ApprovalRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalVoted(Event):
    """One of several people approved a call that still waits for the others."""

    kind: ClassVar[str] = "approval.voted"
    call_id: str
    approval_id: str
    vote: Vote
    votes: int
    """How many have approved the same arguments by now."""
    needed: int
    is_edited: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalDecided(Event):
    """A decision was taken on a waiting call."""

    kind: ClassVar[str] = "approval.decided"
    call_id: str
    decided: Decided
    principal: str | None = None
    """Who asked for the call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalSuperseded(Event):
    """The tool of a waiting call has changed, so a new request took the place of `approval_id`."""

    kind: ClassVar[str] = "approval.superseded"
    call_id: str
    approval_id: str
    superseded_by: str
    void: Decided | None = None
    """The decision on the earlier request, if there was one; it lets nothing run."""
    changes: tuple[str, ...] = ()
    """What changed in the tool, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantChanged(Event):
    """A standing grant was made, used or revoked."""

    kind: ClassVar[str] = "grant.changed"
    grant_id: str
    tool_id: str
    change: Literal["made", "used", "revoked"]
    actor: Actor
    call_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallStarted(Event):
    """The handler is about to run. Without a later `ToolInvoked` the call is in doubt."""

    kind: ClassVar[str] = "call.started"
    call_id: str
    tool: ToolRef
    arguments_digest: str
    attempt: int = 1
    principal: str | None = None
    """Who asked for the call."""
    groups: tuple[str, ...] = ()
    """The groups of the principal when it asked."""

    @property
    def idempotency_key(self) -> str:
        """Stable over every attempt at this call; handlers get it in their context."""
        return idempotency_key(self.session_id, self.call_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallDeferred(Event):
    """A call was handed over: it runs outside of this process, and its result comes later."""

    kind: ClassVar[str] = "call.deferred"
    call_id: str
    tool: ToolRef
    params: Any
    """The arguments that were handed over (redacted)."""
    turn: int = 0
    principal: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallInDoubt(Event):
    """Nobody recorded the end of this call, and nobody knows whether it took effect."""

    kind: ClassVar[str] = "call.in_doubt"
    call_id: str
    tool: ToolRef
    may_run_until: float | None = None
    """Until when the process that started it, which is not known to be dead, may run it. None when
    the process has certainly ended.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class CallUnrecorded(Event):
    """A call is over and its end could not be written down: the store failed, or another process
    writes the session by now. On the bus only, for there is nowhere else to say it.
    """

    kind: ClassVar[str] = "call.unrecorded"
    call_id: str
    tool: ToolRef | None
    reason: str
    """The class of what went wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolProgress(Event):
    """How far a running call is. Rapid updates are coalesced: only the latest is kept."""

    kind: ClassVar[str] = "tool.progress"
    call_id: str
    tool: str
    current: float
    total: float | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutput(Event):
    """A piece of output of a running call, for people to watch; never shown to the model."""

    kind: ClassVar[str] = "tool.output"
    call_id: str
    tool: str
    chunk: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolEmitted(Event):
    """An event of the tool's own; `type` starts with `tool.<name>.`."""

    kind: ClassVar[str] = "tool.emitted"
    call_id: str
    tool: str
    type: str
    data: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolInvoked(Event):
    """A call is over, whatever its end: the one record that every attempt leaves.

    Consumers that know nothing of provider-run tools read it like any other: `origin`, `provider`
    and `capability` are defaulted.
    """

    kind: ClassVar[str] = "tool.invoked"
    call_id: str
    name: str
    params: Any
    """The arguments that ran (redacted), or None when they could not be read."""
    message: str
    """What the model sees."""
    success: bool
    value: Any = None
    """The typed value for subscribers in this process; plain JSON when read from a ledger."""
    failure: Failure | None = None
    tool: ToolRef | None = None
    arguments_digest: str = ""
    request_digest: str | None = None
    """Of the tool and the arguments as they were asked for, when the caller gave the call its id:
    whoever asks for the same under this id gets this result.
    """
    decided_by: Actor | None = None
    was_edited: bool = False
    duration_seconds: float = 0.0
    """How long it ran; of a provider-run call 0 unless its answer was streamed, for nobody else
    says it."""
    waited_seconds: float = 0.0
    parent_call_id: str | None = None
    depth: int = 0
    turn: int = 0
    principal: str | None = None
    transport: str | None = None
    artifact_id: str | None = None
    artifact_digest: str | None = None
    """SHA-256 of the whole result, which is kept beside the ledger."""
    metadata: dict[str, Any] | None = None
    """That of the handler's `ToolResult` (redacted): for programs, never shown to the model."""
    origin: Origin = "local"
    provider: str | None = None
    capability: str | None = None
    raw: Any = None
    """The provider's own item, verbatim, when the provider ran the call."""
    kept: tuple[KeptText, ...] = ()
    """The long texts, such as pictures, that `raw` and `value` refer to."""
    cost: Cost | None = None
    """What the provider bills for a call that it ran, besides tokens; None when nobody knows."""

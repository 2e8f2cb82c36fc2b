"""The parameters and results of operations, the same on every transport. Those about approvals and
grants are in `approval_messages`.

Field names are those of the wire. Parameters are validated against these types, and unknown keys
are refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias

from annotated_types import Ge, Gt, Le
from pydantic import ConfigDict, Field, JsonValue, SkipValidation, StrictBool

from toolcrib.errors import EvaluationReason
from toolcrib.failures import Failure
from toolcrib.runtime.config import WhenBusy
from toolcrib.store.store import TitleSource
from toolcrib.tools.identity import Place

_STRICT = ConfigDict(extra="forbid")

MAX_SEQ: Final = 2**63 - 1
Seq: TypeAlias = Annotated[int, Ge(0), Le(MAX_SEQ)]
"""The number of a record: what a store can hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationParams:
    """Base of the parameters of an operation."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT


@dataclass(frozen=True, slots=True, kw_only=True)
class Nothing(OperationParams):
    """No parameters, or no result."""


NewSessionId = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.:-]{1,128}$")]
"""The id of a new session."""
Key = Annotated[str, Field(min_length=1, max_length=255)]
"""An idempotency key."""
Time: TypeAlias = float | Annotated[str, Field(max_length=64)]
"""Seconds since the epoch, a time in ISO 8601 (in UTC without an offset), or how long ago: `7d`."""
CallId = Annotated[str, Field(min_length=1, max_length=256)]


__all__ = [
    "AgentFacts",
    "ArtifactPage",
    "CallResult",
    "CallTool",
    "Cancelled",
    "Capabilities",
    "ClientTool",
    "CreateSession",
    "Events",
    "ForkSession",
    "ListEvents",
    "ListSessions",
    "ListTools",
    "Nothing",
    "OneArtifact",
    "OneCall",
    "OneSession",
    "OneTool",
    "OperationParams",
    "PromptResult",
    "ResumePrompt",
    "ResumeSession",
    "SendPrompt",
    "SessionFacts",
    "Sessions",
    "ToolFacts",
    "Tools",
]

MAX_SESSIONS: Final = 1_000
"""How many sessions one result may hold."""
MAX_EVENTS: Final = 10_000
"""How many events one result may hold."""

SessionState = Literal["open", "closed"]
CallStatus = Literal["completed", "failed", "waiting"]
PromptStatus = Literal["completed", "waiting", "failed", "cancelled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientTool(OperationParams):
    """A tool that the client declares and runs. `parameters` is the JSON Schema of an object."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,128}$")]
    description: Annotated[str, Field(pattern=r"\S")]
    parameters: dict[str, JsonValue]
    requires_approval: StrictBool = False
    timeout: Annotated[float, Gt(0)] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateSession(OperationParams):
    """A new session. `capabilities` are those of the client; `client_tools` it runs itself."""

    session_id: NewSessionId | None = None
    cwd: str | None = None
    environment: dict[str, str] = field(default_factory=dict[str, str])
    metadata: dict[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    allowed_tools: list[str] | None = None
    denied_tools: list[str] = field(default_factory=list[str])
    expected_tools: list[str] = field(default_factory=list[str])
    capabilities: list[str] = field(default_factory=list[str])
    client_tools: list[ClientTool] = field(default_factory=list[ClientTool])
    is_temporary: StrictBool = False
    """Whether closing deletes the session, if nothing was called or prompted in it."""
    idempotency_key: Key | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OneSession(OperationParams):
    """An operation on one session."""

    session_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ListSessions(OperationParams):
    """A page of the sessions that the principal may see: of one owner, created in this time, open
    or closed, with these words.
    """

    owner: str | None = None
    since: Time | None = None
    until: Time | None = None
    state: SessionState | None = None
    text: Annotated[str, Field(max_length=200)] | None = None
    """Words that are all in the title, the id, the owner or the metadata."""
    tool: Annotated[str, Field(max_length=256)] | None = None
    """Sessions in which this tool was called; a name, or a pattern with `*`, `?` and `[...]`."""
    waiting: bool | None = None
    """Whether an approval request of the session is pending."""
    failed: bool | None = None
    """Whether a call of the session failed, was denied, or is in doubt."""
    newest_first: bool = False
    cursor: Annotated[str, Field(max_length=255)] | None = None
    limit: Annotated[int, Ge(1), Le(MAX_SESSIONS)] = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeSession(OperationParams):
    """A session of the store, to open again. Its directory and its allowed tools are stored with
    it; environment, capabilities and client tools are declared anew.
    """

    session_id: str
    environment: dict[str, str] = field(default_factory=dict[str, str])
    capabilities: list[str] = field(default_factory=list[str])
    client_tools: list[ClientTool] = field(default_factory=list[ClientTool])


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkSession(OperationParams):
    """A new session that begins with the history of another one."""

    session_id: str
    new_session_id: NewSessionId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFacts:
    """A session as it is now."""

    session_id: str
    state: SessionState
    last_seq: int
    turn: int = 0
    is_busy: bool = False
    has_open_prompt: bool = False
    """Whether a prompt runs, waits or was interrupted; unless it runs, it can be resumed."""
    pending_approvals: int = 0
    cwd: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    unavailable_tools: dict[str, str] = field(default_factory=dict[str, str])
    """The tools that this session does not have, with the reason."""
    owner: str | None = None
    """The principal that made it; None when the process itself did."""
    created_at: float | None = None
    last_event_at: float | None = None
    """When the newest record of its ledger was written."""
    title: str | None = None
    """The beginning of its first prompt, else the name of the first tool that was called."""
    title_source: TitleSource | None = None
    prompts: int = 0
    """Prompts that somebody sent; those that tools send are part of calls."""
    calls: int = 0
    """Calls of tools that have ended, wait or are in doubt."""
    failures: int = 0
    """Those of them that failed, were denied, or are in doubt."""
    cost: float | None = None
    """In US dollars, of what has a price; None when nothing has one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sessions:
    """Sessions, oldest first; `cursor` asks for the next page, None is the end."""

    sessions: list[SessionFacts]
    cursor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListTools(OperationParams):
    """The tools of a session, or of one category."""

    session_id: str
    category: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OneTool(OperationParams):
    """One tool of a session."""

    session_id: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFacts:
    """A tool as a client may show it."""

    name: str
    description: str
    parameters: dict[str, Any]
    source: str
    place: Place
    scope: Literal["global", "session"]
    version: str
    digest: str
    requires_approval: bool
    is_read_only: bool
    is_idempotent: bool
    category: str | None = None
    timeout: float | None = None
    deprecated: str | None = None
    uses: list[str] = field(default_factory=list[str])
    """The tools that it may call."""
    output_schema: dict[str, Any] | None = None
    """The JSON Schema of its result, if it declares one."""
    argument_names: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """The keys in the schema by each other name that an argument goes by."""
    presentation: dict[str, Any] | None = None
    """How the MCP server of the tool presents it: title, annotations, icons, execution, `_meta`.
    Its hints are the server's word and decide nothing here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """The tools of a session, and those that it does not have with the reason."""

    tools: list[ToolFacts]
    unavailable: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class CallTool(OperationParams):
    """A call without a model. With the id of a waiting call, that call is resumed."""

    session_id: str
    name: str
    arguments: dict[str, SkipValidation[JsonValue]] = field(default_factory=dict[str, JsonValue])
    """JSON values. The executor validates them against the tool, so they are not checked here."""
    call_id: CallId | None = None
    idempotency_key: Key | None = None


class NewCall(CallTool):
    """A call whose id was just made at random, so that no earlier call has it. Only a transport in
    this process can say so: parameters that are read are never of this class.
    """

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CallResult:
    """The result of a call. `text` is for a model, `value` for programs."""

    call_id: str
    tool: str
    status: CallStatus
    text: str
    value: Any = None
    failure: Failure | None = None
    approval_id: str | None = None
    artifact_id: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    """What the tool said for programs beside its value: the metadata of its `ToolResult`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OneCall(OperationParams):
    """One call of a session."""

    session_id: str
    call_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancelled:
    """Whether there was anything to cancel."""

    was_running: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SendPrompt(OperationParams):
    """A prompt for the model."""

    session_id: str
    text: str
    waits: StrictBool = True
    """Whether to wait for the approvals that the prompt needs, or to return as `waiting`."""
    when_busy: WhenBusy | None = None
    idempotency_key: Key | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumePrompt(OperationParams):
    """Resume the prompt of a session that waits or was interrupted."""

    session_id: str
    waits: StrictBool = True
    idempotency_key: Key | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptResult:
    """The result of a prompt. While it is `waiting`, it needs the approvals in `pending`."""

    session_id: str
    turn: int
    status: PromptStatus
    text: str = ""
    pending: list[str] = field(default_factory=list[str])
    usage: dict[str, int] = field(default_factory=dict[str, int])
    cost: float | None = None
    """In US dollars, of what has a price; None when nothing has one."""
    unpriced: list[str] = field(default_factory=list[str])
    """What has no known price: the true cost is higher by it."""
    error: str | None = None
    reason: EvaluationReason | None = None
    """Why there is no answer, for programs; `error` is for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListEvents(OperationParams):
    """The recorded events of a session between two sequence numbers, oldest or newest first."""

    session_id: str
    after: Seq = 0
    before: Seq | None = None
    newest_first: bool = False
    limit: Annotated[int, Ge(1), Le(MAX_EVENTS)] = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Events:
    """Recorded events in the order that was asked for. Oldest first, the next request continues
    after `last_seq`; newest first, before `first_seq`. There are no more when there are none: a
    page of large events has fewer than were asked for.
    """

    events: list[dict[str, Any]]
    last_seq: int
    """The highest number on the page; `after` on an empty one."""
    first_seq: int | None = None
    """The lowest number on the page; None on an empty one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OneArtifact(OperationParams):
    """A whole result that was too long for the model, or `limit` characters of it."""

    session_id: str
    artifact_id: str
    offset: Seq = 0
    limit: Annotated[int, Ge(1), Le(MAX_SEQ)] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactPage:
    """A piece of an artifact. `next_offset` is where the next one begins, None on the last."""

    artifact_id: str
    text: str
    media_type: str
    offset: int
    total_chars: int
    next_offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFacts:
    """What answers the prompts of a runtime."""

    is_configured: bool
    provider: str | None = None
    """The name of the adapter's provider."""
    model: str | None = None
    adapter: str | None = None
    """The class of the adapter."""
    hint: str | None = None
    """How to configure one, where there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """The protocol, operations, events and limits of a runtime."""

    name: str
    version: str
    protocol: int
    operations: list[str]
    events: list[str]
    has_model: bool
    agent: AgentFacts
    max_payload_bytes: int
    max_sessions: int
    event_backlog: int

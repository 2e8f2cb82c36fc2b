"""The parameters and results of operations about the tools of a runtime, what the policy would say
about a call of one, and the mounted MCP servers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from annotated_types import Ge, Le
from pydantic import Field, JsonValue, SkipValidation

from toolcrib.approval.decision import GrantScope
from toolcrib.approval.rule import Effect
from toolcrib.mcp_client.server_history import ServerState
from toolcrib.runtime.approval_messages import QuorumFacts
from toolcrib.runtime.messages import OperationParams, Time
from toolcrib.tools.identity import Place

MAX_TOOLS: Final = 1_000
"""How many tools one result may hold."""

ToolText = Annotated[str, Field(min_length=1, max_length=512)]
CatalogOrder = Literal["name", "source", "calls", "failures", "p50", "p95", "last_used", "cost"]
ChangeKind = Literal["added", "removed", "changed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleInForce:
    """What would become of a call: it runs, it waits for approval, or it is refused."""

    effect: Effect
    rule: str
    """The id of the rule that decides, or a reserved id when none does."""
    reason: str
    file: str | None = None
    line: int | None = None
    deadline_seconds: float | None = None
    """How long a call waits for approval; None is without end."""
    approvers: list[QuorumFacts]
    """Who has to approve; empty is one approver, whoever it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolVisibility:
    """Which sessions have a tool."""

    requires: list[str]
    """Only those whose client has these capabilities."""
    is_conditional: bool = False
    """Only those for which a condition of the host holds."""
    is_per_session: bool = False
    """Each session has a handler of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolStatistics:
    """What the calls of a tool came to, of those that the principal may see."""

    calls: int = 0
    failures: int = 0
    """Calls that failed, were denied or are in doubt."""
    p50_seconds: float | None = None
    p95_seconds: float | None = None
    waited_seconds: float = 0.0
    last_used_at: float | None = None
    cost: float | None = None
    """In US dollars; None when nothing has a price."""
    unpriced: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogEntry:
    """A tool of the runtime, as a list shows it."""

    id: str
    """`source/name`, as policies and grants name it."""
    name: str
    source: str
    place: Place
    version: str
    digest: str
    summary: str
    """The first line of its description."""
    category: str | None = None
    is_read_only: bool = False
    is_idempotent: bool = False
    requires_approval: bool = False
    deprecated: str | None = None
    withheld: str | None = None
    """Why no session gets the tool, or nobody can call it now; None when sessions get it."""
    is_callable: bool = True
    """Whether `tools.call` can run it: not what a provider runs, nor what is withheld."""
    rule: RuleInForce
    """What would become of a call by the principal that asks."""
    rule_for_others: RuleInForce
    """What would become of a call by somebody whom no rule names."""
    depends_on: list[Literal["arguments", "principal"]]
    """What the rules about the tool look at besides the tool itself."""
    visibility: ToolVisibility
    statistics: ToolStatistics


@dataclass(frozen=True, slots=True, kw_only=True)
class ListCatalog(OperationParams):
    """A page of the tools of the runtime, in the order of a column."""

    search: Annotated[str, Field(max_length=512)] | None = None
    """A part of the name, the source, the category or the description."""
    source: ToolText | None = None
    place: Place | None = None
    withheld: bool | None = None
    """Only those that are withheld, or only those that are not."""
    since: Time | None = None
    """The statistics are of calls from this time on."""
    until: Time | None = None
    order: CatalogOrder = "name"
    descending: bool = False
    cursor: Annotated[str, Field(max_length=1_024)] | None = None
    limit: Annotated[int, Ge(1), Le(MAX_TOOLS)] = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """Tools of a runtime; `cursor` asks for the next page, None is the end."""

    tools: list[CatalogEntry]
    total: int
    """How many tools pass the filters, on all pages."""
    sources: list[str]
    """The sources of all tools that the principal sees, whatever the filters."""
    of_everybody: bool = False
    """Whether the statistics are of everybody's calls, or only of the principal's sessions."""
    cursor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OneCatalogTool(OperationParams):
    """One tool of the runtime. Without a source, the one of that name that sessions get."""

    name: ToolText
    source: ToolText | None = None
    since: Time | None = None
    until: Time | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleFacts:
    """One use of a tool, as its author wrote it down."""

    description: str
    arguments: Any
    result: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFacts:
    """A rule of the policy and its part in a verdict; `why_not` says why it does not match."""

    rule: str
    effect: Effect
    is_match: bool
    why_not: str | None = None
    file: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogTool:
    """A tool of the runtime with all that is known of it."""

    entry: CatalogEntry
    description: str
    parameters: dict[str, Any]
    """The JSON Schema of its arguments."""
    output_schema: dict[str, Any] | None = None
    examples: list[ExampleFacts]
    timeout: float | None = None
    uses: list[str]
    """The tools that it may call."""
    kind: str | None = None
    """The capability of the provider that the tool is."""
    parts: dict[str, str]
    """What the digest covers, in words."""
    namesakes: list[str]
    """The sources of other tools of that name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainPolicy(OperationParams):
    """A call that might be made. Without arguments, rules about arguments are told from the tool
    alone. Only auditors and admins may name another principal, or groups.
    """

    tool: ToolText
    source: ToolText | None = None
    arguments: dict[str, SkipValidation[JsonValue]] | None = None
    principal: ToolText | None = None
    groups: list[ToolText] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentFault:
    """An argument that does not fit the tool."""

    pointer: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantInForce:
    """A grant that would let the call run unasked."""

    grant_id: str
    scope: GrantScope
    created_by: str
    expires_at: float | None = None
    uses_left: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyExplanation:
    """What would become of a call, and the part of every rule in it. Values of arguments are not
    shown.
    """

    tool: str
    """`source/name`."""
    principal: str
    groups: list[str]
    outcome: Literal["runs", "waits", "refused", "invalid"]
    """`invalid`: the arguments do not fit, so that nobody is asked and nothing runs."""
    verdict: RuleInForce | None = None
    """None when the arguments do not fit."""
    rules: list[RuleFacts]
    grant: GrantInForce | None = None
    faults: list[ArgumentFault]
    notes: list[str]
    """What may still make it otherwise: hooks, the tool's own question, a tool that is withheld."""
    has_policy: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolChangeFacts:
    """What became of one tool of a mounted server."""

    at: float
    name: str
    kind: ChangeKind
    old_digest: str | None = None
    new_digest: str | None = None
    changes: list[str]
    """What is different, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    """A mounted MCP server as it is now. Nothing of it is secret: no header, variable or path."""

    name: str
    source: str
    """The source of its tools."""
    transport: Literal["stdio", "http"]
    target: str
    """The program, or the address without a path."""
    state: ServerState
    since: float
    """When it came into this state."""
    program: str | None = None
    """What the server says it is."""
    connections: int = 0
    """How often it was connected to."""
    restarts: int = 0
    """How often the connection was lost and made again."""
    failed_attempts: int = 0
    """How many attempts have failed since the last connection."""
    last_error: str | None = None
    last_error_at: float | None = None
    next_attempt_at: float | None = None
    latency_seconds: float | None = None
    """How long it took to list its tools, the last time."""
    tools: list[str]
    """The names of the tools that it has here."""
    withheld: dict[str, str]
    """Its tools that are not served, with the reason."""
    changes: list[ToolChangeFacts]
    """What became of its tools since the runtime started, newest first."""
    approval: Literal["always", "policy"] = "always"
    session_id: str | None = None
    """The session whose client brought it; None for a server of the runtime."""
    principal: str | None = None
    """Whose connection it is; None for one that all share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Servers:
    """The mounted MCP servers."""

    servers: list[ServerFacts]

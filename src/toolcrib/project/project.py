"""What a project file says, section by section. A key that the file leaves out is None.

The fields have the names of the keys, and the dataclasses are the sections.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from toolcrib.store.address import StoreAddress
from toolcrib.tools.identity import BindTo

if TYPE_CHECKING:
    from toolcrib.notifications.options import NotificationSource

EngineKind = Literal["postgres", "temporal"]
Names = tuple[str, ...]
Paths = tuple[Path, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSources:
    """`tools`: where the host's own tools come from."""

    modules: Names | None = None
    files: Paths | None = None
    plugins: bool | None = None
    expected: Names | None = None
    bind_to: BindTo | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatEndpoint:
    """`model.chat`: an endpoint that speaks OpenAI's chat completions."""

    url: str
    model: str
    api_key_env: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedModel:
    """`model.embedded`: the embedded provider in this process, with one of its backends."""

    scenario: Path | None = None
    llama: str | bool | None = None
    """True for the default model, or the name of one."""
    chat: ChatEndpoint | None = None
    data: Path | None = None
    files: str | None = None
    """`s3://BUCKET/PREFIX` for uploaded files that every replica reads."""
    allow_network: bool | None = None
    allow_unconfined: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelChoice:
    """`model`: who answers prompts; one of these."""

    adapter: str | None = None
    openai: str | None = None
    pydantic_ai: str | None = None
    chat: ChatEndpoint | None = None
    embedded: EmbeddedModel | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsPaths:
    """`serve.tls`: the certificate chain and its key."""

    cert: Path | None = None
    key: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcLogin:
    """`serve.oidc`: the OpenID issuer whose JWTs are accepted, and the roles of its groups."""

    issuer: str | None = None
    audiences: Names | None = None
    groups_claim: str | None = None
    name_claim: str | None = None
    roles: Mapping[str, str | list[str]] | None = None
    scopes: Names | None = None
    client_id: str | None = None
    client_secret_file: Path | None = None
    sign_in_scopes: Names | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeSection:
    """`serve`: where the server listens, who may use it, and what callers may choose."""

    host: str | None = None
    port: int | None = None
    tokens: Path | None = None
    token_file: Path | None = None
    allow_host: Names | None = None
    allow_origin: Names | None = None
    public_url: str | None = None
    tls: TlsPaths = field(default_factory=TlsPaths)
    trusted_proxy: Names | None = None
    oidc: OidcLogin = field(default_factory=OidcLogin)
    max_connections: int | None = None
    max_connections_per_peer: int | None = None
    allow_egress: Names | None = None
    allow_cwd: Paths | None = None
    allow_env: Names | None = None
    approve_by_elicitation: str | None = None
    reload: bool | None = None
    console: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSection:
    """`replica`: how a server takes part in a store that several share."""

    url: str | None = None
    lease_seconds: float | None = None
    hints: bool | None = None
    process_check: bool | None = None
    key_file: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallBounds:
    """`limits.call`: the bounds of every call."""

    timeout: float | None = None
    max_parallel: int | None = None
    max_threads: int | None = None
    max_depth: int | None = None
    question_seconds: float | None = None
    max_arguments_bytes: int | None = None
    max_result_chars: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptBounds:
    """`limits.prompt`: the budget of every prompt."""

    max_cost: float | None = None
    max_tokens: int | None = None
    max_steps: int | None = None
    max_calls: int | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PrincipalBounds:
    """`limits.principal`: what one principal may take."""

    concurrent_calls: int | None = None
    calls_per_minute: int | None = None
    open_sessions: int | None = None
    payload_bytes_per_day: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitsSection:
    """`limits`: the bounds of calls, of principals and of the runtime."""

    call: CallBounds = field(default_factory=CallBounds)
    prompt: PromptBounds = field(default_factory=PromptBounds)
    principal: PrincipalBounds = field(default_factory=PrincipalBounds)
    idle_seconds: float | None = None
    drain_seconds: float | None = None
    max_sessions: int | None = None
    max_payload_bytes: int | None = None
    event_backlog: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineTls:
    """`engine.tls`: how the connection to Temporal is secured."""

    server_ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None
    server_name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSection:
    """`engine`: what drives turns to their end, on a store that replicas share."""

    kind: EngineKind | None = None
    address: str | None = None
    namespace: str | None = None
    task_queue: str | None = None
    api_key_file: Path | None = None
    tls: EngineTls | None = None
    advance_turns: bool | None = None
    max_turns: int | None = None
    heartbeat_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnchorsSection:
    """`anchors`: where the heads of all ledgers are sent."""

    file: Path | None = None
    url: str | None = None
    every: str | None = None
    signing_key: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionSection:
    """`retention`: how long the store keeps what is over."""

    older_than: str | None = None
    delete: Literal["payloads", "sessions"] | None = None
    every: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSection:
    """`log`: what the server writes about itself on stderr."""

    level: str | None = None
    format: Literal["text", "json"] | None = None
    access: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetrySection:
    """`telemetry`: what the server exports, and the metrics that it serves."""

    otlp: bool | None = None
    metrics: bool | None = None
    metrics_listen: str | None = None
    metrics_by_principal: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSection:
    """`client`: the server that client commands use."""

    url: str | None = None
    token_file: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A valid project file. Every path is absolute."""

    file: Path
    lines: Mapping[str, int] = field(default_factory=dict[str, int], repr=False)
    """The line of each key in the file, by its dotted name."""
    tools: ToolSources = field(default_factory=ToolSources)
    toolsets: Names | None = None
    hosted_tools: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The options of each hosted kind, as in the file: they may hold `${NAME}`."""
    mcp_servers: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)
    """The servers, as in the file of host tools: they may hold secrets."""
    mcp_servers_file: Path | None = None
    hooks: Names | None = None
    policy: Path | None = None
    approver: str | None = None
    approve_own_calls: bool | None = None
    model: ModelChoice = field(default_factory=ModelChoice)
    instructions: str | None = None
    instructions_file: Path | None = None
    store: StoreAddress | None = None
    replica: ReplicaSection = field(default_factory=ReplicaSection)
    serve: ServeSection = field(default_factory=ServeSection)
    client: ClientSection = field(default_factory=ClientSection)
    limits: LimitsSection = field(default_factory=LimitsSection)
    engine: EngineSection = field(default_factory=EngineSection)
    anchors: AnchorsSection = field(default_factory=AnchorsSection)
    telemetry: TelemetrySection = field(default_factory=TelemetrySection)
    log: LogSection = field(default_factory=LogSection)
    notifications: tuple[NotificationSource, ...] = ()
    retention: RetentionSection = field(default_factory=RetentionSection)
    prices: Path | None = None

    @property
    def folder(self) -> Path:
        """The folder of the file, which relative paths start from."""
        return self.file.parent

    def origin(self, key: str) -> str:
        """Where a key is set: the file with the line, or the flag `--set`."""
        line = self.lines.get(key, 0)
        return f"{self.file.name}:{line}" if line else f"flag --set {key}"

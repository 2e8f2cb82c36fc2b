"""One table of settings: the key of `toolcrib.yaml` and the flag that are the same thing.

Commands make their options from this table, and the project file fills in what the command line
leaves out. Keys without a flag of their own are set with `--set KEY=VALUE`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from toolcrib.project.project import EngineKind
from toolcrib.store.address import StoreAddress
from toolcrib.tools.identity import BindTo

if TYPE_CHECKING:
    from toolcrib.project.project import Project

DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 8420

LogLevelChoice = Literal["debug", "info", "warning", "error"]
LogFormatChoice = Literal["text", "json"]
NotificationFormatChoice = Literal["json", "slack", "teams"]


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: the parameter of commands, its flag, its key, its type and its default."""

    name: str
    flag: str
    key: str
    kind: Any
    text: str
    """The help of the flag."""
    default: object = None
    metavar: str | None = None
    least: float | None = None
    most: float | None = None
    variable: str | None = None
    """The variable of the environment that comes before the project file."""

    def in_project(self, project: Project) -> Any:
        """The value in a project file; None when the file leaves it out. A flag for an item of a
        list describes one more item.
        """
        if "[]" in self.key:
            return None
        value: Any = attrgetter(self.key)(project)
        if self.key == "serve.oidc.roles" and value is not None:
            return _role_pairs(value)
        return [*cast("tuple[Any, ...]", value)] if isinstance(value, tuple) else value

    def in_environment(self) -> str | None:
        """The value in the environment; None when it is not set there."""
        return None if self.variable is None else os.environ.get(self.variable) or None


def _role_pairs(roles: Mapping[str, str | list[str]]) -> list[str]:
    """The roles of groups as the flag has them, `GROUP=ROLE`."""
    return [
        f"{group}={role}"
        for group, listed in roles.items()
        for role in ([listed] if isinstance(listed, str) else listed)
    ]


_TEXTS: Final[Any] = list[str] | None
_FILES: Final[Any] = list[Path] | None
_FILE: Final[Any] = Path | None
_TEXT: Final[Any] = str | None
_STORE: Final[Any] = StoreAddress | None
_COUNT: Final[Any] = int | None


def _count(name: str, flag: str, key: str, text: str) -> Setting:
    return Setting(name, flag, key, _COUNT, f"{text} of one principal, at most.", None, "N", 1)


RUNTIME_SETTINGS: Final = (
    Setting(
        "host_tools", "--host-tools", "tools.files", _FILES,
        "Tools in a YAML file, or servers in a JSON file; may be repeated.", metavar="FILE",
    ),
    Setting(
        "host_tools_module", "--host-tools-module", "tools.modules", _TEXTS,
        "Tools in a module; may be repeated.", metavar="MODULE",
    ),
    Setting(
        "plugins", "--plugins/--no-plugins", "tools.plugins", bool,
        "Also load the tools of installed packages.", False,
    ),
    Setting(
        "toolset", "--toolset", "toolsets", _TEXTS,
        "A toolset with its hooks; may be repeated.", metavar="MODULE:NAME",
    ),
    Setting(
        "store", "--store", "store", _STORE,
        "Keep sessions in an SQLite file, or in PostgreSQL for several replicas; else "
        "TOOLCRIB_STORE.",
        metavar="FILE|URL", variable="TOOLCRIB_STORE",
    ),
    Setting(
        "store_key_file", "--store-key-file", "replica.key_file", _FILE,
        "The key of the secrets in the store; else TOOLCRIB_STORE_KEY.", metavar="FILE",
    ),
    Setting(
        "lease_seconds", "--lease-seconds", "replica.lease_seconds", float,
        "Others take up the work of a replica that gave no sign of life for so long.",
        10.0, "SECONDS", 1,
    ),
    Setting("policy", "--policy", "policy", _FILE, "The policy, a YAML file.", metavar="FILE"),
    Setting(
        "expect_tool", "--expect-tool", "tools.expected", _TEXTS,
        "A tool that comes later, such as a client's; the policy may name it. A glob, too.",
        metavar="NAME",
    ),
    Setting(
        "hooks", "--hooks", "hooks", _TEXTS,
        "Hooks around every call; may be repeated.", metavar="MODULE:NAME",
    ),
    Setting(
        "approver_place", "--approver", "approver", _TEXT,
        "Who is asked while a call waits.", metavar="MODULE:NAME",
    ),
    Setting(
        "adapter", "--adapter", "model.adapter", _TEXT,
        "The adapter of the model.", metavar="MODULE:NAME",
    ),
    Setting(
        "instructions", "--instructions", "instructions", str,
        "Instructions for the model.", "", "TEXT",
    ),
    Setting(
        "allow_egress", "--allow-egress", "serve.allow_egress", _TEXTS,
        "An internal host, HOST:PORT or network (10.0.0.0/8) that callers may name as an "
        "address; may be repeated.",
        metavar="HOST|NETWORK",
    ),
    Setting(
        "allow_cwd", "--allow-cwd", "serve.allow_cwd", _FILES,
        "A directory within which callers may choose the cwd of their sessions; may be repeated.",
        metavar="ROOT",
    ),
    Setting(
        "allow_env", "--allow-env", "serve.allow_env", _TEXTS,
        "A variable that callers may set in their sessions; may be repeated.", metavar="NAME",
    ),
    _count("max_calls", "--max-calls", "limits.principal.concurrent_calls", "Calls at once"),
    _count(
        "max_calls_per_minute", "--max-calls-per-minute", "limits.principal.calls_per_minute",
        "Calls in a minute",
    ),
    _count(
        "max_open_sessions", "--max-open-sessions", "limits.principal.open_sessions",
        "Open sessions",
    ),
    _count(
        "max_bytes_per_day", "--max-bytes-per-day", "limits.principal.payload_bytes_per_day",
        "Bytes of requests in a day",
    ),
    Setting(
        "idle_seconds", "--idle-seconds", "limits.idle_seconds", float | None,
        "Let go of a session that nobody has used for so long; it comes back when needed.",
        None, "SECONDS", 1,
    ),
    Setting(
        "engine", "--engine", "engine.kind", EngineKind,
        "What drives turns on a PostgreSQL store: PostgreSQL itself, or a Temporal server.",
        "postgres",
    ),
    Setting(
        "engine_address", "--engine-address", "engine.address", str,
        "Where the Temporal server is.", "127.0.0.1:7233", "HOST:PORT",
    ),
    Setting(
        "engine_namespace", "--engine-namespace", "engine.namespace", str,
        "The namespace at the Temporal server.", "default", "NAME",
    ),
    Setting(
        "engine_queue", "--engine-queue", "engine.task_queue", str,
        "The task queue that the replicas of one store share.", "toolcrib", "NAME",
    ),
    Setting(
        "advance_turns", "--advance-turns/--no-advance-turns", "engine.advance_turns", bool,
        "Advance turns in this process; without it only `toolcrib worker` does.", True,
    ),
    Setting(
        "max_turns", "--max-turns", "engine.max_turns", int,
        "Turns that this process advances at once.", 16, "N", 1,
    ),
    Setting(
        "anchor_file", "--anchor-file", "anchors.file", _FILE,
        "Append the heads of all ledgers to this file, on another disk or machine.",
        metavar="FILE",
    ),
    Setting(
        "anchor_url", "--anchor-url", "anchors.url", _TEXT,
        "POST the heads of all ledgers there.", metavar="URL",
    ),
    Setting(
        "anchor_every", "--anchor-every", "anchors.every", str,
        "How often heads are sent.", "60s", "DURATION",
    ),
    Setting(
        "signing_key", "--signing-key", "anchors.signing_key", _FILE,
        "The Ed25519 key that signs the heads; `toolcrib audit keygen` makes one.",
        metavar="FILE",
    ),
    Setting(
        "reload", "--reload/--no-reload", "serve.reload", bool,
        "Let changes of the files take effect while it runs.", False,
    ),
    Setting(
        "bind_to", "--bind-to", "tools.bind_to", BindTo,
        "What approvals and grants are bound to besides a tool's declaration and options: its "
        "code, or its version when other code always gets another version.",
        "code",
    ),
    Setting(
        "approve_own_calls", "--approve-own-calls", "approve_own_calls", bool,
        "Let approvers approve calls that they asked for.", False,
    ),
    Setting(
        "log_level", "--log-level", "log.level", LogLevelChoice | None,
        "The least severe lines that are logged: info over HTTP, else warning.",
    ),
    Setting(
        "log_format", "--log-format", "log.format", LogFormatChoice,
        "Lines for people, or a JSON object on each line.", "text",
    ),
    Setting(
        "access_log", "--access-log/--no-access-log", "log.access", bool,
        "Log every request.", True,
    ),
    Setting(
        "otlp", "--otlp/--no-otlp", "telemetry.otlp", bool,
        "Export spans and metrics as the OTEL_* variables say.", True,
    ),
    Setting(
        "metrics", "--metrics/--no-metrics", "telemetry.metrics", bool,
        "Serve /metrics for Prometheus to auditors.", False,
    ),
    Setting(
        "metrics_listen", "--metrics-listen", "telemetry.metrics_listen", _TEXT,
        "Serve /metrics there too; on loopback without a token.", metavar="ADDRESS:PORT",
    ),
    Setting(
        "metrics_by_principal", "--metrics-by-principal/--no-metrics-by-principal",
        "telemetry.metrics_by_principal", bool,
        "Say in the metrics of calls who asked.", False,
    ),
    Setting(
        "notify_url", "--notify-url", "notifications[].url", _TEXT,
        "Tell this webhook of calls that wait, expire or fail.", metavar="URL",
    ),
    Setting(
        "notify_url_file", "--notify-url-file", "notifications[].url_file", _FILE,
        "The webhook's address in a file, if it is a secret.", metavar="FILE",
    ),
    Setting(
        "notify_secret_file", "--notify-secret-file", "notifications[].secret_file", _FILE,
        "The key that signs notifications, in base64.", metavar="FILE",
    ),
    Setting(
        "notify_event", "--notify-event", "notifications[].events", _TEXTS,
        "waiting, expiring or failed: tell only of these; may be repeated.", metavar="EVENT",
    ),
    Setting(
        "notify_format", "--notify-format", "notifications[].format", NotificationFormatChoice,
        "The form of the body.", "json",
    ),
    Setting(
        "notify_link", "--notify-link", "notifications[].link", _TEXT,
        "Where a person decides, with {approval_id} in it.", metavar="URL",
    ),
)  # fmt: skip
"""The settings of a runtime."""

ACCESS_SETTINGS: Final = (
    Setting(
        "host", "--host", "serve.host", str,
        "The address to listen on.", DEFAULT_HOST, "ADDRESS",
    ),
    Setting(
        "port", "--port", "serve.port", int,
        "The port; 0 takes any free one.", DEFAULT_PORT, least=0, most=65535,
    ),
    Setting(
        "replica_url", "--replica-url", "replica.url", _TEXT,
        "Where other replicas reach this one; else TOOLCRIB_REPLICA_URL, else where it listens.",
        metavar="URL", variable="TOOLCRIB_REPLICA_URL",
    ),
    Setting(
        "token_file", "--token-file", "serve.token_file", _FILE,
        "The owner's token; on loopback created if missing.", metavar="FILE",
    ),
    Setting(
        "tokens", "--tokens", "serve.tokens", _FILE,
        "Everybody else's tokens, of `toolcrib tokens`.", metavar="FILE",
    ),
    Setting(
        "allow_host", "--allow-host", "serve.allow_host", _TEXTS,
        "A Host header to accept; may be repeated.", metavar="NAME",
    ),
    Setting(
        "allow_origin", "--allow-origin", "serve.allow_origin", _TEXTS,
        "Pages to accept; may be repeated.", metavar="ORIGIN",
    ),
    Setting(
        "public_url", "--public-url", "serve.public_url", _TEXT,
        "Where clients reach the server; for sign-in.", metavar="URL",
    ),
    Setting(
        "tls_cert", "--tls-cert", "serve.tls.cert", _FILE,
        "Serve over TLS: the certificate chain.", metavar="FILE",
    ),
    Setting(
        "tls_key", "--tls-key", "serve.tls.key", _FILE,
        "The certificate's private key.", metavar="FILE",
    ),
    Setting(
        "trusted_proxy", "--trusted-proxy", "serve.trusted_proxy", _TEXTS,
        "Believe X-Forwarded-For, -Proto and -Host from there; may be repeated.", metavar="CIDR",
    ),
    Setting(
        "oidc_issuer", "--oidc-issuer", "serve.oidc.issuer", _TEXT,
        "Accept JWTs of this OpenID issuer.", metavar="URL",
    ),
    Setting(
        "oidc_audience", "--oidc-audience", "serve.oidc.audiences", _TEXTS,
        "The audience of JWTs for this server, besides its public URL.", metavar="NAME",
    ),
    Setting(
        "oidc_groups_claim", "--oidc-groups-claim", "serve.oidc.groups_claim", str,
        "The claim with the groups.", "groups", "CLAIM",
    ),
    Setting(
        "oidc_name_claim", "--oidc-name-claim", "serve.oidc.name_claim", str,
        "The claim with the name.", "sub", "CLAIM",
    ),
    Setting(
        "oidc_role", "--oidc-role", "serve.oidc.roles", _TEXTS,
        "The role of a group; '*=ROLE' is everybody's. May be repeated.", metavar="GROUP=ROLE",
    ),
    Setting(
        "oidc_scope", "--oidc-scope", "serve.oidc.scopes", _TEXTS,
        "A scope that JWTs must have.", metavar="SCOPE",
    ),
    Setting(
        "oidc_client_id", "--oidc-client-id", "serve.oidc.client_id", _TEXT,
        "What the issuer calls this server: people sign in there with their browsers.",
        metavar="ID",
    ),
    Setting(
        "oidc_client_secret_file", "--oidc-client-secret-file", "serve.oidc.client_secret_file",
        _FILE, "Its secret there, if it has one; else TOOLCRIB_OIDC_CLIENT_SECRET.",
        metavar="FILE",
    ),
    Setting(
        "oidc_sign_in_scope", "--oidc-sign-in-scope", "serve.oidc.sign_in_scopes", _TEXTS,
        "A scope that a browser's sign-in asks for, besides openid.", metavar="SCOPE",
    ),
    Setting(
        "console", "--console/--no-console", "serve.console", bool,
        "Serve the console, a page for browsers, at /.", True,
    ),
    Setting(
        "max_connections", "--max-connections", "serve.max_connections", _COUNT,
        "Open connections; by default what the limit on open files leaves.", metavar="NUMBER",
    ),
    Setting(
        "max_connections_per_peer", "--max-connections-per-peer", "serve.max_connections_per_peer",
        int, "Open connections from one address that is not this machine or a proxy.", 512,
        "NUMBER",
    ),
)  # fmt: skip
"""The settings of a server: where it listens, and who may use it."""

ELICITATION_SETTING: Final = Setting(
    "approve_by_elicitation",
    "--approve-by-elicitation",
    "serve.approve_by_elicitation",
    Literal["role", "always", "never"],
    "Whose answer to a form at an MCP client decides a call that needs approval; "
    "'always' trusts the client to ask a person.",
    "role",
)

CLIENT_SETTINGS: Final = (
    Setting(
        "url", "--url", "client.url", _TEXT,
        "Use the server at URL; else TOOLCRIB_URL.", metavar="URL",
    ),
    Setting(
        "token_file", "--token-file", "client.token_file", _FILE,
        "The token for --url; else TOOLCRIB_TOKEN.", metavar="FILE",
    ),
)  # fmt: skip
"""The settings of a command that uses a server."""

SETTINGS: Final = (*RUNTIME_SETTINGS, *ACCESS_SETTINGS, ELICITATION_SETTING, *CLIENT_SETTINGS)
"""All settings that have a flag of their own."""

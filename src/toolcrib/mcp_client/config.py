"""The configuration of a mounted MCP server: how to reach it, on what terms, with what timing.

`endpoint_of` fills in the variables and collects the secrets of a configuration.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, assert_never

from toolcrib.egress import EgressPolicy
from toolcrib.errors import InvalidTool
from toolcrib.mcp_client.request_terms import DEFAULT_TERMS, RequestTerms
from toolcrib.mcp_client.server_auth import (
    PRINCIPAL,
    HeadersCommand,
    OAuthConfig,
    for_principal,
    headers_command_from,
    oauth_from,
)
from toolcrib.tools.identity import HandlerIdentity
from toolcrib.tools.mcp.credentials import SHORTEST_SECRET, check_headers, check_url, secrets_in
from toolcrib.tools.redaction import Scrubber

if TYPE_CHECKING:
    import httpx2

Approval = Literal["always", "policy"]
"""Whether a person approves every call of a server's tools, or the policy decides."""

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]+")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class MountTerms:
    """Which of a server's tools are served, under which names, and who approves their calls."""

    prefix: str
    """The prefix of each tool's own name."""
    allowed_tools: tuple[str, ...] | None = None
    """By the server's own names; None allows all."""
    denied_tools: tuple[str, ...] = ()
    approval: Approval = "always"
    timeout: float = 120.0
    """Seconds until a call is stopped."""
    max_output_chars: int = 1_000_000
    """The maximum size of a result."""
    requests: RequestTerms = DEFAULT_TERMS
    """What the server may ask of clients."""

    def serves(self, name: str) -> bool:
        """Whether a tool of the server, by its own name, is served."""
        is_allowed = self.allowed_tools is None or name in self.allowed_tools
        return is_allowed and name not in self.denied_tools


@dataclass(frozen=True, slots=True, kw_only=True)
class StdioServerConfig:
    """A server that is started as a program. `env` may hold secrets and is not in the repr."""

    name: str
    terms: MountTerms
    command: str
    args: tuple[str, ...] = field(default=(), repr=False)
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False, hash=False)
    cwd: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "env", MappingProxyType(dict(self.env)))

    def filled_env(self, environ: Mapping[str, str]) -> dict[str, str]:
        """The environment, with `${NAME}` filled in. Raises `InvalidTool` for a missing one."""
        return {key: fill(self.name, value, environ) for key, value in self.env.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpServerConfig:
    """A server at an address. Both fields may hold secrets and are not in the repr."""

    name: str
    terms: MountTerms
    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False, hash=False)
    auth: OAuthConfig | None = None
    headers_command: HeadersCommand | None = None
    """What prints more headers, for one principal."""

    def __post_init__(self) -> None:
        check_url("url", self.url)
        object.__setattr__(self, "headers", check_headers("headers", self.headers))
        if self.auth is not None and (
            self.headers_command is not None
            or any(name.lower() == "authorization" for name in self.headers)
        ):
            raise InvalidTool(
                f"MCP server {self.name!r} has auth and other credentials; use one of them"
            )

    @property
    def is_per_principal(self) -> bool:
        """Whether each principal has a connection of its own."""
        if self.auth is not None:
            return self.auth.is_per_principal
        in_headers = any(PRINCIPAL in value for value in self.headers.values())
        return in_headers or self.headers_command is not None

    def filled_url(self, environ: Mapping[str, str]) -> str:
        """The address, with `${NAME}` filled in. Raises `InvalidTool` for a missing one."""
        filled = fill(self.name, self.url, environ)
        check_url("url", filled)
        return filled

    def filled_headers(self, environ: Mapping[str, str]) -> Mapping[str, str]:
        """The headers, with `${NAME}` filled in. Raises `InvalidTool` for a missing one."""
        filled = {key: fill(self.name, value, environ) for key, value in self.headers.items()}
        return check_headers("headers", filled)

    def filled_auth(self, environ: Mapping[str, str]) -> OAuthConfig | None:
        """OAuth, with `${NAME}` filled in. Raises `InvalidTool` for a missing one."""
        auth = self.auth
        if auth is None:
            return None
        texts = {name: getattr(auth, name) for name in _FILLED_OF_AUTH}
        return replace(
            auth,
            **{
                name: fill(self.name, text, environ)
                for name, text in texts.items()
                if text is not None
            },
        )


_FILLED_OF_AUTH: Final = ("client_id", "client_secret", "private_key")

McpServerConfig: TypeAlias = StdioServerConfig | HttpServerConfig


def server_from(name: str, entry: Mapping[str, Any]) -> McpServerConfig:
    """A server from its entry in a file that matches the schema. Raises `InvalidTool`."""
    allowed = entry.get("allowed_tools")
    options = ("approval", "timeout", "max_output_chars")
    terms = MountTerms(
        prefix=entry.get("prefix", f"{name}_"),
        allowed_tools=None if allowed is None else tuple(allowed),
        denied_tools=tuple(entry.get("denied_tools", ())),
        requests=_request_terms(entry),
        **{option: entry[option] for option in options if option in entry},
    )
    if "url" in entry:
        return HttpServerConfig(
            name=name,
            terms=terms,
            url=entry["url"],
            headers=entry.get("headers", {}),
            auth=oauth_from(entry["auth"]) if "auth" in entry else None,
            headers_command=headers_command_from(entry),
        )
    return StdioServerConfig(
        name=name,
        terms=terms,
        command=entry["command"],
        args=tuple(entry.get("args", ())),
        env=entry.get("env", {}),
        cwd=entry.get("cwd"),
    )


def _request_terms(entry: Mapping[str, Any]) -> RequestTerms:
    default = DEFAULT_TERMS
    return RequestTerms(
        sampling=entry.get("sampling", default.sampling),
        elicitation=entry.get("elicitation", default.elicitation),
        shares_roots=entry.get("share_roots", default.shares_roots),
        roots=tuple(entry.get("roots", ())),
    )


def client_server(
    name: str,
    *,
    command: str | None = None,
    args: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    url: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> McpServerConfig:
    """A server that a client brings to its session, by `command` or by `url`. A person approves
    every call of its tools. Raises `InvalidTool`.
    """
    if (command is None) == (url is None):
        raise InvalidTool(f"MCP server {name[:80]!r} needs either a command or a url")
    safe_name = _NOT_IN_NAMES.sub("_", name)[:64] or "server"
    terms = MountTerms(prefix=f"{safe_name}_")
    if url is not None:
        return HttpServerConfig(name=safe_name, terms=terms, url=url, headers=headers or {})
    assert command is not None
    return StdioServerConfig(
        name=safe_name, terms=terms, command=command, args=tuple(args), env=env or {}, cwd=cwd
    )


def client_source(server: McpServerConfig) -> str:
    """The source of the tools of a server that a client brings. It has a hash of the command or the
    address, so that a grant for one server's tools does not cover another of the same name.
    """
    match server:
        case StdioServerConfig():
            identity = [server.command, *server.args, server.cwd]
        case HttpServerConfig():
            identity = [server.url]
        case _:
            assert_never(server)
    digest = hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:12]
    return f"client-mcp:{_NOT_IN_NAMES.sub('_', server.name)[:64]}@{digest}"


def variables_in(text: str) -> list[str]:
    """The names of the variables in a text."""
    return _VARIABLE.findall(text)


def fill(server: str, text: str, environ: Mapping[str, str]) -> str:
    """`text` with every `${NAME}` filled in from `environ`."""

    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name not in environ:
            raise InvalidTool(
                f"MCP server {server!r} needs the environment variable {name}; set it"
            )
        return environ[name]

    return _VARIABLE.sub(value, text)


_INHERITED: Final = (
    "HOME",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
)
"""The variables that a program inherits from our environment. Keys and tokens have other names."""

_CREDENTIAL: Final = re.compile("auth|cookie|cred|key|pass|secret|token", re.IGNORECASE)
_MAX_LINE_LENGTH: Final = 500


@dataclass(frozen=True, slots=True)
class ServerProgram:
    """A program to start, with its whole environment."""

    command: str
    args: tuple[str, ...] = field(repr=False)
    env: Mapping[str, str] = field(repr=False)
    cwd: str | None
    scrubber: Scrubber = field(repr=False)
    """Removes these secrets from everything that the server sends."""


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """An address to connect to, with the headers of every request."""

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    scrubber: Scrubber = field(repr=False)
    egress: EgressPolicy | None = None
    """Where it may lead to, if a caller chose it; None for an address of the host's own choice."""
    auth: httpx2.Auth | None = field(default=None, repr=False)
    """What adds a credential to each request."""


ServerEndpoint: TypeAlias = ServerProgram | ServerAddress


def endpoint_of(
    config: McpServerConfig,
    environ: Mapping[str, str] | None,
    egress: EgressPolicy | None = None,
    principal: str | None = None,
) -> ServerEndpoint:
    """How to reach a server. Without `environ` no variable is filled in: a client's configuration
    must not read our environment. `egress` bounds the address of a server that a caller chose;
    `principal` is whose headers are sent. Raises `InvalidTool` for a missing variable.
    """
    match config:
        case StdioServerConfig():
            own = dict(config.env) if environ is None else config.filled_env(environ)
            secrets = [*_credentials(own), *_filled_in(config.env.values(), environ)]
            inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
            env = {**inherited, **own}
            scrubber = Scrubber([*secrets_in("", *secrets)])
            return ServerProgram(config.command, config.args, env, config.cwd, scrubber)
        case HttpServerConfig():
            if principal is not None and environ is not None:
                own = {
                    key: for_principal(value, principal) for key, value in config.headers.items()
                }
                config = replace(config, headers=own)
            url = config.url if environ is None else config.filled_url(environ)
            headers = config.headers if environ is None else config.filled_headers(environ)
            if environ is not None:
                config.filled_auth(environ)
            texts = (config.url, *config.headers.values())
            secrets = [*_credentials(headers), *_filled_in(texts, environ)]
            return ServerAddress(url, headers, Scrubber([*secrets_in(url, *secrets)]), egress)


def server_identity(
    config: McpServerConfig, environ: Mapping[str, str] | None, program: str | None
) -> HandlerIdentity:
    """What decisions about calls of a server's tools are bound to: how the server is reached, with
    every variable filled in, and what it says it is.
    """
    match config:
        case StdioServerConfig() if environ is not None:
            config = replace(config, env=config.filled_env(environ))
        case HttpServerConfig() if environ is not None:
            headers = config.filled_headers(environ)
            config = replace(config, url=config.filled_url(environ), headers=headers)
        case _:
            pass
    return HandlerIdentity({"server": config, "server_program": program})


def _credentials(values: Mapping[str, str]) -> Iterator[str]:
    """The values whose names say that they are secret."""
    for name, value in values.items():
        if _CREDENTIAL.search(name) and len(value) >= SHORTEST_SECRET:
            yield value


def _filled_in(texts: Iterable[str], environ: Mapping[str, str] | None) -> Iterator[str]:
    """The values of the variables in the texts. A path is no secret: a file server must be able to
    name its files.
    """
    for name in (name for text in texts for name in variables_in(text)):
        value = (environ or {}).get(name, "")
        is_path = value.startswith(("/", "."))
        if name not in _INHERITED and not is_path and len(value) >= SHORTEST_SECRET:
            yield value


def printable_line(text: str, scrubber: Scrubber | None = None) -> str:
    """One short line for display: no secrets, no characters that cannot be printed."""
    clean: str = text if scrubber is None else scrubber.scrub(text)
    line = " ".join(clean.split())
    printable = "".join(letter if letter.isprintable() else "?" for letter in line)
    if len(printable) <= _MAX_LINE_LENGTH:
        return printable
    return printable[: _MAX_LINE_LENGTH - 3] + "..."


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionTiming:
    """When to reconnect to a server, and how long to wait for it. All in seconds."""

    first_pause: float = 0.5
    """Before the first new attempt; each pause after it is twice as long."""
    max_pause: float = 30.0
    timeout: float = 30.0
    """How long connecting, and listing tools, may take."""
    stable_after: float = 60.0
    """A connection that lasted this long resets the count of failures."""
    relist: float = 0.2
    """The minimum time between two listings of a server's tools."""

    def pause(self, failures: int) -> float:
        """How long to wait after this number of failures in a row."""
        return min(self.first_pause * 2 ** min(max(failures - 1, 0), 30), self.max_pause)

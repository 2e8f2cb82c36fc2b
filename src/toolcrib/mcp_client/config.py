"""Other MCP servers whose tools the host serves too: how to reach them, and on what terms.

How a server is reached, with every variable filled in, and what of that is secret.

How patient a gateway is with its servers, and how soon it tries again.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, assert_never

from toolcrib.errors import InvalidTool
from toolcrib.tools.mcp.credentials import SHORTEST_SECRET, check_headers, check_url, secrets_in
from toolcrib.tools.redaction import Scrubber

Approval = Literal["always", "policy"]
"""Whether a person approves every call of a server's tools, or the policy decides."""

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]+")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class MountTerms:
    """Which of a server's tools are served, under which names, and who approves their calls."""

    prefix: str
    """What comes before each tool's own name."""
    allowed_tools: tuple[str, ...] | None = None
    """By the server's own names; None allows all."""
    denied_tools: tuple[str, ...] = ()
    approval: Approval = "always"
    timeout: float = 120.0
    """Seconds until a call is stopped."""
    max_output_chars: int = 1_000_000
    """How much of an answer is taken."""

    def serves(self, name: str) -> bool:
        """Whether a tool of the server, by its own name, is served."""
        is_allowed = self.allowed_tools is None or name in self.allowed_tools
        return is_allowed and name not in self.denied_tools


@dataclass(frozen=True, slots=True, kw_only=True)
class StdioServer:
    """A server that is started as a program. `env` may hold secrets and is not shown."""

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
class HttpServer:
    """A server at an address. Address and headers may hold secrets and are not shown."""

    name: str
    terms: MountTerms
    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False, hash=False)

    def __post_init__(self) -> None:
        check_url("url", self.url)
        object.__setattr__(self, "headers", check_headers("headers", self.headers))

    def filled_url(self, environ: Mapping[str, str]) -> str:
        """The address, with `${NAME}` filled in. Raises `InvalidTool` for a missing one."""
        filled = fill(self.name, self.url, environ)
        check_url("url", filled)
        return filled

    def filled_headers(self, environ: Mapping[str, str]) -> Mapping[str, str]:
        """The headers, with `${NAME}` filled in. Raises `InvalidTool` for a missing one."""
        filled = {key: fill(self.name, value, environ) for key, value in self.headers.items()}
        return check_headers("headers", filled)


McpServerConfig: TypeAlias = StdioServer | HttpServer


def server_from(name: str, facts: Mapping[str, Any]) -> McpServerConfig:
    """A server as a file writes it, whose form was checked. Raises `InvalidTool`."""
    allowed = facts.get("allowed_tools")
    plain = {key: facts[key] for key in ("approval", "timeout", "max_output_chars") if key in facts}
    terms = MountTerms(
        prefix=facts.get("prefix", f"{name}_"),
        allowed_tools=None if allowed is None else tuple(allowed),
        denied_tools=tuple(facts.get("denied_tools", ())),
        **plain,
    )
    if "url" in facts:
        headers = facts.get("headers", {})
        return HttpServer(name=name, terms=terms, url=facts["url"], headers=headers)
    return StdioServer(
        name=name,
        terms=terms,
        command=facts["command"],
        args=tuple(facts.get("args", ())),
        env=facts.get("env", {}),
        cwd=facts.get("cwd"),
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
        raise InvalidTool(f"MCP server {name[:80]!r} needs a command or a url, and not both")
    known_as = _NOT_IN_NAMES.sub("_", name)[:64] or "server"
    terms = MountTerms(prefix=f"{known_as}_")
    if url is not None:
        return HttpServer(name=known_as, terms=terms, url=url, headers=headers or {})
    assert command is not None
    return StdioServer(
        name=known_as, terms=terms, command=command, args=tuple(args), env=env or {}, cwd=cwd
    )


def client_source(server: McpServerConfig) -> str:
    """The source of the tools of a server that a client brings. It names what is run or asked, so
    that a grant for one server's tools does not cover another that goes by its name.
    """
    match server:
        case StdioServer():
            place = [server.command, *server.args, server.cwd]
        case HttpServer():
            place = [server.url]
        case _:
            assert_never(server)
    print_of = hashlib.sha256(json.dumps(place).encode()).hexdigest()[:12]
    return f"client-mcp:{_NOT_IN_NAMES.sub('_', server.name)[:64]}@{print_of}"


def variables_in(text: str) -> list[str]:
    """The names of the variables that a text wants filled in."""
    return _VARIABLE.findall(text)


def fill(server: str, text: str, environ: Mapping[str, str]) -> str:
    """`text` with every `${NAME}` filled in from `environ`."""

    def value(found: re.Match[str]) -> str:
        name = found[1]
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
"""What a program gets of our own environment. Keys and tokens have other names."""

_CREDENTIAL: Final = re.compile("auth|cookie|cred|key|pass|secret|token", re.IGNORECASE)
_LONGEST_REASON: Final = 500


@dataclass(frozen=True, slots=True)
class ServerProgram:
    """A program to start, with its whole environment."""

    command: str
    args: tuple[str, ...] = field(repr=False)
    env: Mapping[str, str] = field(repr=False)
    cwd: str | None
    hidden: Scrubber = field(repr=False)
    """Takes what is secret of this out of whatever the server says."""


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """An address to ask, with the headers of every request."""

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    hidden: Scrubber = field(repr=False)


ServerEndpoint: TypeAlias = ServerProgram | ServerAddress


def endpoint_of(config: McpServerConfig, environ: Mapping[str, str] | None) -> ServerEndpoint:
    """Where a server is. Without `environ` nothing is filled in: what a client writes must not
    name our variables. Raises `InvalidTool` for a variable that is missing.
    """
    match config:
        case StdioServer():
            given = dict(config.env) if environ is None else config.filled_env(environ)
            secrets = [*_credentials(given), *_filled_in(config.env.values(), environ)]
            inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
            env = {**inherited, **given}
            hidden = Scrubber([*secrets_in("", *secrets)])
            return ServerProgram(config.command, config.args, env, config.cwd, hidden)
        case HttpServer():
            url = config.url if environ is None else config.filled_url(environ)
            headers = config.headers if environ is None else config.filled_headers(environ)
            written = (config.url, *config.headers.values())
            secrets = [*_credentials(headers), *_filled_in(written, environ)]
            return ServerAddress(url, headers, Scrubber([*secrets_in(url, *secrets)]))


def _credentials(given: Mapping[str, str]) -> Iterator[str]:
    """Values that their names call secret."""
    for name, value in given.items():
        if _CREDENTIAL.search(name) and len(value) >= SHORTEST_SECRET:
            yield value


def _filled_in(written: Iterable[str], environ: Mapping[str, str] | None) -> Iterator[str]:
    """What variables have brought. A path is none: a server of files could not name its files."""
    for name in (name for text in written for name in variables_in(text)):
        value = (environ or {}).get(name, "")
        is_path = value.startswith(("/", "."))
        if name not in _INHERITED and not is_path and len(value) >= SHORTEST_SECRET:
            yield value


def printable_line(text: str, hidden: Scrubber | None = None) -> str:
    """One short line that can be shown to anybody: no secrets, nothing that cannot be printed."""
    clean: str = text if hidden is None else hidden.scrub(text)
    line = " ".join(clean.split())
    shown = "".join(letter if letter.isprintable() else "?" for letter in line)
    return shown if len(shown) <= _LONGEST_REASON else shown[: _LONGEST_REASON - 3] + "..."


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionTiming:
    """All in seconds."""

    first: float = 0.5
    """Before the first new attempt; each pause after it is twice as long."""
    most: float = 30.0
    patience: float = 30.0
    """How long connecting, and listing tools, may take."""
    steady: float = 60.0
    """A connection that lasted so long was a good one: its end is the first failure again."""
    relist: float = 0.2
    """The least time between two looks at a server's tools, however often it says they changed."""

    def pause(self, failures: int) -> float:
        """How long to wait after so many failures in a row."""
        return min(self.first * 2 ** min(max(failures - 1, 0), 30), self.most)

"""Other MCP servers whose tools the host serves too: how to reach them, and on what terms."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, assert_never

from toolcrib.errors import InvalidTool
from toolcrib.tools.mcp.credentials import check_headers, check_url

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

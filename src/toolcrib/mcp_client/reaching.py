"""How a server is reached, with every variable filled in, and what of that is secret."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from toolcrib.host_tools.mcp_servers import HttpServer, McpServerConfig, StdioServer
from toolcrib.tools.mcp.credentials import SHORTEST_SECRET, secrets_in
from toolcrib.tools.redaction import Scrubber

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

_LONGEST_REASON: Final = 500


@dataclass(frozen=True, slots=True)
class Program:
    """A program to start, with its whole environment."""

    command: str
    args: tuple[str, ...] = field(repr=False)
    env: Mapping[str, str] = field(repr=False)
    cwd: str | None
    hidden: Scrubber = field(repr=False)
    """Takes what is secret of this out of whatever the server says."""


@dataclass(frozen=True, slots=True)
class Address:
    """An address to ask, with the headers of every request."""

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    hidden: Scrubber = field(repr=False)


Reach: TypeAlias = Program | Address


def reach_of(config: McpServerConfig, environ: Mapping[str, str] | None) -> Reach:
    """Where a server is. Without `environ` nothing is filled in: what a client writes must not
    name our variables. Raises `InvalidTool` for a variable that is missing.
    """
    match config:
        case StdioServer():
            given = dict(config.env) if environ is None else config.filled_env(environ)
            return _program(config, given)
        case HttpServer():
            url = config.url if environ is None else config.filled_url(environ)
            headers = config.headers if environ is None else config.filled_headers(environ)
            return Address(url, headers, Scrubber([*secrets_in(url, *headers.values())]))


def _program(config: StdioServer, given: dict[str, str]) -> Program:
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    # Short values are words like `1` or `debug`: hiding them would garble every message.
    hidden = [value for value in given.values() if len(value) >= SHORTEST_SECRET]
    return Program(
        command=config.command,
        args=config.args,
        env={**inherited, **given},
        cwd=config.cwd,
        hidden=Scrubber([*secrets_in("", *hidden)]),
    )


def presentable(text: str, hidden: Scrubber | None = None) -> str:
    """One short line that can be shown to anybody: no secrets, nothing that cannot be printed."""
    clean: str = text if hidden is None else hidden.scrub(text)
    line = " ".join(clean.split())
    shown = "".join(letter if letter.isprintable() else "?" for letter in line)
    return shown if len(shown) <= _LONGEST_REASON else shown[: _LONGEST_REASON - 3] + "..."

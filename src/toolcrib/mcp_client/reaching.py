"""How a server is reached, with every variable filled in, and what of that is secret."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from toolcrib.host_tools.mcp_servers import (
    HttpServer,
    McpServerConfig,
    StdioServer,
    variables_in,
)
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

_CREDENTIAL: Final = re.compile("auth|cookie|cred|key|pass|secret|token", re.IGNORECASE)
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
            secrets = [*_credentials(given), *_filled_in(config.env.values(), environ)]
            inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
            env = {**inherited, **given}
            hidden = Scrubber([*secrets_in("", *secrets)])
            return Program(config.command, config.args, env, config.cwd, hidden)
        case HttpServer():
            url = config.url if environ is None else config.filled_url(environ)
            headers = config.headers if environ is None else config.filled_headers(environ)
            written = (config.url, *config.headers.values())
            secrets = [*_credentials(headers), *_filled_in(written, environ)]
            return Address(url, headers, Scrubber([*secrets_in(url, *secrets)]))


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


def presentable(text: str, hidden: Scrubber | None = None) -> str:
    """One short line that can be shown to anybody: no secrets, nothing that cannot be printed."""
    clean: str = text if hidden is None else hidden.scrub(text)
    line = " ".join(clean.split())
    shown = "".join(letter if letter.isprintable() else "?" for letter in line)
    return shown if len(shown) <= _LONGEST_REASON else shown[: _LONGEST_REASON - 3] + "..."

"""How an MCP server presents itself, and what it takes for a decision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from toolcrib._version import __version__
from toolcrib.errors import UsageError

ElicitedApproval = Literal["role", "always", "never"]
"""Whose answer to a form at the client decides a call: that of a client whose principal has the
role `approver`, that of every client, or nobody's.

A form is answered by the person at the client only if the client shows it to one. A program can
answer it by itself, and so approve its own calls: `always` trusts every client not to.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class McpOptions:
    """What a server may be told; all of it has a default."""

    name: str = "toolcrib"
    version: str = __version__
    title: str | None = None
    instructions: str | None = None
    approve_by_elicitation: ElicitedApproval = "role"
    session: str | None = None
    """The session that every call runs in: all clients share it. Without it each connection has its
    own, and the stateless protocol one for each principal."""
    list_ttl_ms: int = 60_000
    """For how long a client of the stateless protocol may keep a list of tools."""
    request_state_keys: tuple[str, ...] = ()
    """Secrets of 32 or more characters that seal what a client carries between two requests; the
    first one seals. Without them it is sealed for this process alone."""
    task_after_seconds: float = 1.0
    """When a call that still runs becomes a task, for clients that have declared the extension."""
    task_ttl_seconds: float | None = None
    """For how long a client may ask about a task, from its beginning; None: as long as the ledger
    keeps its call."""
    idle_seconds: float = 1_800.0
    """When a session of Streamable HTTP that nobody uses is closed."""

    def __post_init__(self) -> None:
        if self.approve_by_elicitation not in ("role", "always", "never"):
            raise UsageError("approve_by_elicitation is 'role', 'always' or 'never'")
        if self.list_ttl_ms < 0 or self.idle_seconds <= 0:
            raise UsageError("list_ttl_ms must not be negative, and idle_seconds be more than 0")
        if self.task_after_seconds < 0 or (self.task_ttl_seconds or 1.0) <= 0:
            raise UsageError(
                "task_after_seconds must not be negative, and task_ttl_seconds be more than 0"
            )

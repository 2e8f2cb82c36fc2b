"""What a runtime is made of."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from toolcrib.errors import UsageError

if TYPE_CHECKING:
    from toolcrib.adapters.prompt_adapter import PromptAdapter
    from toolcrib.approval.approvers import Approver
    from toolcrib.approval.policy import Policy
    from toolcrib.calls.hooks import Hooks
    from toolcrib.calls.outcome import Limits
    from toolcrib.host_tools.registry import HostToolRegistry
    from toolcrib.mcp_client.config import McpServerConfig
    from toolcrib.session.session import Session
    from toolcrib.store.store import Store

WhenBusy = Literal["reject", "enqueue", "interrupt"]
"""What becomes of a prompt while another one of its session is being answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeConfig:
    """Everything a runtime needs. All of it may be left out: then tools live in a registry of the
    runtime's own, sessions in memory, and there is no model.
    """

    host_tool_registry: HostToolRegistry | None = None
    mcp_servers: Sequence[McpServerConfig] = ()
    """Other MCP servers whose tools every session gets."""
    store: Store | None = None
    adapter: PromptAdapter | None = None
    instructions: str = ""
    """What the model is told before every prompt."""
    policy: Policy | None = None
    approver: Approver | None = None
    hooks: Hooks | None = None
    limits: Limits | None = None
    cwd: str = field(default_factory=os.getcwd)
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    when_busy: WhenBusy = "reject"
    max_sessions: int = 10_000
    """How many sessions are held open at once."""
    event_backlog: int = 1_000
    """How many events a reader may be behind before it is cut."""
    max_payload_bytes: int = 10_000_000
    """How large a request may be, on any transport."""
    drain_seconds: float = 10.0
    """How long closing waits for what is running."""
    on_session: Callable[[Session], None] | None = None
    """Sees every session as it is opened, to subscribe or to add reducers."""

    def __post_init__(self) -> None:
        for name in ("max_sessions", "event_backlog", "max_payload_bytes"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} must be 1 or more")
        if self.drain_seconds < 0:
            raise UsageError("drain_seconds must not be negative")

"""The configuration of a runtime."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from toolcrib.egress import EgressPolicy
from toolcrib.errors import UsageError
from toolcrib.runtime.ownership import CallerChoices
from toolcrib.runtime.quotas import PrincipalLimits

if TYPE_CHECKING:
    from toolcrib.adapters.options import Budget
    from toolcrib.adapters.prompt_adapter import PromptAdapter
    from toolcrib.approval.approvers import Approver
    from toolcrib.approval.policy import Policy
    from toolcrib.approval.question import Responder
    from toolcrib.calls.hooks import Hooks
    from toolcrib.calls.outcome import Limits
    from toolcrib.features.decorator import AnyFeature
    from toolcrib.host_tools.definition import AnyTool
    from toolcrib.host_tools.registry import HostToolRegistry
    from toolcrib.mcp_client.config import McpServerConfig
    from toolcrib.notifications.options import NotificationOptions
    from toolcrib.runtime.turn_engine import TurnEngine
    from toolcrib.session.session import Session
    from toolcrib.store.anchors import AnchorOptions
    from toolcrib.store.retention import Retention
    from toolcrib.store.store import Store
    from toolcrib.tools.identity import BindTo
    from toolcrib.tools.tool import Tool
    from toolcrib.toolsets.toolset import Toolset

WhenBusy = Literal["reject", "enqueue", "interrupt"]
"""What becomes of a prompt while its session answers another one."""

_IDLE_SECONDS: Final = 3_600.0
_SHARED_IDLE_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeConfig:
    """The parts and limits of a runtime. Every field is optional: without them the runtime serves
    the default registry, with a store in memory and no model.
    """

    host_tool_registry: HostToolRegistry | None = None
    """None is `toolcrib.host_tools.host_tool_registry`, the default one."""
    tools: Sequence[AnyTool] = ()
    """Tools that every session gets, in the place of a `host_tool_registry`."""
    features: Sequence[AnyFeature] = ()
    """Resources and prompts for MCP clients, beside `tools` in the place of a registry."""
    toolsets: Sequence[Toolset] = ()
    """Toolsets whose tools every session gets, with the hooks and the way of running of each."""
    hosted_tools: Sequence[Tool[Any, Any]] = ()
    """Tools of the model's provider that every prompt offers, as far as the policy allows."""
    mcp_servers: Sequence[McpServerConfig] = ()
    """MCP servers whose tools every session gets."""
    store: Store | None = None
    engine: TurnEngine | None = None
    """What drives the turns of a shared store; None is the store itself."""
    takes_turns: bool = True
    """Whether this process takes up turns of a shared store that are due, whoever queued them. One
    that does not only runs those that it is asked for."""
    max_turns: int = 16
    """How many turns of a shared store this process runs at once."""
    adapter: PromptAdapter | None = None
    instructions: str = ""
    """What the model is told with every prompt, as system instructions apart from users' text."""
    policy: Policy | None = None
    approver: Approver | None = None
    responder: Responder | None = None
    """Answers questions of handlers (`ctx.ask`) in place of the people at the connections."""
    approve_own_calls: bool = False
    """Whether approvers may approve the calls that they asked for themselves. The owner may."""
    bind_to: BindTo = "code"
    """Whether decisions are bound to the code of the tools, or to their version in its place, for
    a host that gives every deployment of other code another version."""
    hooks: Hooks | None = None
    expected_tools: Sequence[str] = ()
    """Names and globs of tools that come later, such as those of clients. Hooks, rules and denials
    may name them; another name that no tool has is an error."""
    limits: Limits | None = None
    budget: Budget | None = None
    """The limits of every prompt, such as its `max_cost`; None is the default `Budget`."""
    egress: EgressPolicy = field(default_factory=EgressPolicy)
    """Where the addresses that callers choose may lead to. It does not bind `mcp_servers`."""
    cwd: str = field(default_factory=os.getcwd)
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    when_busy: WhenBusy = "reject"
    max_sessions: int = 10_000
    """How many sessions may be open at once."""
    event_backlog: int = 1_000
    """How many events a reader may fall behind before it ends with a gap."""
    max_payload_bytes: int = 10_000_000
    """The maximum size of a request, on every transport."""
    callers_choose: CallerChoices = field(default_factory=CallerChoices)
    """The directories and variables that callers may choose for their sessions: none."""
    principal_limits: PrincipalLimits = field(default_factory=PrincipalLimits)
    """What each principal may take of the runtime."""
    idle_seconds: float | None = _IDLE_SECONDS
    """After this time without a call, a prompt or a reader an open session is let go: it comes back
    with the next request. None keeps it open. On a store that several share the default is 10 s:
    any of them may get the next request.
    """
    drain_seconds: float = 10.0
    """How long closing waits for running operations."""
    anchors: AnchorOptions | None = None
    """Where the heads of all ledgers are sent, signed, while the runtime runs."""
    retention: Retention | None = None
    """How long the store keeps what is over; None keeps everything."""
    notifications: Sequence[NotificationOptions] = ()
    """Webhooks that hear of calls that wait, are about to expire, or have failed."""
    on_session: Callable[[Session], None] | None = None
    """Called with every session that is opened, to subscribe or to add reducers."""

    def idle_after(self, *, is_shared: bool) -> float | None:
        """When an idle session is let go, on a store that several share or on another one."""
        is_default = self.idle_seconds == _IDLE_SECONDS
        return _SHARED_IDLE_SECONDS if is_shared and is_default else self.idle_seconds

    def __post_init__(self) -> None:
        for name in ("tools", "features"):
            if getattr(self, name) and self.host_tool_registry is not None:
                raise UsageError(f"give {name}, or a host_tool_registry that has them, not both")
        for name in ("max_turns", "max_sessions", "event_backlog", "max_payload_bytes"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} must be 1 or more")
        if self.bind_to not in ("code", "version"):
            raise UsageError(f"bind_to must be 'code' or 'version', not {self.bind_to!r}")
        if self.idle_seconds is not None and self.idle_seconds <= 0:
            raise UsageError("idle_seconds must be more than 0, or None")
        if self.drain_seconds < 0:
            raise UsageError("drain_seconds must not be negative")

"""A question to a person about one frozen call."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from toolcrib.tools.identity import ToolRef


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """What an approver sees. `arguments` is the redacted view; `digest` binds the real ones."""

    approval_id: str
    session_id: str
    call_id: str
    tool: ToolRef
    arguments: dict[str, Any]
    digest: str
    rule: str
    reason: str
    created_at: float
    deadline: float | None = None
    parameters: dict[str, Any] = field(default_factory=dict[str, Any])
    """The tool's JSON Schema, so that whoever decides can check edited arguments."""
    metadata: dict[str, Any] | None = None
    parent_call_id: str | None = None
    turn: int = 0

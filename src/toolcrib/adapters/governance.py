"""Governance of an evaluation: policy, approver, hooks and limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolcrib.approval.approvers import Approver
    from toolcrib.approval.policy import Policy
    from toolcrib.calls.call import Caller
    from toolcrib.calls.execute import Runner
    from toolcrib.calls.hooks import Hooks
    from toolcrib.calls.outcome import Limits
    from toolcrib.tools.identity import Place, ToolRef


@dataclass(frozen=True, slots=True)
class Governance:
    """What an executor is given besides its tools."""

    policy: Policy | None = None
    approver: Approver | None = None
    hooks: Hooks | None = None
    limits: Limits | None = None
    runners: Mapping[Place, Runner] | None = None
    """Who runs tools in places other than this process."""
    caller: Caller | None = None
    """On whose behalf the model makes its calls."""


@dataclass(frozen=True, slots=True)
class WithheldTool:
    """A tool that is not offered, and what is offered in its place."""

    tool: ToolRef
    reason: str
    replaced_by: ToolRef | None = None

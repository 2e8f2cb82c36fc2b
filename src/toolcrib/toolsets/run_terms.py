"""The terms under which the calls of agent runs are made: hooks, policy, approver and limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolcrib.approval.approvers import Approver
    from toolcrib.approval.policy import Policy
    from toolcrib.calls.hooks import Hooks
    from toolcrib.calls.outcome import Limits
    from toolcrib.tools.identity import BindTo


@dataclass(frozen=True, slots=True)
class RunTerms:
    """What an executor of agent runs is made with. `hooks` know the run context of an agent."""

    hooks: Hooks | None = None
    policy: Policy | None = None
    approver: Approver | None = None
    limits: Limits | None = None
    bind_to: BindTo = "code"

    def options(self) -> dict[str, Any]:
        """The terms as keyword arguments of an executor."""
        return {
            "hooks": self.hooks,
            "policy": self.policy,
            "approver": self.approver,
            "limits": self.limits,
            "bind_to": self.bind_to,
        }

"""How a stage ends a call early. Private to the executor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolcrib.failures import Failure, FailureKind, Fault

if TYPE_CHECKING:
    from toolcrib.approval.decision import ApprovalRequest


class Halt(Exception):
    """The call is over: it failed before, or without, a result of the tool."""

    def __init__(
        self,
        kind: FailureKind,
        message: str,
        *,
        faults: tuple[Fault, ...] = (),
    ) -> None:
        super().__init__(message)
        self.failure = Failure(kind, message, faults=faults)

    @classmethod
    def of(cls, failure: Failure) -> Halt:
        """The end of a call whose failure is known already."""
        halt = cls(failure.kind, failure.message)
        halt.failure = failure
        return halt


class Suspend(Exception):
    """The call waits: its request is filed, and it goes on when somebody has decided."""

    def __init__(self, request: ApprovalRequest) -> None:
        super().__init__(request.approval_id)
        self.request = request

"""`--approve`: the approver of calls that need approval in a command."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Final, Literal, assert_never

import typer

if TYPE_CHECKING:
    from toolcrib.approval.approvers import Approver, Reply
    from toolcrib.approval.decision import ApprovalRequest

ApproveMode = Literal["ask", "deny", "policy"]

ApproveOption = Annotated[
    ApproveMode,
    typer.Option(
        "--approve",
        help="When a call needs approval: ask here, deny it, or leave the request in the store.",
    ),
]

_DENIED: Final = "This command denies every call that needs approval."


def approver_for(mode: ApproveMode, *, has_store: bool) -> Approver | None:
    """The approver of a mode. Without a terminal, `ask` leaves the request in the store."""
    from toolcrib.approval.approvers import CallbackApprover

    match mode:
        case "ask":
            return _person(has_store) if is_terminal() else None
        case "deny":
            return CallbackApprover(_deny)
        case "policy":
            return None
    assert_never(mode)


def is_terminal() -> bool:
    """Whether a person can both read a question and type an answer."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def _person(has_store: bool) -> Approver:
    from toolcrib.approval.terminal import TerminalApprover

    return TerminalApprover(is_durable=has_store)


def _deny(request: ApprovalRequest) -> Reply:
    from toolcrib.approval.approvers import Reply
    from toolcrib.approval.decision import Actor, Deny

    return Reply(Deny(_DENIED), Actor("rule", "--approve deny"))

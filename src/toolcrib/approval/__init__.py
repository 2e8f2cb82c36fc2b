"""Policy, approval requests, decisions, grants and approvers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolcrib._lazy import lazy_exports

if TYPE_CHECKING:
    from toolcrib.approval.approvers import Approver, CallbackApprover, Reply
    from toolcrib.approval.caller import Caller
    from toolcrib.approval.decision import (
        Actor,
        Answer,
        ApprovalRequest,
        Approve,
        Authority,
        Ballot,
        Decided,
        Decision,
        Deny,
        Expire,
        Vote,
    )
    from toolcrib.approval.grant import Grant, GrantPreview, NewGrant, PastCall, preview_grant
    from toolcrib.approval.pattern import Between, Equals, Glob, Not, OneOf, Pattern, Regex
    from toolcrib.approval.policy import Explanation, Policy, default_verdict
    from toolcrib.approval.policy_file import load_policy, parse_policy
    from toolcrib.approval.policy_lint import Caution, cautions
    from toolcrib.approval.question import (
        CallbackResponder,
        Question,
        QuestionResponse,
        Responder,
    )
    from toolcrib.approval.quorum import Quorum
    from toolcrib.approval.rule import Rule, Subject, Verdict
    from toolcrib.approval.terminal import TerminalApprover

__all__ = [
    "Actor",
    "Answer",
    "ApprovalRequest",
    "Approve",
    "Approver",
    "Authority",
    "Ballot",
    "Between",
    "CallbackApprover",
    "CallbackResponder",
    "Caller",
    "Caution",
    "Decided",
    "Decision",
    "Deny",
    "Equals",
    "Expire",
    "Explanation",
    "Glob",
    "Grant",
    "GrantPreview",
    "NewGrant",
    "Not",
    "OneOf",
    "PastCall",
    "Pattern",
    "Policy",
    "Question",
    "QuestionResponse",
    "Quorum",
    "Regex",
    "Reply",
    "Responder",
    "Rule",
    "Subject",
    "TerminalApprover",
    "Verdict",
    "Vote",
    "cautions",
    "default_verdict",
    "load_policy",
    "parse_policy",
    "preview_grant",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "toolcrib.approval.approvers": ("Approver", "CallbackApprover", "Reply"),
            "toolcrib.approval.caller": ("Caller",),
            "toolcrib.approval.decision": (
                "Actor",
                "Answer",
                "ApprovalRequest",
                "Approve",
                "Authority",
                "Ballot",
                "Decided",
                "Decision",
                "Deny",
                "Expire",
                "Vote",
            ),
            "toolcrib.approval.grant": (
                "Grant",
                "GrantPreview",
                "NewGrant",
                "PastCall",
                "preview_grant",
            ),
            "toolcrib.approval.pattern": (
                "Between",
                "Equals",
                "Glob",
                "Not",
                "OneOf",
                "Pattern",
                "Regex",
            ),
            "toolcrib.approval.policy": ("Explanation", "Policy", "default_verdict"),
            "toolcrib.approval.policy_file": ("load_policy", "parse_policy"),
            "toolcrib.approval.policy_lint": ("Caution", "cautions"),
            "toolcrib.approval.question": (
                "CallbackResponder",
                "Question",
                "QuestionResponse",
                "Responder",
            ),
            "toolcrib.approval.quorum": ("Quorum",),
            "toolcrib.approval.rule": ("Rule", "Subject", "Verdict"),
            "toolcrib.approval.terminal": ("TerminalApprover",),
        },
    )

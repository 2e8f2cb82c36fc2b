"""Who may run what: policy, requests, decisions, grants and the people who are asked.

Names load their module when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolcrib.approval.approvers import Approver, CallbackApprover, Reply
    from toolcrib.approval.decision import Actor, Answer, Approve, Decided, Decision, Deny, Expire
    from toolcrib.approval.grant import Grant, NewGrant
    from toolcrib.approval.pattern import Between, Equals, Glob, Not, OneOf, Pattern, Regex
    from toolcrib.approval.policy import Explanation, Policy, default_verdict
    from toolcrib.approval.policy_file import load_policy, parse_policy
    from toolcrib.approval.request import ApprovalRequest
    from toolcrib.approval.rule import Rule, Subject, Verdict
    from toolcrib.approval.terminal import TerminalApprover

_MODULES = {
    "approvers": ("Approver", "CallbackApprover", "Reply"),
    "decision": ("Actor", "Answer", "Approve", "Decided", "Decision", "Deny", "Expire"),
    "grant": ("Grant", "NewGrant"),
    "pattern": ("Between", "Equals", "Glob", "Not", "OneOf", "Pattern", "Regex"),
    "policy": ("Explanation", "Policy", "default_verdict"),
    "policy_file": ("load_policy", "parse_policy"),
    "request": ("ApprovalRequest",),
    "rule": ("Rule", "Subject", "Verdict"),
    "terminal": ("TerminalApprover",),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "Actor",
    "Answer",
    "ApprovalRequest",
    "Approve",
    "Approver",
    "Between",
    "CallbackApprover",
    "Decided",
    "Decision",
    "Deny",
    "Equals",
    "Expire",
    "Explanation",
    "Glob",
    "Grant",
    "NewGrant",
    "Not",
    "OneOf",
    "Pattern",
    "Policy",
    "Regex",
    "Reply",
    "Rule",
    "Subject",
    "TerminalApprover",
    "Verdict",
    "default_verdict",
    "load_policy",
    "parse_policy",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)

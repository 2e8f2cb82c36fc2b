"""Toolcrib: the tool runtime for LLM agents.

Everything here is loaded when it is first used, so `import toolcrib` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from toolcrib._version import __version__

if TYPE_CHECKING:
    from toolcrib.adapters.response import PromptResponse
    from toolcrib.approval.approvers import CallbackApprover, Reply
    from toolcrib.approval.decision import Actor, Answer, Approve, Deny
    from toolcrib.approval.grant import Grant, NewGrant
    from toolcrib.approval.policy import Policy
    from toolcrib.approval.policy_file import load_policy
    from toolcrib.approval.rule import Rule
    from toolcrib.approval.terminal import TerminalApprover
    from toolcrib.calls.call import Caller
    from toolcrib.calls.executor import Executor
    from toolcrib.calls.hooks import GlobalHooks, Hooks, Refuse
    from toolcrib.calls.outcome import CallRequest, Limits, Outcome
    from toolcrib.errors import (
        ApprovalRequired,
        CallFailed,
        ModelRetry,
        PromptEvaluationError,
        ToolcribError,
    )
    from toolcrib.failures import Failure
    from toolcrib.ledger.events import Event, ToolInvoked
    from toolcrib.prompt.prompt import Prompt
    from toolcrib.prompt.rendering import RenderedPrompt
    from toolcrib.prompt.section import MarkdownSection, Section
    from toolcrib.runtime.config import RuntimeConfig
    from toolcrib.runtime.runtime import create_runtime
    from toolcrib.session.bus import EventBus
    from toolcrib.session.session import Session
    from toolcrib.store.memory import MemoryStore
    from toolcrib.store.sqlite import SqliteStore
    from toolcrib.tools.context import ToolContext
    from toolcrib.tools.decorator import tool
    from toolcrib.tools.example import ToolExample
    from toolcrib.tools.fallback import Fallback
    from toolcrib.tools.provider_tools import HostedTool, NativeTool, ProviderTool
    from toolcrib.tools.result import ToolResult
    from toolcrib.tools.secrets import Secret
    from toolcrib.tools.tool import Tool

_HOMES = {
    "Actor": "approval.decision",
    "Answer": "approval.decision",
    "ApprovalRequired": "errors",
    "Approve": "approval.decision",
    "CallFailed": "errors",
    "CallRequest": "calls.outcome",
    "CallbackApprover": "approval.approvers",
    "Caller": "calls.call",
    "Deny": "approval.decision",
    "Event": "ledger.events",
    "EventBus": "session.bus",
    "Executor": "calls.executor",
    "Failure": "failures",
    "GlobalHooks": "calls.hooks",
    "Grant": "approval.grant",
    "Hooks": "calls.hooks",
    "Fallback": "tools.fallback",
    "HostedTool": "tools.provider_tools",
    "Limits": "calls.outcome",
    "MarkdownSection": "prompt.section",
    "MemoryStore": "store.memory",
    "ModelRetry": "errors",
    "NativeTool": "tools.provider_tools",
    "NewGrant": "approval.grant",
    "Outcome": "calls.outcome",
    "Policy": "approval.policy",
    "Prompt": "prompt.prompt",
    "PromptEvaluationError": "errors",
    "PromptResponse": "adapters.response",
    "ProviderTool": "tools.provider_tools",
    "Refuse": "calls.hooks",
    "RenderedPrompt": "prompt.rendering",
    "Reply": "approval.approvers",
    "Rule": "approval.rule",
    "RuntimeConfig": "runtime.config",
    "Secret": "tools.secrets",
    "Section": "prompt.section",
    "Session": "session.session",
    "SqliteStore": "store.sqlite",
    "TerminalApprover": "approval.terminal",
    "Tool": "tools.tool",
    "ToolContext": "tools.context",
    "ToolExample": "tools.example",
    "ToolInvoked": "ledger.events",
    "ToolResult": "tools.result",
    "ToolcribError": "errors",
    "create_runtime": "runtime.runtime",
    "load_policy": "approval.policy_file",
    "tool": "tools.decorator",
}

__all__ = [
    "Actor",
    "Answer",
    "ApprovalRequired",
    "Approve",
    "CallFailed",
    "CallRequest",
    "CallbackApprover",
    "Caller",
    "Deny",
    "Event",
    "EventBus",
    "Executor",
    "Failure",
    "Fallback",
    "GlobalHooks",
    "Grant",
    "Hooks",
    "HostedTool",
    "Limits",
    "MarkdownSection",
    "MemoryStore",
    "ModelRetry",
    "NativeTool",
    "NewGrant",
    "Outcome",
    "Policy",
    "Prompt",
    "PromptEvaluationError",
    "PromptResponse",
    "ProviderTool",
    "Refuse",
    "RenderedPrompt",
    "Reply",
    "Rule",
    "RuntimeConfig",
    "Secret",
    "Section",
    "Session",
    "SqliteStore",
    "TerminalApprover",
    "Tool",
    "ToolContext",
    "ToolExample",
    "ToolInvoked",
    "ToolResult",
    "ToolcribError",
    "__version__",
    "create_runtime",
    "load_policy",
    "tool",
]


if not TYPE_CHECKING:
    # Hidden from type checkers, so that they find a misspelt name.
    def __getattr__(name: str) -> Any:
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}.{home}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)

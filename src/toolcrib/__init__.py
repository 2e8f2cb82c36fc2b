"""Toolcrib: the tool runtime for LLM agents.

Names load their module on first use, so `import toolcrib` costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolcrib._lazy import lazy_exports
from toolcrib._version import __version__

if TYPE_CHECKING:
    from toolcrib._version import __version__
    from toolcrib.adapters.answer import PromptResponse
    from toolcrib.approval.approvers import CallbackApprover, Reply
    from toolcrib.approval.caller import Caller
    from toolcrib.approval.decision import Actor, Answer, Approve, Deny
    from toolcrib.approval.grant import Grant, NewGrant
    from toolcrib.approval.policy import Policy
    from toolcrib.approval.policy_file import load_policy
    from toolcrib.approval.question import CallbackResponder
    from toolcrib.approval.rule import Rule
    from toolcrib.approval.terminal import TerminalApprover
    from toolcrib.calls.executor import Executor
    from toolcrib.calls.hook_chain import Refuse
    from toolcrib.calls.hooks import GlobalHooks, Hooks
    from toolcrib.calls.outcome import CallRequest, Limits, Outcome
    from toolcrib.errors import (
        ApprovalRequired,
        CallEnded,
        CallFailed,
        ModelRetry,
        PromptEvaluationError,
        ToolcribError,
    )
    from toolcrib.failures import Failure
    from toolcrib.ledger.events import (
        ApprovalRequested,
        Event,
        ToolInvoked,
        ToolOutput,
        ToolProgress,
    )
    from toolcrib.ledger.prompt_events import (
        ArgumentsDelta,
        HostedToolProgress,
        ReasoningDelta,
        TextDelta,
    )
    from toolcrib.ledger.question_events import QuestionAsked
    from toolcrib.prompt.prompt import Prompt, RenderedPrompt
    from toolcrib.prompt.section import MarkdownSection, Section, UserText
    from toolcrib.runtime.chat import Chat
    from toolcrib.runtime.config import RuntimeConfig
    from toolcrib.runtime.messages import PromptResult
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

__all__ = [
    "Actor",
    "Answer",
    "ApprovalRequested",
    "ApprovalRequired",
    "Approve",
    "ArgumentsDelta",
    "CallEnded",
    "CallFailed",
    "CallRequest",
    "CallbackApprover",
    "CallbackResponder",
    "Caller",
    "Chat",
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
    "HostedToolProgress",
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
    "PromptResult",
    "ProviderTool",
    "QuestionAsked",
    "ReasoningDelta",
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
    "TextDelta",
    "Tool",
    "ToolContext",
    "ToolExample",
    "ToolInvoked",
    "ToolOutput",
    "ToolProgress",
    "ToolResult",
    "ToolcribError",
    "UserText",
    "__version__",
    "create_runtime",
    "load_policy",
    "tool",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "toolcrib._version": ("__version__",),
            "toolcrib.adapters.answer": ("PromptResponse",),
            "toolcrib.approval.approvers": ("CallbackApprover", "Reply"),
            "toolcrib.approval.decision": ("Actor", "Answer", "Approve", "Deny"),
            "toolcrib.approval.grant": ("Grant", "NewGrant"),
            "toolcrib.approval.policy": ("Policy",),
            "toolcrib.approval.policy_file": ("load_policy",),
            "toolcrib.approval.question": ("CallbackResponder",),
            "toolcrib.approval.rule": ("Rule",),
            "toolcrib.approval.terminal": ("TerminalApprover",),
            "toolcrib.approval.caller": ("Caller",),
            "toolcrib.calls.executor": ("Executor",),
            "toolcrib.calls.hook_chain": ("Refuse",),
            "toolcrib.calls.hooks": ("GlobalHooks", "Hooks"),
            "toolcrib.calls.outcome": ("CallRequest", "Limits", "Outcome"),
            "toolcrib.errors": (
                "ApprovalRequired",
                "CallEnded",
                "CallFailed",
                "ModelRetry",
                "PromptEvaluationError",
                "ToolcribError",
            ),
            "toolcrib.failures": ("Failure",),
            "toolcrib.ledger.events": (
                "ApprovalRequested",
                "Event",
                "ToolInvoked",
                "ToolOutput",
                "ToolProgress",
            ),
            "toolcrib.ledger.question_events": ("QuestionAsked",),
            "toolcrib.ledger.prompt_events": (
                "ArgumentsDelta",
                "HostedToolProgress",
                "ReasoningDelta",
                "TextDelta",
            ),
            "toolcrib.prompt.prompt": (
                "Prompt",
                "RenderedPrompt",
            ),
            "toolcrib.prompt.section": ("MarkdownSection", "Section", "UserText"),
            "toolcrib.runtime.chat": ("Chat",),
            "toolcrib.runtime.config": ("RuntimeConfig",),
            "toolcrib.runtime.messages": ("PromptResult",),
            "toolcrib.runtime.runtime": ("create_runtime",),
            "toolcrib.session.bus": ("EventBus",),
            "toolcrib.session.session": ("Session",),
            "toolcrib.store.memory": ("MemoryStore",),
            "toolcrib.store.sqlite": ("SqliteStore",),
            "toolcrib.tools.context": ("ToolContext",),
            "toolcrib.tools.decorator": ("tool",),
            "toolcrib.tools.example": ("ToolExample",),
            "toolcrib.tools.fallback": ("Fallback",),
            "toolcrib.tools.provider_tools": ("HostedTool", "NativeTool", "ProviderTool"),
            "toolcrib.tools.result": ("ToolResult",),
            "toolcrib.tools.secrets": ("Secret",),
            "toolcrib.tools.tool": ("Tool",),
        },
    )

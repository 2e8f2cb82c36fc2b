"""Every kind of event: those that ledgers keep, and those that only pass on the bus."""

from __future__ import annotations

from toolcrib.ledger.events import (
    ApprovalDecided,
    ApprovalRequested,
    ApprovalSuperseded,
    ApprovalVoted,
    CallInDoubt,
    CallStarted,
    CallUnrecorded,
    Event,
    GrantChanged,
    PayloadsDeleted,
    QuestionAnswered,
    QuestionAsked,
    QuestionClosed,
    SessionOpened,
    SessionRestored,
    SessionToolsChanged,
    SettingsSaved,
    ToolEmitted,
    ToolInvoked,
    ToolOutput,
    ToolProgress,
    ToolsChanged,
    ToolUnavailable,
    TurnStarted,
)
from toolcrib.ledger.prompt_events import (
    ArgumentsDelta,
    FilesStaged,
    HostedToolProgress,
    ModelAsked,
    ModelResponded,
    PromptAnswered,
    PromptResumed,
    PromptStarted,
    ReasoningDelta,
    TextDelta,
    ToolWithheld,
    TurnEnded,
)

ALL_EVENTS: tuple[type[Event], ...] = (
    SessionOpened,
    SessionRestored,
    SessionToolsChanged,
    SettingsSaved,
    PayloadsDeleted,
    TurnStarted,
    ToolsChanged,
    ToolUnavailable,
    ApprovalRequested,
    ApprovalVoted,
    ApprovalDecided,
    ApprovalSuperseded,
    GrantChanged,
    CallStarted,
    CallInDoubt,
    QuestionAsked,
    QuestionAnswered,
    QuestionClosed,
    PromptStarted,
    PromptResumed,
    ToolWithheld,
    FilesStaged,
    ModelResponded,
    PromptAnswered,
    ToolProgress,
    ToolOutput,
    ToolEmitted,
    ToolInvoked,
)
"""Every event that a ledger keeps."""


PASSING: tuple[type[Event], ...] = (
    ArgumentsDelta,
    CallUnrecorded,
    HostedToolProgress,
    ModelAsked,
    ReasoningDelta,
    TextDelta,
    TurnEnded,
)
"""Events that are shown and not kept."""

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
    FilesStaged,
    HostedToolProgress,
    ModelAsked,
    ModelResponded,
    ModelRetried,
    PromptAnswered,
    PromptResumed,
    PromptStarted,
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
    PromptStarted,
    PromptResumed,
    ToolWithheld,
    FilesStaged,
    ModelRetried,
    ModelResponded,
    PromptAnswered,
    ToolProgress,
    ToolOutput,
    ToolEmitted,
    ToolInvoked,
)
"""Every event that a ledger keeps."""


PASSING: tuple[type[Event], ...] = (
    CallUnrecorded,
    HostedToolProgress,
    ModelAsked,
    TextDelta,
    TurnEnded,
)
"""Events that are shown and not kept."""

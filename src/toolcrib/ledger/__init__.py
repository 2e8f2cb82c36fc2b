"""Facts of a session in order: events, records, their encoding and the hash chain."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolcrib._lazy import lazy_exports

if TYPE_CHECKING:
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
        PromptAnswered,
        PromptResumed,
        PromptStarted,
        TextDelta,
        ToolWithheld,
        TurnEnded,
    )
    from toolcrib.ledger.record import GENESIS, Head, Record, verify

__all__ = [
    "GENESIS",
    "ApprovalDecided",
    "ApprovalRequested",
    "ApprovalSuperseded",
    "ApprovalVoted",
    "CallInDoubt",
    "CallStarted",
    "CallUnrecorded",
    "Event",
    "FilesStaged",
    "GrantChanged",
    "Head",
    "HostedToolProgress",
    "ModelAsked",
    "ModelResponded",
    "PayloadsDeleted",
    "PromptAnswered",
    "PromptResumed",
    "PromptStarted",
    "Record",
    "SessionOpened",
    "SessionRestored",
    "SettingsSaved",
    "TextDelta",
    "ToolEmitted",
    "ToolInvoked",
    "ToolOutput",
    "ToolProgress",
    "ToolUnavailable",
    "ToolWithheld",
    "ToolsChanged",
    "TurnEnded",
    "TurnStarted",
    "verify",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "toolcrib.ledger.events": (
                "ApprovalDecided",
                "ApprovalRequested",
                "ApprovalSuperseded",
                "ApprovalVoted",
                "CallInDoubt",
                "CallStarted",
                "CallUnrecorded",
                "Event",
                "GrantChanged",
                "PayloadsDeleted",
                "SessionOpened",
                "SessionRestored",
                "SettingsSaved",
                "ToolEmitted",
                "ToolInvoked",
                "ToolOutput",
                "ToolProgress",
                "ToolUnavailable",
                "ToolsChanged",
                "TurnStarted",
            ),
            "toolcrib.ledger.prompt_events": (
                "FilesStaged",
                "HostedToolProgress",
                "ModelAsked",
                "ModelResponded",
                "PromptAnswered",
                "PromptResumed",
                "PromptStarted",
                "TextDelta",
                "ToolWithheld",
                "TurnEnded",
            ),
            "toolcrib.ledger.record": ("GENESIS", "Head", "Record", "verify"),
        },
    )

"""What happens to a call: the executor, the stages of its path, and their limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolcrib._lazy import lazy_exports

if TYPE_CHECKING:
    from toolcrib.calls.execute import Runner
    from toolcrib.calls.executor import Executor
    from toolcrib.calls.hook_chain import Refuse
    from toolcrib.calls.hooks import (
        GlobalHooks,
        GlobalPostHook,
        GlobalPreHook,
        Hook,
        HookEvent,
        Hooks,
        PostHook,
        PreHook,
        PreReply,
    )
    from toolcrib.calls.lifecycle import (
        HookedPrompt,
        HookedReply,
        HookedRequest,
        HookedSession,
        HookedTurn,
    )
    from toolcrib.calls.nested_calls import current_context
    from toolcrib.calls.outcome import CallRequest, Limits, Outcome, Status

__all__ = [
    "CallRequest",
    "Executor",
    "GlobalHooks",
    "GlobalPostHook",
    "GlobalPreHook",
    "Hook",
    "HookEvent",
    "HookedPrompt",
    "HookedReply",
    "HookedRequest",
    "HookedSession",
    "HookedTurn",
    "Hooks",
    "Limits",
    "Outcome",
    "PostHook",
    "PreHook",
    "PreReply",
    "Refuse",
    "Runner",
    "Status",
    "current_context",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "toolcrib.calls.execute": ("Runner",),
            "toolcrib.calls.executor": ("Executor",),
            "toolcrib.calls.hook_chain": ("Refuse",),
            "toolcrib.calls.hooks": (
                "GlobalHooks",
                "GlobalPostHook",
                "GlobalPreHook",
                "Hook",
                "HookEvent",
                "Hooks",
                "PostHook",
                "PreHook",
                "PreReply",
            ),
            "toolcrib.calls.lifecycle": (
                "HookedPrompt",
                "HookedReply",
                "HookedRequest",
                "HookedSession",
                "HookedTurn",
            ),
            "toolcrib.calls.nested_calls": ("current_context",),
            "toolcrib.calls.outcome": ("CallRequest", "Limits", "Outcome", "Status"),
        },
    )

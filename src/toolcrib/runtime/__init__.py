"""The runtime: sessions and tools behind one service, whatever the transport."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolcrib._lazy import lazy_exports

if TYPE_CHECKING:
    from toolcrib.egress import EgressPolicy
    from toolcrib.runtime.approval_messages import ApprovalFacts, GrantTerms
    from toolcrib.runtime.chat import Chat, ChatEvent, ChatOperations, ChatTurn, Exchange
    from toolcrib.runtime.config import RuntimeConfig, WhenBusy
    from toolcrib.runtime.event_reader import Envelope
    from toolcrib.runtime.messages import CallResult, ClientTool, PromptResult, SessionFacts
    from toolcrib.runtime.operations import OPERATIONS, Operation
    from toolcrib.runtime.ownership import CallerChoices
    from toolcrib.runtime.principal import OWNER, ROLES, Principal, Role
    from toolcrib.runtime.quotas import PrincipalLimits
    from toolcrib.runtime.runtime import Runtime, create_runtime
    from toolcrib.runtime.service import PROTOCOL, Service, as_json
    from toolcrib.runtime.session_events import SessionEvents, UnknownEvent
    from toolcrib.runtime.turn_progress import Advanced
    from toolcrib.runtime.typed_operations import TypedOperations

__all__ = [
    "OPERATIONS",
    "OWNER",
    "PROTOCOL",
    "ROLES",
    "Advanced",
    "ApprovalFacts",
    "CallResult",
    "CallerChoices",
    "Chat",
    "ChatEvent",
    "ChatOperations",
    "ChatTurn",
    "ClientTool",
    "EgressPolicy",
    "Envelope",
    "Exchange",
    "GrantTerms",
    "Operation",
    "Principal",
    "PrincipalLimits",
    "PromptResult",
    "Role",
    "Runtime",
    "RuntimeConfig",
    "Service",
    "SessionEvents",
    "SessionFacts",
    "TypedOperations",
    "UnknownEvent",
    "WhenBusy",
    "as_json",
    "create_runtime",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "toolcrib.egress": ("EgressPolicy",),
            "toolcrib.runtime.approval_messages": (
                "ApprovalFacts",
                "GrantTerms",
            ),
            "toolcrib.runtime.chat": (
                "Chat",
                "ChatEvent",
                "ChatOperations",
                "ChatTurn",
                "Exchange",
            ),
            "toolcrib.runtime.messages": (
                "CallResult",
                "ClientTool",
                "PromptResult",
                "SessionFacts",
            ),
            "toolcrib.runtime.session_events": (
                "SessionEvents",
                "UnknownEvent",
            ),
            "toolcrib.runtime.turn_progress": ("Advanced",),
            "toolcrib.runtime.typed_operations": ("TypedOperations",),
            "toolcrib.runtime.config": ("RuntimeConfig", "WhenBusy"),
            "toolcrib.runtime.event_reader": ("Envelope",),
            "toolcrib.runtime.operations": ("OPERATIONS", "Operation"),
            "toolcrib.runtime.ownership": ("CallerChoices",),
            "toolcrib.runtime.principal": ("OWNER", "Principal", "ROLES", "Role"),
            "toolcrib.runtime.quotas": ("PrincipalLimits",),
            "toolcrib.runtime.runtime": ("Runtime", "create_runtime"),
            "toolcrib.runtime.service": ("PROTOCOL", "Service", "as_json"),
        },
    )

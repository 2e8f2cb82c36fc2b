"""The client of a Toolcrib server: typed operations, events, approvals and client tools.

`AsyncClient` is for programs with an event loop, `Client` for those without.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolcrib._lazy import lazy_exports

if TYPE_CHECKING:
    from toolcrib.client.async_client import AsyncClient
    from toolcrib.client.blocking_client import Client
    from toolcrib.errors import Refused
    from toolcrib.runtime.approval_messages import ApprovalFacts, GrantTerms
    from toolcrib.runtime.messages import CallResult, PromptResult, SessionFacts
    from toolcrib.runtime.session_events import SessionEvents, UnknownEvent

__all__ = [
    "ApprovalFacts",
    "AsyncClient",
    "CallResult",
    "Client",
    "GrantTerms",
    "PromptResult",
    "Refused",
    "SessionEvents",
    "SessionFacts",
    "UnknownEvent",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "toolcrib.client.async_client": ("AsyncClient",),
            "toolcrib.client.blocking_client": ("Client",),
            "toolcrib.errors": ("Refused",),
            "toolcrib.runtime.approval_messages": ("ApprovalFacts", "GrantTerms"),
            "toolcrib.runtime.messages": ("CallResult", "PromptResult", "SessionFacts"),
            "toolcrib.runtime.session_events": ("SessionEvents", "UnknownEvent"),
        },
    )

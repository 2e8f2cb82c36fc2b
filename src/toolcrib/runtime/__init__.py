"""The runtime: sessions and tools behind one service, whatever the transport."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolcrib._lazy import lazy_exports

if TYPE_CHECKING:
    from toolcrib.egress import EgressPolicy
    from toolcrib.runtime.config import RuntimeConfig, WhenBusy
    from toolcrib.runtime.event_reader import Envelope
    from toolcrib.runtime.operations import OPERATIONS, Operation
    from toolcrib.runtime.ownership import CallerChoices
    from toolcrib.runtime.principal import OWNER, ROLES, Principal, Role
    from toolcrib.runtime.quotas import PrincipalLimits
    from toolcrib.runtime.runtime import Runtime, create_runtime
    from toolcrib.runtime.service import PROTOCOL, Service, as_json

__all__ = [
    "OPERATIONS",
    "OWNER",
    "PROTOCOL",
    "ROLES",
    "CallerChoices",
    "EgressPolicy",
    "Envelope",
    "Operation",
    "Principal",
    "PrincipalLimits",
    "Role",
    "Runtime",
    "RuntimeConfig",
    "Service",
    "WhenBusy",
    "as_json",
    "create_runtime",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "toolcrib.egress": ("EgressPolicy",),
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

"""Notifications: webhooks that hear of calls that wait, are about to expire, or have failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolcrib._lazy import lazy_exports

if TYPE_CHECKING:
    from toolcrib.notifications.options import NotificationOptions, NotificationSource

__all__ = ["NotificationOptions", "NotificationSource"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {"toolcrib.notifications.options": ("NotificationOptions", "NotificationSource")},
    )

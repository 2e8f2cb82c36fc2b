"""OpenAI's Responses API, on the official SDK, which is imported when a request is made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolcrib._lazy import lazy_exports

if TYPE_CHECKING:
    from toolcrib.adapters.model_client import Retry
    from toolcrib.adapters.openai.adapter import OpenAIAdapter
    from toolcrib.adapters.openai.containers import (
        check_container,
        create_container,
        renew_container,
    )
    from toolcrib.adapters.openai.downloads import download_files, download_files_blocking
    from toolcrib.adapters.openai.host_files import SUPPORTED_TYPES
    from toolcrib.adapters.options import Budget
    from toolcrib.adapters.turn_tools import Governance

__all__ = [
    "SUPPORTED_TYPES",
    "Budget",
    "Governance",
    "OpenAIAdapter",
    "Retry",
    "check_container",
    "create_container",
    "download_files",
    "download_files_blocking",
    "renew_container",
]

# Lazy also because codecs import modules of this package and the adapter imports the codecs.
if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "toolcrib.adapters.turn_tools": ("Governance",),
            "toolcrib.adapters.model_client": ("Retry",),
            "toolcrib.adapters.openai.adapter": ("OpenAIAdapter",),
            "toolcrib.adapters.openai.containers": (
                "check_container",
                "create_container",
                "renew_container",
            ),
            "toolcrib.adapters.openai.downloads": ("download_files", "download_files_blocking"),
            "toolcrib.adapters.openai.host_files": ("SUPPORTED_TYPES",),
            "toolcrib.adapters.options": ("Budget",),
        },
    )

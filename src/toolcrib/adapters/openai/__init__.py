"""OpenAI's Responses API, on the official SDK, which is imported when a request is made."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolcrib.adapters.governance import Governance
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

_HOMES = {
    "SUPPORTED_TYPES": "toolcrib.adapters.openai.host_files",
    "Budget": "toolcrib.adapters.options",
    "Governance": "toolcrib.adapters.governance",
    "OpenAIAdapter": "toolcrib.adapters.openai.adapter",
    "Retry": "toolcrib.adapters.model_client",
    "check_container": "toolcrib.adapters.openai.containers",
    "create_container": "toolcrib.adapters.openai.containers",
    "download_files": "toolcrib.adapters.openai.downloads",
    "download_files_blocking": "toolcrib.adapters.openai.downloads",
    "renew_container": "toolcrib.adapters.openai.containers",
}


if not TYPE_CHECKING:
    # Out of a type checker's sight, or it would take every misspelt name for Any. Lazy, because
    # codecs import modules of this package and the adapter imports the codecs.
    def __getattr__(name: str) -> object:
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)

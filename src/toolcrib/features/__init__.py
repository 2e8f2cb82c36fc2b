"""Resources and prompts that an application offers to MCP clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolcrib._lazy import lazy_exports

if TYPE_CHECKING:
    from toolcrib.features.content import PromptMessage, ResourceContent
    from toolcrib.features.declaration import ServedPrompt, ServedResource
    from toolcrib.features.decorator import FunctionFeature, prompt, resource
    from toolcrib.features.registry import FeatureChange, FeatureRegistry

__all__ = [
    "FeatureChange",
    "FeatureRegistry",
    "FunctionFeature",
    "PromptMessage",
    "ResourceContent",
    "ServedPrompt",
    "ServedResource",
    "prompt",
    "resource",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "toolcrib.features.content": ("PromptMessage", "ResourceContent"),
            "toolcrib.features.declaration": ("ServedPrompt", "ServedResource"),
            "toolcrib.features.decorator": ("FunctionFeature", "prompt", "resource"),
            "toolcrib.features.registry": ("FeatureChange", "FeatureRegistry"),
        },
    )

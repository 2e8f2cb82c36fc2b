"""Image generation: the model describes an image and the provider draws it."""

from __future__ import annotations

from typing import Final, Unpack

from toolcrib.tools.fallback import AnyFallback
from toolcrib.tools.image_generation.types import (
    GeneratedImage,
    ImageError,
    ImageFormat,
    ImageGenerationConfig,
    ImageGenerationResult,
    ImageMask,
    ImageRequest,
    SvgAuthor,
)
from toolcrib.tools.provider_tools import ConfigFunction, HostedFields, HostedTool, declared_config

__all__ = [
    "KIND",
    "GeneratedImage",
    "ImageError",
    "ImageFormat",
    "ImageGenerationConfig",
    "ImageGenerationResult",
    "ImageMask",
    "ImageRequest",
    "SvgAuthor",
    "image_generation_tool",
]

KIND: Final = ImageGenerationConfig.kind

_AS_IT_COMES: Final = ImageGenerationConfig()


def image_generation_tool(
    config: ImageGenerationConfig | ConfigFunction[ImageGenerationConfig] = _AS_IT_COMES,
    *,
    name: str = "image_generation",
    fallback: AnyFallback[ImageGenerationConfig] = None,
    **fields: Unpack[HostedFields],
) -> HostedTool[ImageGenerationConfig, ImageGenerationResult]:
    """Return image generation with these options."""
    return HostedTool[ImageGenerationConfig, ImageGenerationResult](
        kind=KIND,
        name=name,
        description="Draw images, or change ones that were given.",
        config=declared_config(config),
        fallback=fallback,
        **fields,
    )

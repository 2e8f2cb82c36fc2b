"""Image backends of the tool `image_generation`, and the one in the box, which draws charts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolcrib._lazy import lazy_exports

if TYPE_CHECKING:
    from toolcrib.embedded.images.backend import (
        GeneratedImage,
        ImageBackend,
        ImageFormat,
        ImageOutput,
        ImageRequest,
        ImageSize,
        PartialImage,
    )
    from toolcrib.embedded.images.chart_images import ChartImages

__all__ = [
    "ChartImages",
    "GeneratedImage",
    "ImageBackend",
    "ImageFormat",
    "ImageOutput",
    "ImageRequest",
    "ImageSize",
    "PartialImage",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "toolcrib.embedded.images.backend": (
                "GeneratedImage",
                "ImageBackend",
                "ImageFormat",
                "ImageOutput",
                "ImageRequest",
                "ImageSize",
                "PartialImage",
            ),
            "toolcrib.embedded.images.chart_images": ("ChartImages",),
        },
    )

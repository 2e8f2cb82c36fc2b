"""Image backends of the tool `image_generation`, and the one in the box, which draws charts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolcrib._lazy import lazy_exports

if TYPE_CHECKING:
    from toolcrib.embedded.images.backend import (
        DrawRequest,
        FinishedImage,
        ImageBackend,
        ImageFormat,
        ImageOutput,
        ImageSize,
        UnfinishedImage,
    )
    from toolcrib.embedded.images.chart_images import ChartImages

__all__ = [
    "ChartImages",
    "DrawRequest",
    "FinishedImage",
    "ImageBackend",
    "ImageFormat",
    "ImageOutput",
    "ImageSize",
    "UnfinishedImage",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "toolcrib.embedded.images.backend": (
                "FinishedImage",
                "ImageBackend",
                "ImageFormat",
                "ImageOutput",
                "DrawRequest",
                "ImageSize",
                "UnfinishedImage",
            ),
            "toolcrib.embedded.images.chart_images": ("ChartImages",),
        },
    )

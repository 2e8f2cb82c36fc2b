"""The image backend in the box: charts, drawn from the numbers in the prompt."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from toolcrib.embedded.images.backend import (
    DrawRequest,
    FinishedImage,
    ImageFormat,
    ImageOutput,
    ImageSize,
    UnfinishedImage,
)
from toolcrib.embedded.images.canvas import RASTER_FORMATS, Drawing, has_raster, pixels, svg
from toolcrib.embedded.images.chart import FORM, draw_chart, read_chart

DEFAULT_SIZE: Final = ImageSize(800, 500)


class ChartImages:
    """Draws bar, line, scatter and pie charts; nothing else. Equal prompts give equal images.

    It always writes SVG, and with Pillow also PNG, JPEG and WebP.
    """

    about = f"Draw a chart. {FORM}"

    @property
    def formats(self) -> tuple[ImageFormat, ...]:
        """PNG first, if Pillow is there."""
        return (*RASTER_FORMATS, "svg") if has_raster() else ("svg",)

    async def draw(self, request: DrawRequest) -> AsyncIterator[ImageOutput]:
        """Draw the chart; while it is partial, only its first values."""
        chart = read_chart(request.prompt)
        size, format_ = request.size or DEFAULT_SIZE, request.format or self.formats[0]
        for number in range(request.partial_images):
            part = chart.first((number + 1) / (request.partial_images + 1))
            drawing = draw_chart(part, size, whole=chart, is_transparent=request.is_transparent)
            yield UnfinishedImage(await _written(drawing, format_))
        drawing = draw_chart(chart, size, is_transparent=request.is_transparent)
        data = await _written(drawing, format_)
        yield FinishedImage(data, format_, size, chart.summary)


async def _written(drawing: Drawing, format_: ImageFormat) -> bytes:
    if format_ == "svg":
        return svg(drawing)
    return await asyncio.to_thread(pixels, drawing, format_)

"""`image_generation`: images made by the configured image backend."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final, cast

from toolcrib.embedded.backend import BackendTool
from toolcrib.embedded.database import new_id
from toolcrib.embedded.faults import invalid
from toolcrib.embedded.images.backend import (
    DrawRequest,
    FinishedImage,
    ImageFormat,
    ImageSize,
    UnfinishedImage,
)
from toolcrib.embedded.tools.tool import ToolAnswer
from toolcrib.errors import BackendFailed

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from toolcrib.embedded.images.backend import ImageBackend, ImageOutput
    from toolcrib.embedded.responses.request import ResponseRequest
    from toolcrib.embedded.responses.writer import ResponseWriter
    from toolcrib.embedded.tools.tool import OpenTool, RequestContext

TYPE: Final = "image_generation"
MAX_SIDE: Final = 4096
MAX_PARTIAL: Final = 3
MAX_IMAGE_BYTES: Final = 20 * 1024 * 1024
_SIZE: Final = re.compile(r"([1-9][0-9]{1,3})x([1-9][0-9]{1,3})")
_UNSUPPORTED: Final = ("input_image_mask", "input_fidelity", "frame_count", "frame_duration_ms")
_PARAMETERS: Final = {
    "type": "object",
    "properties": {"prompt": {"type": "string", "description": "What to draw."}},
    "required": ["prompt"],
    "additionalProperties": False,
}


class ImageGenerationKind:
    """Opens the image generation of a provider that has an image backend."""

    types = frozenset({TYPE})

    def __init__(self, backend: ImageBackend | None) -> None:
        self._backend = backend

    def check(self, config: Mapping[str, Any], param: str) -> None:
        """Raises `ApiFault`."""
        if self._backend is None:
            raise invalid(
                "This provider makes no images: configure an image backend, such as --images "
                "charts.",
                f"{param}.type",
            )
        if config.get("action") == "edit":
            raise invalid("Images are not edited here, only made.", f"{param}.action")
        for name in _UNSUPPORTED:
            if config.get(name) is not None:
                raise invalid(f"'{name}' is not supported here.", f"{param}.{name}")
        _request_of(config, self._backend, param)

    async def open(
        self, config: Mapping[str, Any], request: ResponseRequest, context: RequestContext
    ) -> OpenTool:
        """Open the tool for one request."""
        assert self._backend is not None, "the request was checked"
        return _OpenImages(self._backend, config, is_streamed=bool(request.stream))


class _OpenImages:
    def __init__(
        self, backend: ImageBackend, config: Mapping[str, Any], *, is_streamed: bool
    ) -> None:
        self._backend = backend
        self._config = config
        self._is_streamed = is_streamed

    @property
    def backend_tools(self) -> Sequence[BackendTool]:
        """One: `image_generation`."""
        return [BackendTool(TYPE, self._backend.about, _PARAMETERS)]

    async def close(self) -> None:
        """Nothing to release."""

    async def run(
        self, name: str, arguments: Mapping[str, Any], writer: ResponseWriter
    ) -> ToolAnswer:
        """Make one image."""
        item_id = new_id("ig")
        index = writer.add_item(
            {"id": item_id, "type": "image_generation_call", "status": "in_progress"}
        )
        writer.emit("image_generation_call.in_progress", index)
        writer.emit("image_generation_call.generating", index)
        prompt = arguments.get("prompt")
        text = prompt if isinstance(prompt, str) else json.dumps(prompt or dict(arguments))
        try:
            image = await self._draw(text, index, writer)
        except BackendFailed as error:
            fault = {"type": "image_generation_error", "message": str(error)}
            writer.finish_item(index, status="failed", result=None, error=fault)
            return ToolAnswer(item_id, f"No image was made: {error}")
        writer.emit("image_generation_call.completed", index)
        writer.finish_item(index, status="completed", **self._fields(image))
        about = f"The user sees the image: {image.revised_prompt}, {image.format}, {image.size}."
        return ToolAnswer(item_id, about, {"format": image.format, "size": str(image.size)})

    async def _draw(self, prompt: str, index: int, writer: ResponseWriter) -> FinishedImage:
        request = _request_of(self._config, self._backend, "tools", prompt)
        if not self._is_streamed:
            request = DrawRequest(prompt, request.size, request.format, request.is_transparent)
        count, image = 0, None
        drawing = cast("AsyncGenerator[ImageOutput]", self._backend.draw(request))
        async with aclosing(drawing):
            async for output in drawing:
                if len(output.data) > MAX_IMAGE_BYTES:
                    raise BackendFailed(f"the image has more than {MAX_IMAGE_BYTES} bytes")
                match output:
                    case UnfinishedImage():
                        writer.emit(
                            "image_generation_call.partial_image",
                            index,
                            partial_image_index=count,
                            partial_image_b64=base64.b64encode(output.data).decode(),
                        )
                        count += 1
                    case FinishedImage():
                        image = output
        if image is None:
            raise BackendFailed("the image backend made no image")
        return image

    def _fields(self, image: FinishedImage) -> dict[str, Any]:
        return {
            "result": base64.b64encode(image.data).decode(),
            "revised_prompt": image.revised_prompt,
            "output_format": image.format,
            "size": str(image.size),
            "background": self._config.get("background") or "opaque",
            "quality": self._config.get("quality") or "auto",
            "action": "generate",
        }


def _request_of(
    config: Mapping[str, Any], backend: ImageBackend, param: str, prompt: str = ""
) -> DrawRequest:
    """The request of a configuration. Raises `ApiFault`."""
    format_, partial = config.get("output_format"), config.get("partial_images") or 0
    if format_ is not None and format_ not in backend.formats:
        have = ", ".join(backend.formats)
        raise invalid(
            f"The output_format '{str(format_)[:20]}' cannot be written here; there is {have}.",
            f"{param}.output_format",
        )
    if type(partial) is not int or not 0 <= partial <= MAX_PARTIAL:
        raise invalid(f"'partial_images' is 0 to {MAX_PARTIAL}.", f"{param}.partial_images")
    background = config.get("background") or "auto"
    if background not in ("auto", "opaque", "transparent"):
        raise invalid("'background' is auto, opaque or transparent.", f"{param}.background")
    if background == "transparent" and format_ == "jpeg":
        raise invalid("A JPEG image has no transparent background.", f"{param}.background")
    return DrawRequest(
        prompt,
        _size(config.get("size"), f"{param}.size"),
        cast("ImageFormat | None", format_),
        background == "transparent",
        partial,
    )


def _size(size: object, param: str) -> ImageSize | None:
    if size in (None, "auto"):
        return None
    sides = _SIZE.fullmatch(size) if isinstance(size, str) else None
    if sides is None or max(int(sides[1]), int(sides[2])) > MAX_SIDE:
        raise invalid(f"'size' is WIDTHxHEIGHT, each at most {MAX_SIDE}.", param)
    return ImageSize(int(sides[1]), int(sides[2]))

"""Image generation on the Responses API."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any, ClassVar, Final

from toolcrib.adapters.codec import Codec, Invocation, RawItem, failure_of, status_of
from toolcrib.adapters.items import mapping_of, maybe_text, text_of
from toolcrib.adapters.support import check, options_of
from toolcrib.tools.image_generation import (
    KIND,
    GeneratedImage,
    ImageError,
    ImageGenerationConfig,
    ImageGenerationResult,
    ImageMask,
    ImageRequest,
    SvgAuthor,
)
from toolcrib.tools.provider_tools import HostedTool

CALL: Final = "image_generation_call"

_AS_THEY_ARE: Final = (
    "action",
    "background",
    "complexity",
    "frame_count",
    "frame_duration_ms",
    "input_fidelity",
    "model",
    "moderation",
    "output_compression",
    "output_format",
    "partial_images",
    "quality",
    "size",
)
_SIGNATURES: Final = (
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"\xff\xd8\xff", "jpeg"),
    (b"GIF8", "gif"),
    (b"<svg", "svg"),
    (b"<?xml", "svg"),
)


class OpenAIImageGenerationCodec(Codec[ImageGenerationConfig, ImageGenerationResult]):
    """Speaks for `image_generation`. A call holds its image; a call without one has failed,
    whatever its status says.
    """

    kind = KIND
    call_types: ClassVar[frozenset[str]] = frozenset({CALL})
    params_type: ClassVar[type[Any] | None] = ImageRequest
    result_type: ClassVar[type[Any] | None] = GeneratedImage

    def serialize(self, tool: HostedTool[ImageGenerationConfig]) -> dict[str, Any]:
        config = tool.config
        check("openai", KIND, options_of(config))
        options = {name: getattr(config, name) for name in _AS_THEY_ARE}
        entry: dict[str, Any] = {"type": "image_generation"}
        entry |= {name: value for name, value in options.items() if value is not None}
        if config.mask is not None:
            entry["input_image_mask"] = _mask(config.mask)
        if config.svg is not None:
            entry["svg"] = _svg(config.svg)
        return entry

    def invocation(
        self, item: RawItem, items: Sequence[RawItem], tool: HostedTool[ImageGenerationConfig]
    ) -> Invocation:
        image = _read(item)
        failure = image.error.message if image.error else None
        return Invocation(
            item_id=text_of(item, "id"),
            kind=self.kind,
            params=ImageRequest(_prompt(item), maybe_text(item, "action")),
            value=image,
            message=failure or image.render(),
            success=failure is None,
            error=failure,
            raw=item,
        )

    def combine(
        self,
        values: Sequence[GeneratedImage],
        items: Sequence[RawItem],
        tool: HostedTool[ImageGenerationConfig],
    ) -> ImageGenerationResult | None:
        return ImageGenerationResult.of(values)


def _mask(mask: ImageMask) -> dict[str, str]:
    wire = {"file_id": mask.file_id, "image_url": mask.image_url}
    return {key: value for key, value in wire.items() if value is not None}


def _svg(author: SvgAuthor) -> dict[str, Any]:
    wire: dict[str, Any] = {}
    if author.model is not None:
        wire["model"] = author.model
    if author.effort is not None:
        wire["reasoning"] = {"effort": author.effort}
    return wire


def _read(item: RawItem) -> GeneratedImage:
    """The image of a call, or why there is none."""
    failure = failure_of(item)
    if failure is not None:
        return _no_image(item, failure)
    head, _, text = text_of(item, "result").rpartition(",")
    if not text:
        status = maybe_text(item, "status")
        return _no_image(item, f"{CALL} has no image" + (f": {status}" if status else ""))
    return GeneratedImage(
        base64=text,
        format=maybe_text(item, "output_format") or _format(head, text),
        size=maybe_text(item, "size"),
        quality=maybe_text(item, "quality"),
        background=maybe_text(item, "background"),
        prompt=_prompt(item),
    )


def _no_image(item: RawItem, message: str) -> GeneratedImage:
    error = mapping_of(item, "error")
    code = error.get("code")
    why = ImageError(
        message=message,
        code=str(code) if isinstance(code, str | int) else None,
        type=maybe_text(error, "type"),
        param=maybe_text(error, "param"),
    )
    return GeneratedImage("", prompt=_prompt(item), status=status_of(item, message), error=why)


def _prompt(item: RawItem) -> str | None:
    """The prompt as it was drawn; some providers of this API tell only the one they were given."""
    return maybe_text(item, "revised_prompt") or maybe_text(item, "prompt")


def _format(head: str, text: str) -> str | None:
    """The format by the head of a `data:` URL, else by the first bytes of the image."""
    if head.startswith("data:image/"):
        return head.removeprefix("data:image/").partition(";")[0].partition("+")[0] or None
    try:
        data = base64.b64decode(text[:64], validate=True)
    except ValueError:
        return None
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "webp"
    start = data.lstrip()
    return next((name for mark, name in _SIGNATURES if start.startswith(mark)), None)
